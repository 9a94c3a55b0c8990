"""The plain critic: pinned to loops over tokens and heads and to PyTorch's own layer, and what its tokens see."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from top_erl.errors import UserError
from top_erl.models import Block, CriticConfig, Sequences, TransformerCritic

from .critics import ACTION, STATE, plain_critic, sequences, small_config, strong, with_actions

LENGTH = 6


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


# ---- outside truth


def _norm(vector: Tensor, norm: nn.Module) -> Tensor:
    if isinstance(norm, nn.Identity):
        return vector
    assert isinstance(norm, nn.LayerNorm)
    mean = vector.sum() / len(vector)
    variance = ((vector - mean) ** 2).sum() / len(vector)
    return (vector - mean) / torch.sqrt(variance + 1e-5) * norm.weight + norm.bias


def _linear(vector: Tensor, layer: nn.Linear) -> Tensor:
    result = torch.stack([(row * vector).sum() for row in layer.weight])
    return result if layer.bias is None else result + layer.bias


def _block(tokens: list[Tensor], block: nn.Module, heads: int) -> list[Tensor]:
    width = len(tokens[0])
    size = width // heads
    projected = [_linear(_norm(t, block.norm_attention), block.query_key_value) for t in tokens]
    attended = []
    for i in range(len(tokens)):
        mixed = []
        for head in range(heads):
            columns = slice(head * size, (head + 1) * size)
            query = projected[i][:width][columns]
            keys = [projected[j][width : 2 * width][columns] for j in range(i + 1)]  # only what came before
            values = [projected[j][2 * width :][columns] for j in range(i + 1)]
            scores = [math.exp(float((query * key).sum()) / math.sqrt(size)) for key in keys]
            mixed.append(sum(score / sum(scores) * value for score, value in zip(scores, values, strict=True)))
        attended.append(tokens[i] + _linear(torch.cat(mixed), block.attention_out))
    result = []
    for token in attended:
        hidden = _linear(_norm(token, block.norm_mlp), block.mlp_in)
        hidden = torch.stack([0.5 * x * (1.0 + math.erf(float(x) / math.sqrt(2.0))) for x in hidden])
        result.append(token + _linear(hidden, block.mlp_out))
    return result


def _by_loops(critic: TransformerCritic, state: Tensor, actions: Tensor, start: int) -> Tensor:
    """`[V, Q_1, …, Q_L]` of one sequence."""
    table = critic.position_table.weight
    first = start if critic.config.positions == "absolute" else 0
    tokens = [_linear(state, critic.state_encoder) + table[first]]
    for j, action in enumerate(actions):
        tokens.append(_linear(action, critic.action_encoder) + table[first + j])
    for block in critic.blocks:
        tokens = _block(tokens, block, critic.config.heads)
    values = [float(_linear(_norm(t, critic.norm_out), critic.head)) for t in tokens]
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("positions", ["absolute", "relative"])
@pytest.mark.parametrize("layer_norm", [True, False], ids=["norm", "no norm"])
@torch.no_grad()
def test_forward_equals_loops_over_tokens_and_heads(positions: str, layer_norm: bool) -> None:
    critic, given = plain_critic(positions=positions, layer_norm=layer_norm), sequences(episodes=2)
    values = critic(given)
    assert values.shape == (2, 3, LENGTH + 1)
    for b in range(2):
        for k, start in enumerate(given.starts.tolist()):
            expected = _by_loops(critic, given.states[b, start], given.actions[b, k], start)
            torch.testing.assert_close(values[b, k], expected, rtol=1e-10, atol=1e-10)


@torch.no_grad()
def test_single_precision_equals_the_loops() -> None:
    critic, given = TransformerCritic(small_config(), STATE, ACTION), sequences(dtype=torch.float32)
    values = critic(given)
    expected = _by_loops(critic.double(), given.states[0, 2].double(), given.actions[0, 1].double(), 2)
    torch.testing.assert_close(values[0, 1].double(), expected, rtol=0, atol=1e-5)


def test_block_is_pytorchs_encoder_layer_with_its_gradients() -> None:
    block = strong(plain_critic(width=32, heads=4)).blocks[0]
    assert isinstance(block, Block)
    layer = nn.TransformerEncoderLayer(32, 4, 128, 0.0, "gelu", batch_first=True, norm_first=True).double()
    ours, theirs = list(block.parameters()), [*layer.norm1.parameters(), *layer.self_attn.parameters()]
    theirs += [*layer.norm2.parameters(), *layer.linear1.parameters(), *layer.linear2.parameters()]
    for own, other in zip(ours, theirs, strict=True):
        other.data.copy_(own)
    tokens = torch.randn(3, 7, 32, dtype=torch.float64, requires_grad=True)
    mask = nn.Transformer.generate_square_subsequent_mask(7, dtype=torch.float64)
    mine, expected = block(tokens), layer(tokens, src_mask=mask, is_causal=True)
    torch.testing.assert_close(mine, expected, rtol=0, atol=1e-11)
    pull = torch.randn_like(mine)
    gradients = torch.autograd.grad((mine * pull).sum(), (tokens, *ours))
    others = torch.autograd.grad((expected * pull).sum(), (tokens, *theirs))
    for gradient, other in zip(gradients, others, strict=True):
        torch.testing.assert_close(gradient, other, rtol=0, atol=1e-9)


# ---- what the tokens see


@torch.no_grad()
def test_an_action_changes_only_what_comes_after_it() -> None:
    critic, given = plain_critic(), sequences()
    before = critic(given)
    for j in range(LENGTH):
        changed = given.actions.clone()
        changed[:, :, j] += 1.0
        after = critic(with_actions(given, changed))
        torch.testing.assert_close(after[..., : j + 1], before[..., : j + 1], rtol=0, atol=1e-12)  # V, Q_1 … Q_j
        assert ((after - before)[..., j + 1 :].abs() > 1e-6).all()  # Q_{j+1} is the first that sees it


@torch.no_grad()
def test_only_the_state_at_the_start_is_seen_and_it_changes_everything() -> None:
    critic, given = plain_critic(), sequences()
    before = critic(given)
    changed = given.states.clone()
    changed[:, 2] += 1.0
    difference = (critic(Sequences(changed, given.starts, given.actions, given.counts)) - before).abs()
    assert (difference[:, 1] > 1e-6).all()  # starts at 2
    assert not difference[:, [0, 2]].any()


@pytest.mark.parametrize("positions", ["absolute", "relative"])
@torch.no_grad()
def test_every_question_is_answered_by_forward(positions: str) -> None:
    critic, given = plain_critic(positions=positions), sequences(tail=2)
    values = critic(given)
    torch.testing.assert_close(critic.action_values(given), values[..., 1:].sum(-1))
    expected = torch.stack([values[:, 0, LENGTH], values[:, 1, LENGTH], values[:, 2, 2]], dim=1)
    torch.testing.assert_close(critic.last_value(given), expected)
    torch.testing.assert_close(critic.state_value(given.states, given.starts), values[..., 0])
    last, state = critic.target_values(given, torch.tensor([9, 1]))
    assert torch.equal(last, critic.last_value(given))
    torch.testing.assert_close(state[:, 0], values[:, 2, 0])
    assert critic.target_values(given, torch.arange(0))[1].shape == (3, 0)


def test_action_values_have_gradients_into_the_actions_only() -> None:
    critic, given = plain_critic(), sequences()
    actions = given.actions.requires_grad_()
    critic.action_values(given).sum().backward()
    assert actions.grad is not None
    assert (actions.grad != 0).all()
    assert all(parameter.grad is None and parameter.requires_grad for parameter in critic.parameters())
    (expected,) = torch.autograd.grad(critic(given)[..., 1:].sum(), actions)
    torch.testing.assert_close(actions.grad, expected)


def test_other_questions_have_no_gradient() -> None:
    critic, given = plain_critic(), sequences()
    answers = (*critic.target_values(given, given.starts), critic.last_value(given))
    assert not any(answer.requires_grad for answer in answers)


@torch.no_grad()
def test_absolute_positions_count_from_the_start_of_the_episode() -> None:
    given = sequences()
    states = given.states[:, :1].expand(-1, 12, -1)  # the same state at all times
    for positions, depends in (("absolute", True), ("relative", False)):
        critic = plain_critic(positions=positions)
        here, moved = (critic(Sequences(states, given.starts + shift, given.actions, given.counts)) for shift in (0, 1))
        assert bool(((moved - here).abs() > 1e-6).all()) == depends


@torch.no_grad()
def test_state_and_first_action_share_one_row_of_the_table() -> None:
    critic, given = plain_critic(), sequences()
    states = given.states[:, :1].expand(-1, 12, -1)
    critic.position_table.weight.zero_()
    critic.position_table.weight[2] = torch.randn(8, dtype=torch.float64)
    without, moved = (
        critic(Sequences(states, torch.tensor(starts), given.actions, given.counts))
        for starts in ((10, 10, 10), (2, 1, 3))  # from 10 on, row 2 is not used
    )
    differs = (moved - without).abs() > 1e-9
    assert differs[:, 0].all()  # start 2: the state already has the row
    assert not differs[:, 1, :2].any()  # start 1: V and Q_1 don't
    assert differs[:, 1, 2:].all()  # the second action has index 2
    assert not differs[:, 2].any()  # start 3 never meets it


@torch.no_grad()
def test_padding_beyond_the_table_reuses_its_last_row() -> None:
    critic, given = plain_critic(max_positions=12), sequences()  # indices 9 … 14 of 12
    values, inside = critic(given), critic(with_actions(given, given.actions[:, :, :3]))
    torch.testing.assert_close(values[..., :4], inside)
    assert values.isfinite().all()


# ---- another critic, from outside


class _History(TransformerCritic):
    """Sees the last three states, each with its own position."""

    def state_tokens(self, states: Tensor, times: Tensor) -> Tensor:
        past = (times[:, None] + torch.arange(-2, 1)).clamp(min=0)  # [K, 3]
        return self.state_encoder(self.standardize_state(states[:, past])) + self.position_table(past)


def test_a_critic_with_a_history_of_states_overrides_one_method() -> None:
    critic, given = strong(_History(small_config(), STATE, ACTION)), sequences(tail=2)
    values = critic(given)
    assert values.shape == (3, 3, LENGTH + 1)
    last, state = critic.target_values(given, given.starts)
    torch.testing.assert_close(state, values[..., 0])
    torch.testing.assert_close(last[:, 2], values[:, 2, 2])
    changed = given.states.clone()
    changed[:, 7] += 1.0  # two steps before the last start
    difference = (critic(Sequences(changed, given.starts, given.actions, given.counts)) - values).abs()
    assert (difference[:, 2] > 1e-6).all()
    assert not difference[:, :2].any()
    assert critic.action_values(given).shape == (3, 3)


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


def test_weights_of_fan_in_spread_by_the_number_of_their_inputs() -> None:
    critic = TransformerCritic(CriticConfig(width=64, heads=4, layers=8, initial="fan_in"), 30, 20)
    expected = {"state_encoder": 30**-0.5, "action_encoder": 20**-0.5, "head": 1 / 8, "position_table": 0.3}
    for name, spread in expected.items():
        weight = critic.get_submodule(name).weight
        assert isinstance(weight, torch.Tensor)
        assert float(weight.detach().std()) == pytest.approx(spread, rel=0.25 if name == "head" else 0.1), name
    for block in critic.blocks:
        assert isinstance(block, Block)
        assert float(block.query_key_value.weight.detach().std()) == pytest.approx(1 / 8, rel=0.05)
        assert float(block.mlp_in.weight.detach().std()) == pytest.approx(1 / 8, rel=0.05)
        assert float(block.attention_out.weight.detach().std()) == pytest.approx(1 / 8 / 4, rel=0.05)
        assert float(block.mlp_out.weight.detach().std()) == pytest.approx(1 / 16 / 4, rel=0.05)  # 256 inputs


@pytest.mark.parametrize("count", [2, 5])
def test_a_block_without_its_first_output_has_the_same_others(count: int) -> None:
    block = strong(plain_critic(width=32, heads=4)).blocks[0]
    assert isinstance(block, Block)
    tokens = torch.randn(3, count, 32, dtype=torch.float64, requires_grad=True)
    mine, expected = block.after_first(tokens), block(tokens)[:, 1:]
    torch.testing.assert_close(mine, expected, rtol=0, atol=1e-12)
    pull = torch.randn_like(mine)
    wanted = (tokens, *block.parameters())
    for own, other in zip(
        torch.autograd.grad((mine * pull).sum(), wanted),
        torch.autograd.grad((expected * pull).sum(), wanted),
        strict=True,
    ):
        torch.testing.assert_close(own, other, rtol=0, atol=1e-11)


def test_encoders_and_head_have_no_bias() -> None:
    critic = TransformerCritic(small_config(), STATE, ACTION)
    assert critic.state_encoder.bias is critic.action_encoder.bias is critic.head.bias is None


def test_without_layer_norm_there_is_none() -> None:
    assert not [module for module in plain_critic(layer_norm=False).modules() if isinstance(module, nn.LayerNorm)]


def test_gradients_reach_every_parameter() -> None:
    critic = plain_critic()
    critic(sequences()).square().sum().backward()
    for name, parameter in critic.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0.0, name


# ---- configuration


@pytest.mark.parametrize(
    "settings",
    [
        *({"width": 0}, {"heads": 0}, {"layers": 0}, {"max_positions": 0}),
        *({"width": 12, "heads": 8}, {"dropout": -0.1}, {"dropout": 1.0}),
    ],
    ids=str,
)
def test_impossible_settings_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(UserError, match=r"critic\."):
        CriticConfig(**settings)  # type: ignore[arg-type]
