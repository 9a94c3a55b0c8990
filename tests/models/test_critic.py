"""The transformer critic, pinned to a second implementation with loops over tokens and heads."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from top_erl.errors import UserError
from top_erl.models import CriticConfig, CriticEnsemble, TransformerCritic
from top_erl.models.attention import LONGEST_BATCHED
from top_erl.models.tools import parameters_of

STATE, ACTION, LENGTH = 5, 4, 6
STARTS = torch.tensor([0, 2, 9])
SMALL = {"width": 8, "heads": 2, "layers": 2, "max_positions": 16}


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def _critic(**settings: object) -> TransformerCritic:
    """A small critic in float64 whose weights are large enough for every part to matter."""
    critic = TransformerCritic(CriticConfig(**(SMALL | settings)), STATE, ACTION).double()  # type: ignore[arg-type]
    for parameter in critic.parameters():
        nn.init.normal_(parameter, std=0.5)
    return critic.eval()


def _inputs(episodes: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    state = torch.randn(episodes, len(STARTS), STATE, dtype=torch.float64)
    actions = torch.randn(episodes, len(STARTS), LENGTH, ACTION, dtype=torch.float64)
    return state, actions, STARTS


# ---- a plain second implementation


def _plain_norm(vector: Tensor, norm: nn.Module | None) -> Tensor:
    if norm is None or isinstance(norm, nn.Identity):
        return vector
    assert isinstance(norm, nn.LayerNorm)
    mean = vector.sum() / len(vector)
    variance = ((vector - mean) ** 2).sum() / len(vector)
    return (vector - mean) / torch.sqrt(variance + 1e-5) * norm.weight + norm.bias


def _plain_linear(vector: Tensor, layer: nn.Linear) -> Tensor:
    result = torch.stack([(row * vector).sum() for row in layer.weight])
    return result if layer.bias is None else result + layer.bias


def _plain_block(tokens: list[Tensor], block: nn.Module, heads: int) -> list[Tensor]:
    width = len(tokens[0])
    size = width // heads
    projected = [_plain_linear(_plain_norm(t, block.norm_attention), block.query_key_value) for t in tokens]
    attended = []
    for i in range(len(tokens)):
        parts = []
        for head in range(heads):
            columns = slice(head * size, (head + 1) * size)
            query = projected[i][:width][columns]
            keys = [projected[j][width : 2 * width][columns] for j in range(i + 1)]  # only what came before
            values = [projected[j][2 * width :][columns] for j in range(i + 1)]
            scores = [math.exp(float((query * key).sum()) / math.sqrt(size)) for key in keys]
            parts.append(sum(score / sum(scores) * value for score, value in zip(scores, values, strict=True)))
        attended.append(tokens[i] + _plain_linear(torch.cat(parts), block.attention_out))
    result = []
    for token in attended:
        hidden = _plain_linear(_plain_norm(token, block.norm_mlp), block.mlp_in)
        hidden = torch.stack([0.5 * x * (1.0 + math.erf(float(x) / math.sqrt(2.0))) for x in hidden])
        result.append(token + _plain_linear(hidden, block.mlp_out))
    return result


def _plain_forward(critic: TransformerCritic, state: Tensor, actions: Tensor, start: int) -> list[float]:
    """`[V, Q_1, …, Q_L]` of one segment."""
    table = critic.position_table.weight
    first = start if critic.config.positions == "absolute" else 0
    tokens = [_plain_linear(state, critic.state_encoder) + table[first]]
    for j, action in enumerate(actions):
        tokens.append(_plain_linear(action, critic.action_encoder) + table[first + j])
    for block in critic.blocks:
        tokens = _plain_block(tokens, block, critic.config.heads)
    return [float(_plain_linear(_plain_norm(t, critic.norm_out), critic.head)) for t in tokens]


@pytest.mark.parametrize("positions", ["absolute", "relative"])
@pytest.mark.parametrize("layer_norm", [True, False], ids=["norm", "no norm"])
@torch.no_grad()
def test_forward_equals_the_plain_implementation(positions: str, layer_norm: bool) -> None:
    critic = _critic(positions=positions, layer_norm=layer_norm)
    state, actions, starts = _inputs(2)
    values = critic(state, actions, starts)
    assert values.shape == (2, 3, LENGTH + 1)
    for b in range(2):
        for k, start in enumerate(starts.tolist()):
            plain = _plain_forward(critic, state[b, k], actions[b, k], start)
            torch.testing.assert_close(values[b, k], torch.tensor(plain, dtype=torch.float64), rtol=1e-10, atol=1e-10)


@torch.no_grad()
def test_single_precision_equals_the_plain_implementation() -> None:
    critic = TransformerCritic(CriticConfig(**SMALL), STATE, ACTION)  # type: ignore[arg-type]
    state, actions, starts = _inputs(1)
    values = critic(state.float(), actions.float(), starts)
    exact = _plain_forward(critic.double(), state[0, 1], actions[0, 1], 2)
    torch.testing.assert_close(values[0, 1].double(), torch.tensor(exact, dtype=torch.float64), rtol=0, atol=1e-5)


# ---- what the tokens see


@torch.no_grad()
def test_an_action_changes_only_what_comes_after_it() -> None:
    critic = _critic()
    state, actions, starts = _inputs()
    before = critic(state, actions, starts)
    for j in range(LENGTH):
        changed = actions.clone()
        changed[:, :, j] += 1.0
        after = critic(state, changed, starts)
        assert torch.equal(after[..., : j + 1], before[..., : j + 1])  # V, Q_1 … Q_j
        assert ((after - before)[..., j + 1 :].abs() > 1e-6).all()  # Q_{j+1} is the first that sees it


@torch.no_grad()
def test_the_state_changes_everything() -> None:
    critic = _critic()
    state, actions, starts = _inputs()
    assert ((critic(state + 1.0, actions, starts) - critic(state, actions, starts)).abs() > 1e-6).all()


@pytest.mark.parametrize("positions", ["absolute", "relative"])
@torch.no_grad()
def test_value_output_is_the_value_of_the_state_alone(positions: str) -> None:
    critic = _critic(positions=positions)
    state, actions, starts = _inputs()
    _, alone = critic.target_values((state, actions, starts), torch.tensor([1, 2, 3]), None, (state, starts))
    torch.testing.assert_close(alone, critic(state, actions, starts)[..., 0])


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("layer_norm", [True, False], ids=["norm", "no norm"])
@torch.no_grad()
def test_value_of_a_sequence_is_one_output_of_all(layers: int, layer_norm: bool) -> None:
    critic = _critic(layers=layers, layer_norm=layer_norm)
    state, actions, starts = _inputs()
    values = critic(state, actions, starts)
    for count in ([1, 2, 3], [LENGTH, 4, 1], [LENGTH] * 3):
        chosen = critic.sequence_value(state, actions, starts, torch.tensor(count))
        assert chosen.shape == (3, 3)
        for k, index in enumerate(count):
            torch.testing.assert_close(chosen[:, k], values[:, k, index], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("count", [1, 3])
@torch.no_grad()
def test_a_short_last_segment_costs_nothing_beyond_its_end(layers: int, count: int) -> None:
    critic = _critic(layers=layers)
    state, actions, starts = (inputs[-count:] if inputs.dim() == 1 else inputs[:, -count:] for inputs in _inputs())
    values = critic(state, actions, starts)
    for tail in (1, 3, LENGTH):
        cut = critic(state, actions, starts, tail)
        torch.testing.assert_close(cut[:, :-1], values[:, :-1], rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(cut[:, -1, : tail + 1], values[:, -1, : tail + 1], rtol=1e-10, atol=1e-10)
        assert not cut[:, -1, tail + 1 :].any()
        valid = torch.tensor([LENGTH] * (count - 1) + [tail])
        chosen = critic.sequence_value(state, actions, starts, valid, tail)
        expected = critic.sequence_value(state, actions, starts, valid)
        torch.testing.assert_close(chosen, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("tail", [None, 2])
@torch.no_grad()
def test_values_of_sequences_and_states_together_are_those_of_each(layers: int, tail: int | None) -> None:
    critic = _critic(layers=layers)
    state, actions, starts = _inputs()
    others, places = torch.randn(3, 5, STATE, dtype=torch.float64), torch.arange(2, 7)
    count = torch.tensor([LENGTH, LENGTH, 2])
    sequence, alone = critic.target_values((state, actions, starts), count, tail, (others, places))
    expected = critic(state, actions, starts).gather(2, count.expand(3, 3).unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(sequence, expected, rtol=1e-10, atol=1e-10)
    expected = critic(others, torch.zeros(3, 5, 1, ACTION, dtype=torch.float64), places)[..., 0]
    torch.testing.assert_close(alone, expected, rtol=1e-10, atol=1e-10)


@torch.no_grad()
def test_positions_are_those_of_the_starts_given() -> None:
    """What is remembered of one cut is not taken for another."""
    critic = _critic()
    state, actions, starts = _inputs()
    values = [critic(state, actions, starts + shift) for shift in (0, 1, 0)]
    assert torch.equal(values[0], values[2])
    assert not torch.equal(values[0], values[1])
    shifted = starts.clone()
    assert torch.equal(critic(state, actions, shifted), values[0])
    shifted += 1
    assert torch.equal(critic(state, actions, shifted), values[1])
    with torch.inference_mode():
        assert torch.equal(critic(state, actions, starts + 1), values[1])


@torch.no_grad()
def test_weights_that_are_exchanged_are_noticed() -> None:
    critic, other = _critic(), _critic()
    for parameter in other.parameters():
        parameter.mul_(1.5)
    inputs = _inputs()
    assert not torch.equal(critic(*inputs), other(*inputs))
    critic.load_state_dict(other.state_dict(), assign=True)
    assert torch.equal(critic(*inputs), other(*inputs))
    assert parameters_of(critic)[0] is next(critic.parameters())


@torch.no_grad()
def test_value_of_a_sequence_does_not_see_what_follows() -> None:
    critic = _critic()
    state, actions, starts = _inputs()
    count = torch.tensor([2, 4, 5])
    before = critic.sequence_value(state, actions, starts, count)
    for k, first in enumerate(count.tolist()):
        actions[:, k, first:] = 1e3
    assert torch.equal(critic.sequence_value(state, actions, starts, count), before)


@torch.no_grad()
def test_absolute_positions_count_from_the_start_of_the_episode() -> None:
    state, actions, starts = _inputs()
    for positions, depends in (("absolute", True), ("relative", False)):
        critic = _critic(positions=positions)
        moved = critic(state, actions, starts + 1)
        assert bool(((moved - critic(state, actions, starts)).abs() > 1e-6).all()) == depends


@torch.no_grad()
def test_state_and_first_action_share_one_row_of_the_table() -> None:
    critic = _critic()
    state, actions, starts = _inputs()
    critic.position_table.weight.zero_()
    critic.position_table.weight[2] = torch.randn(8, dtype=torch.float64)
    plain = critic(state, actions, torch.tensor([10, 10, 10]))  # ends at row 15: no row but 2 is set
    moved = critic(state, actions, torch.tensor([2, 1, 3]))
    differs = (moved - plain).abs() > 1e-9
    assert differs[:, 0].all()  # start 2: the state already has the row
    assert not differs[:, 1, :2].any()  # start 1: V and Q_1 don't
    assert differs[:, 1, 2:].all()  # the second action has index 2
    assert not differs[:, 2].any()  # start 3 never meets it
    assert starts.tolist() == [0, 2, 9]


@torch.no_grad()
def test_padding_beyond_the_table_reuses_its_last_row() -> None:
    critic = _critic()
    state, actions, _ = _inputs()
    values = critic(state, actions, torch.tensor([12, 12, 12]))  # indices 12 … 17 of 16
    inside = critic(state, actions[:, :, :4], torch.tensor([12, 12, 12]))
    torch.testing.assert_close(values[..., :5], inside)
    assert values.isfinite().all()


# ---- how it starts


def test_parameter_count_of_the_paper() -> None:
    critic = TransformerCritic(CriticConfig(), state_dim=29, action_dim=14)
    width, norm = 128, 2 * 128
    encoders = 29 * width + 14 * width
    table = 1024 * width
    block = 2 * norm + (width * 3 * width + 3 * width) + (width * width + width)
    block += (width * 4 * width + 4 * width) + (4 * width * width + width)
    assert encoders + table + 2 * block + norm + width == 533_504
    assert sum(parameter.numel() for parameter in critic.parameters()) == 533_504


@pytest.mark.parametrize("length", [LENGTH, LONGEST_BATCHED + 1], ids=["short", "long"])
@pytest.mark.parametrize("positions", ["absolute", "relative"])
def test_prefix_values_are_those_of_forward_with_their_gradient(length: int, positions: str) -> None:
    critic = _critic(positions=positions, max_positions=2 * LONGEST_BATCHED).requires_grad_(False)
    state = torch.randn(2, len(STARTS), STATE, dtype=torch.float64)
    actions = torch.randn(2, len(STARTS), length, ACTION, dtype=torch.float64, requires_grad=True)
    values, expected = critic.prefix_values(state, actions, STARTS), critic(state, actions, STARTS)[..., 1:]
    torch.testing.assert_close(values, expected, rtol=0, atol=1e-11)
    pull = torch.randn(values.shape, dtype=torch.float64)
    ours, theirs = (torch.autograd.grad((out * pull).sum(), actions)[0] for out in (values, expected))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)


def test_prefix_values_of_weights_that_learn_have_all_gradients() -> None:
    critic, other = _critic(), _critic()
    other.load_state_dict(critic.state_dict())
    state, actions, starts = _inputs()
    critic.prefix_values(state, actions, starts).sum().backward()
    other(state, actions, starts)[..., 1:].sum().backward()
    assert other.state_encoder.weight.grad is not None
    torch.testing.assert_close(critic.state_encoder.weight.grad, other.state_encoder.weight.grad)
    with torch.no_grad():  # the short way, though nothing is frozen
        values = critic.prefix_values(state, actions, starts)
        torch.testing.assert_close(values, critic(state, actions, starts)[..., 1:])


def test_first_use_in_inference_mode_does_not_forbid_gradients() -> None:
    critic = _critic(positions="relative")
    state, actions, starts = (tensor[..., :1, :] if tensor.dim() == 4 else tensor for tensor in _inputs())
    with torch.inference_mode():
        critic(state, actions, starts)
    critic(state, actions, starts).sum().backward()


@torch.no_grad()
def test_initial_weights() -> None:
    critic = TransformerCritic(CriticConfig(), state_dim=29, action_dim=14)
    for name, parameter in critic.named_parameters():
        if "norm" in name:
            assert (parameter == (1.0 if name.endswith("weight") else 0.0)).all(), name
        elif name.endswith("bias"):
            assert not parameter.any(), name
        else:
            # 0.02, and 0.02/√(2·2 layers) = 0.01 where a block writes to the residual stream
            std = 0.01 if name.endswith(("attention_out.weight", "mlp_out.weight")) else 0.02
            spread = 5.0 * std / math.sqrt(parameter.numel())  # five standard errors
            assert abs(float(parameter.mean())) < spread, name
            assert abs(float(parameter.std()) - std) < spread, name


@torch.no_grad()
def test_residual_scale_follows_the_number_of_layers() -> None:
    critic = TransformerCritic(CriticConfig(layers=8), state_dim=2, action_dim=2)
    for block in critic.blocks:
        assert float(block.mlp_out.weight.std()) == pytest.approx(0.02 / 4.0, rel=0.02)


def test_encoders_and_head_have_no_bias() -> None:
    critic = TransformerCritic(CriticConfig(**SMALL), STATE, ACTION)  # type: ignore[arg-type]
    assert critic.state_encoder.bias is None
    assert critic.action_encoder.bias is None
    assert critic.head.bias is None
    assert critic.blocks[0].query_key_value.bias is not None


def test_without_layer_norm_there_is_none() -> None:
    critic = _critic(layer_norm=False)
    assert not [module for module in critic.modules() if isinstance(module, nn.LayerNorm)]


def test_gradients_reach_every_parameter() -> None:
    critic = _critic()
    critic(*_inputs()).square().sum().backward()
    for name, parameter in critic.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0.0, name


# ---- dropout


@torch.no_grad()
def test_dropout_acts_in_train_mode_only() -> None:
    critic = _critic(dropout=0.3)
    inputs = _inputs()
    assert torch.equal(critic(*inputs), critic(*inputs))
    critic.train()
    assert not torch.allclose(critic(*inputs), critic(*inputs))
    torch.manual_seed(3)
    first = critic(*inputs)
    torch.manual_seed(3)
    assert torch.equal(critic(*inputs), first)


@torch.no_grad()
def test_dropout_reaches_embedding_attention_residual_and_mlp(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[float] = []
    dropout, attention = nn.functional.dropout, nn.functional.scaled_dot_product_attention

    def counted(tokens: Tensor, rate: float, training: bool = True) -> Tensor:
        calls.append(rate if training else 0.0)
        return dropout(tokens, rate, training)

    def counted_attention(*args: Tensor, dropout_p: float, is_causal: bool) -> Tensor:
        calls.append(dropout_p)
        return attention(*args, dropout_p=dropout_p, is_causal=is_causal)

    monkeypatch.setattr(nn.functional, "dropout", counted)
    monkeypatch.setattr(nn.functional, "scaled_dot_product_attention", counted_attention)
    critic = _critic(dropout=0.3)
    critic.train()(*_inputs())
    assert calls == [0.3] * (1 + 2 * 3)  # the embedding, and three in each of two blocks
    calls.clear()
    critic.eval()(*_inputs())
    assert set(calls) == {0.0}


@torch.no_grad()
def test_no_dropout_is_the_same_in_both_modes() -> None:
    critic = _critic()
    inputs = _inputs()
    assert torch.equal(critic.train()(*inputs), critic.eval()(*inputs))


# ---- ensembles


@torch.no_grad()
def test_ensemble_stacks_independent_members() -> None:
    ensemble = CriticEnsemble(CriticConfig(**SMALL), STATE, ACTION, count=3).double()  # type: ignore[arg-type]
    state, actions, starts = _inputs()
    values, count = ensemble(state, actions, starts), torch.tensor([1, 6, 3])
    sequence = ensemble.sequence_value(state, actions, starts, count)
    both = ensemble.target_values((state, actions, starts), count, None, (state, starts))
    assert values.shape == (3, 3, 3, LENGTH + 1)
    for index, member in enumerate(ensemble.members):
        assert torch.equal(values[index], member(state, actions, starts))
        assert torch.equal(sequence[index], member.sequence_value(state, actions, starts, count))
        expected = member.target_values((state, actions, starts), count, None, (state, starts))
        assert all(map(torch.equal, (both[0][index], both[1][index]), expected))
    assert not torch.allclose(values[0], values[1], atol=1e-4)
    assert not torch.allclose(values[1], values[2], atol=1e-4)


# ---- configuration


@pytest.mark.parametrize(
    "settings",
    [
        {"width": 0},
        {"heads": 0},
        {"layers": 0},
        {"max_positions": 0},
        {"width": 12, "heads": 8},
        {"dropout": -0.1},
        {"dropout": 1.0},
    ],
    ids=str,
)
def test_impossible_settings_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(UserError, match=r"critic\."):
        CriticConfig(**settings)  # type: ignore[arg-type]
