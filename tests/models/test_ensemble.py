"""Several critics at once, the choice of the backend, and names that old checkpoints know."""

from __future__ import annotations

import pytest
import torch

from top_erl.errors import UserError
from top_erl.models import CriticEnsemble, TransformerCritic, make_critics
from top_erl.models import transformer as module
from top_erl.models.fast.critic import FastCritic, FastEnsemble
from top_erl.models.tools import frozen_copy

from .critics import ACTION, STATE, plain_critic, sequences, small_config

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@torch.no_grad()
def test_answers_of_independent_members_are_stacked() -> None:
    ensemble, given = CriticEnsemble(plain_critic() for _ in range(3)), sequences(tail=3)
    values, times = ensemble(given), torch.arange(5)
    last, state = ensemble.target_values(given, times)
    assert len(ensemble) == 3
    assert values.shape == (3, 3, 3, 7)
    for index, member in enumerate(ensemble.members):
        assert torch.equal(values[index], member(given))
        assert torch.equal(ensemble.action_values(given)[index], member.action_values(given))
        assert torch.equal(ensemble.last_value(given)[index], member.last_value(given))
        assert torch.equal(ensemble.state_value(given.states, times)[index], member.state_value(given.states, times))
        assert torch.equal(last[index], member.last_value(given))
        assert torch.equal(state[index], member.state_value(given.states, times))
    assert not torch.allclose(values[0], values[1], atol=1e-2)
    assert not torch.allclose(values[1], values[2], atol=1e-2)


@pytest.mark.parametrize("count", [1, 2])
def test_squared_error_by_hand(count: int) -> None:
    ensemble, given = CriticEnsemble(plain_critic() for _ in range(count)), sequences(tail=2)
    target, weight = torch.randn(3, 3, 7, dtype=torch.float64), torch.ones(3, 7, dtype=torch.float64)
    weight[2, 3:] = 0.0
    error, value = ensemble.squared_error(given, target, weight)
    total, first = 0.0, 0.0
    for member in ensemble.members:
        values = member(given)
        first += float(values[..., 0].sum().detach()) / (count * 9)
        for k in range(3):
            outputs = 7 if k < 2 else 3  # the other four are padding, and count in the mean
            total += float(((values - target)[:, k, :outputs] ** 2).sum().detach())
    assert float(error.detach()) == pytest.approx(total / (count * 3 * 3 * 7))
    assert float(value) == pytest.approx(first)
    assert not value.requires_grad
    error.backward()
    assert all(parameter.grad is not None for parameter in ensemble.parameters())


def test_standardizers_are_those_of_the_data() -> None:
    ensemble, given = make_critics(small_config(), STATE, ACTION, 2, CPU), sequences(dtype=torch.float32)
    ensemble.fit_standardizers(given.states, given.actions)
    for member in ensemble.members:
        torch.testing.assert_close(member.standardize_state.mean, given.states.flatten(0, 1).mean(0))
        torch.testing.assert_close(member.standardize_action.spread, given.actions.flatten(0, 2).std(0))


# ---- backends


@pytest.mark.parametrize(
    ("settings", "device", "fast"),
    [
        ({}, "cpu", True),
        ({"backend": "fast"}, "cpu", True),
        ({"backend": "plain"}, "cpu", False),
        ({"dropout": 0.1}, "cpu", False),
        ({"layer_norm": False, "positions": "relative"}, "cpu", True),
        ({}, "meta", False),
    ],
    ids=str,
)
def test_auto_is_fast_wherever_fast_can(settings: dict[str, object], device: str, fast: bool) -> None:
    critics = make_critics(small_config(**settings), STATE, ACTION, 2, torch.device(device))
    assert type(critics) is (FastEnsemble if fast else CriticEnsemble)
    assert all(type(member) is (FastCritic if fast else TransformerCritic) for member in critics.members)
    assert {parameter.device.type for parameter in critics.parameters()} == {device}
    assert type(frozen_copy(critics)) is type(critics)


@pytest.mark.parametrize(
    ("settings", "device", "reason"), [({}, "meta", "CPU only, not on meta"), ({"dropout": 0.1}, "cpu", "no dropout")]
)
def test_fast_refuses_what_it_cannot_do(settings: dict[str, object], device: str, reason: str) -> None:
    with pytest.raises(UserError, match=f"critic.backend fast .*{reason}: use --critic.backend auto or plain"):
        make_critics(small_config(backend="fast", **settings), STATE, ACTION, 1, torch.device(device))


def test_fast_refuses_a_critic_with_other_state_tokens() -> None:
    class Other(FastCritic):
        def state_tokens(self, states: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
            return super().state_tokens(states, times)

    with pytest.raises(UserError, match="derive your critic from TransformerCritic"):
        Other(small_config(), STATE, ACTION)


def test_backends_have_the_same_weights_for_a_seed() -> None:
    states = []
    for backend in ("plain", "fast"):
        torch.manual_seed(5)
        states.append(make_critics(small_config(backend=backend), STATE, ACTION, 2, CPU).state_dict())
    assert list(states[0]) == list(states[1])
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_seeds_give_the_weights_they_always_gave() -> None:
    """Sums of some weights, recorded with the first version of the critic."""
    torch.manual_seed(7)
    weights = make_critics(small_config(), STATE, ACTION, 2, CPU).state_dict()
    recorded = {
        "members.0.state_encoder.weight": -0.017260048123716842,
        "members.0.blocks.1.mlp_out.weight": -0.2436170801456683,
        "members.0.position_table.weight": 0.18638536188518628,
        "members.1.blocks.0.query_key_value.weight": 0.2792147014042712,
        "members.1.head.weight": 0.10443778149783611,
    }
    for name, total in recorded.items():
        assert float(weights[name].double().sum()) == pytest.approx(total, rel=1e-6), name


def test_plain_bfloat16_is_refused_where_it_may_end_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "torch_is_safe", lambda device: False)
    with pytest.raises(UserError, match=r"not safe on this processor: use --precision float32"):
        make_critics(small_config(backend="plain"), STATE, ACTION, 1, CPU).use_bf16()
    make_critics(small_config(backend="fast"), STATE, ACTION, 1, CPU).use_bf16()  # has a route of its own


# ---- checkpoints


def test_parameters_have_the_names_of_old_checkpoints() -> None:
    names = list(make_critics(small_config(layers=1), STATE, ACTION, 1, CPU).state_dict())
    inputs = [f"standardize_{kind}.{name}" for kind in ("state", "action") for name in ("mean", "spread", "fitted")]
    layers = ["norm_attention", "query_key_value", "attention_out", "norm_mlp", "mlp_in", "mlp_out"]
    assert names == [
        f"members.0.{name}"
        for name in [
            *inputs,
            *("state_encoder.weight", "action_encoder.weight", "position_table.weight"),
            *(f"blocks.0.{layer}.{kind}" for layer in layers for kind in ("weight", "bias")),
            *("norm_out.weight", "norm_out.bias", "head.weight"),
        ]
    ]
