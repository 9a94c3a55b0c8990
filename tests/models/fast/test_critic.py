"""The fast backend against the plain critic: values and gradients, every option, in float32 to 1e-5."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from top_erl.models import CriticEnsemble, Sequences, TransformerCritic
from top_erl.models.fast import critic as module
from top_erl.models.fast.attention import LONGEST_BATCHED
from top_erl.models.fast.critic import FastCritic, FastEnsemble
from top_erl.models.tools import frozen_copy

from ..critics import ACTION, STATE, fast_copy, plain_critic, sequences, small_config, with_actions

OPTIONS = [
    {},
    {"layer_norm": False},
    {"positions": "relative"},
    {"layers": 1},
    {"layers": 3, "heads": 4},
    {"layer_norm": False, "positions": "relative", "layers": 1},
]
LENGTHS = [1, 2, 5, 26, LONGEST_BATCHED + 2]
TOLERANCE = 1e-5


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(params=[False, True], ids=["all tokens", "without padding"])
def tails(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether padding is left out; by itself that depends on its size."""
    monkeypatch.setattr(module, "_LITTLE_PADDING", 0 if request.param else 1 << 60)


def _ensembles(count: int = 1, **settings: object) -> tuple[CriticEnsemble, FastEnsemble]:
    """The same critics in both backends, float32, as they are initialised and some noise."""
    config = small_config(**({"max_positions": 160, "width": 16} | settings))
    critics = [TransformerCritic(config, STATE, ACTION) for _ in range(count)]
    with torch.no_grad():
        for critic in critics:
            for parameter in critic.parameters():
                parameter.add_(0.1 * torch.randn(parameter.shape))
    return CriticEnsemble(critics), FastEnsemble([fast_copy(critic) for critic in critics])


def _close(ours: Tensor, expected: Tensor, name: str = "") -> None:
    """Relative to the largest entry: sums over many tokens are as exact as their terms."""
    scale = max(1.0, float(expected.abs().max()))
    torch.testing.assert_close(ours, expected, rtol=0, atol=TOLERANCE * scale, msg=lambda text: f"{name}: {text}")


def _compare(plain: CriticEnsemble, fast: FastEnsemble, given: Sequences) -> None:
    """Every question to both, and every gradient."""
    episodes, count, length = given.actions.shape[:3]
    weight = (torch.arange(length + 1) <= given.counts[:, None]).float()  # [K, L + 1]
    target = torch.randn(episodes, count, length + 1)
    with torch.no_grad():
        _close(fast(given) * weight, plain(given) * weight, "forward")
        times = torch.tensor([3, 0, 7])
        for own, other in zip(fast.target_values(given, times), plain.target_values(given, times), strict=True):
            _close(own, other, "target_values")
        _close(fast.last_value(given), plain.last_value(given), "last_value")
        _close(fast.state_value(given.states, times), plain.state_value(given.states, times), "state_value")
    errors = []
    for critics in (fast, plain):
        critics.zero_grad()
        error, value = critics.squared_error(given, target, weight)
        (3.0 * error).backward()
        errors.append((error.detach(), value))
    _close(errors[0][0], errors[1][0], "error")
    _close(errors[0][1], errors[1][1], "value")
    for (name, own), other in zip(fast.named_parameters(), plain.parameters(), strict=True):
        assert own.grad is not None, name
        _close(own.grad, other.grad, name)
    pull, gradients = torch.rand(len(plain), episodes, count), []
    for critics in (fast, plain):
        actions = given.actions.clone().requires_grad_()
        values = critics.action_values(with_actions(given, actions))
        gradients.append((values.detach(), *torch.autograd.grad((values * pull).sum(), actions)))
    for own, other in zip(*gradients, strict=True):
        _close(own, other, "action_values")


@pytest.mark.usefixtures("tails")
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_fast_is_plain(options: dict[str, object], length: int) -> None:
    _compare(*_ensembles(**options), sequences(length, tail=(length + 1) // 2, dtype=torch.float32))


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("tokens", [1, 50, 10_000], ids=["one episode a piece", "some", "one piece"])
@pytest.mark.usefixtures("tails")
def test_pieces_and_ensembles(monkeypatch: pytest.MonkeyPatch, count: int, tokens: int) -> None:
    monkeypatch.setattr(FastCritic, "piece_tokens", tokens)
    plain, fast = _ensembles(count)
    given = sequences(5, tail=3, episodes=7, dtype=torch.float32)
    pieces = fast.members[0].pieces(given)
    assert [len(pieces), pieces[-1].stop] == [{1: 7, 50: 4, 10_000: 1}[tokens], 7]
    _compare(plain, fast, given)


@pytest.mark.parametrize("counts", [[5, 5, 5], [1, 5, 2], [3, 3, 3]], ids=str)
def test_sequences_of_any_length(monkeypatch: pytest.MonkeyPatch, counts: list[int]) -> None:
    monkeypatch.setattr(module, "_LITTLE_PADDING", 0)
    given = sequences(5, dtype=torch.float32)
    _compare(*_ensembles(), Sequences(given.states, given.starts, given.actions, torch.tensor(counts)))


@pytest.mark.parametrize("starts", [(4,), tuple(range(12))], ids=["one", "every state"])
@pytest.mark.parametrize("tokens", [1, 30, 10_000])
def test_one_sequence_or_one_of_every_state(
    monkeypatch: pytest.MonkeyPatch, starts: tuple[int, ...], tokens: int
) -> None:
    monkeypatch.setattr(FastCritic, "piece_tokens", tokens)
    _compare(*_ensembles(), sequences(4, starts, tail=1, dtype=torch.float32))


def test_standardised_inputs() -> None:
    plain, fast = _ensembles()
    given = sequences(5, dtype=torch.float32)
    for critics in (plain, fast):
        critics.fit_standardizers(3.0 * given.states + 1.0, 2.0 * given.actions - 1.0)
    _compare(plain, fast, given)


def test_double_precision_agrees_to_its_own_digits() -> None:
    plain = plain_critic()
    fast, given = fast_copy(plain), sequences(tail=2)
    torch.testing.assert_close(fast(given), plain(given), rtol=0, atol=1e-11)
    torch.testing.assert_close(fast.last_value(given), plain.last_value(given), rtol=0, atol=1e-11)


@torch.no_grad()
def test_no_states_to_value() -> None:
    fast, given = fast_copy(plain_critic()), sequences()
    assert fast.state_value(given.states, torch.arange(0)).shape == (3, 0)
    last, state = fast.target_values(given, torch.arange(0))
    assert state.shape == (3, 0)
    assert torch.equal(last, fast.last_value(given))


# ---- what is computed, and what is kept


@torch.no_grad()
def test_padding_is_left_out_only_where_that_saves_time(monkeypatch: pytest.MonkeyPatch) -> None:
    fast, given = fast_copy(plain_critic()), sequences(tail=2)
    assert fast(given)[:, -1, 3:].all()  # computed, though it means nothing
    monkeypatch.setattr(module, "_LITTLE_PADDING", 0)
    assert not fast(given)[:, -1, 3:].any()
    uneven = Sequences(given.states, given.starts, given.actions, torch.tensor([2, 6, 2]))
    assert fast(uneven).all()  # only the last sequence may be shorter


@torch.no_grad()
def test_values_do_not_see_what_is_padding() -> None:
    fast, given = fast_copy(plain_critic()), sequences()
    given = Sequences(given.states, given.starts, given.actions, torch.tensor([2, 4, 5]))
    before = fast.last_value(given)
    for k, first in enumerate(given.counts.tolist()):
        given.actions[:, k, first:] = 1e3
    assert torch.equal(fast.last_value(given), before)


@pytest.mark.parametrize("tokens", [1, 10_000])
def test_action_values_leave_the_weights_alone(monkeypatch: pytest.MonkeyPatch, tokens: int) -> None:
    monkeypatch.setattr(FastCritic, "piece_tokens", tokens)
    fast, given = fast_copy(plain_critic()), sequences()
    given.actions.requires_grad_()
    fast.action_values(given).sum().backward()
    assert all(parameter.grad is None and parameter.requires_grad for parameter in fast.parameters())
    frozen = frozen_copy(fast)
    frozen.action_values(given)
    assert not any(parameter.requires_grad for parameter in frozen.parameters())


@pytest.mark.parametrize("tokens", [1, 10_000])
def test_without_gradients_none_are_made(monkeypatch: pytest.MonkeyPatch, tokens: int) -> None:
    monkeypatch.setattr(FastCritic, "piece_tokens", tokens)
    plain, fast = _ensembles()
    given = sequences(dtype=torch.float32)
    target, weight = torch.randn(3, 3, 7), torch.ones(3, 7)
    monkeypatch.setattr(torch.autograd, "grad", None)  # must not be called
    with torch.no_grad():
        error, _ = fast.squared_error(given, target, weight)
        given.actions.requires_grad_()
        values = fast.action_values(given)
    assert not error.requires_grad
    assert not values.requires_grad
    _close(error, plain.squared_error(given, target, weight)[0].detach())


def test_gradients_of_pieces_can_be_asked_for_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FastCritic, "piece_tokens", 1)
    fast, given = _ensembles()[1], sequences(dtype=torch.float32)
    error, _ = fast.squared_error(given, torch.randn(3, 3, 7), torch.ones(3, 7))
    error.backward(retain_graph=True)
    once = [parameter.grad.clone() for parameter in fast.parameters()]
    error.backward()
    for parameter, gradient in zip(fast.parameters(), once, strict=True):
        torch.testing.assert_close(parameter.grad, 2.0 * gradient)


@torch.no_grad()
def test_weights_that_are_exchanged_are_noticed() -> None:
    """Nothing is remembered: a new tensor behind any parameter is used at once."""
    fast, given = fast_copy(plain_critic()), sequences()
    for name, parameter in list(fast.named_parameters()):
        before = fast(given)
        owner = fast.get_submodule(name.rpartition(".")[0])
        setattr(owner, name.rpartition(".")[2], torch.nn.Parameter(1.5 * parameter + 0.1))
        assert not torch.equal(fast(given), before), name
    other = fast_copy(plain_critic())
    fast.load_state_dict(other.state_dict(), assign=True)
    assert torch.equal(fast(given), other(given))


@torch.no_grad()
def test_positions_are_those_of_the_starts_given() -> None:
    fast, given = fast_copy(plain_critic()), sequences()
    before = fast(given)
    given.starts.add_(1)
    assert not torch.equal(fast(given), before)
    given.starts.sub_(1)
    assert torch.equal(fast(given), before)


def test_first_use_in_inference_mode_does_not_forbid_gradients() -> None:
    fast, given = fast_copy(plain_critic(positions="relative")), sequences(length=4)
    with torch.inference_mode():
        fast(given)
    fast(given).sum().backward()


# ---- bfloat16


@pytest.mark.parametrize("tokens", [50, 10_000], ids=["several pieces", "one piece"])
def test_bfloat16_is_close_to_plain(monkeypatch: pytest.MonkeyPatch, tokens: int) -> None:
    monkeypatch.setattr(FastCritic, "piece_tokens", tokens)
    plain, fast = _ensembles(width=64, heads=4)
    fast.use_bf16()
    given, weight = sequences(dtype=torch.float32), torch.ones(3, 7)
    target = torch.randn(3, 3, 7)
    with torch.no_grad():
        exact = plain(given)
        assert 0 < (fast(given) - exact).norm() / exact.norm() < 0.01
        for own, other in zip(
            fast.target_values(given, given.starts), plain.target_values(given, given.starts), strict=True
        ):
            assert own.dtype == torch.float32
            assert 0 < (own - other).norm() / other.norm() < 0.02
    for critics in (plain, fast):
        critics.squared_error(given, target, weight)[0].backward()
    for (name, own), other in zip(fast.named_parameters(), plain.parameters(), strict=True):
        assert own.grad.dtype == torch.float32, name
        assert (own.grad - other.grad).norm() / other.grad.norm() < 0.03, name
