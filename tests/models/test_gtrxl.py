"""The gated transformer: its attention against loops, its gates, its memory, and what it may see."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from top_erl.errors import UserError
from top_erl.models.gtrxl import Context, GatedTransformer, GatedTransformerConfig, GruGate, RelativeAttention, _view

SMALL = GatedTransformerConfig(
    width=6, heads=2, head_width=4, layers=3, mlp_width=5, sequence_length=3, memory_length=4
)
FEATURES = 2


def _network(config: GatedTransformerConfig = SMALL, seed: int = 0) -> GatedTransformer:
    torch.manual_seed(seed)
    return GatedTransformer(config, FEATURES).double()


def _random(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def _empty(network: GatedTransformer, count: int) -> Context:
    return Context.empty(network.config, count, network.encoder.weight.detach())


# ---------------------------------------------------------------------- attention


def _wave(distance: int, width: int) -> Tensor:
    """[sin(ω₀ distance), …, cos(ω₀ distance), …] with ω_k = 10000^(-2k / width), [E]."""
    angles = [distance * 10_000.0 ** (-2 * k / width) for k in range(width // 2)]
    return torch.tensor([math.sin(a) for a in angles] + [math.cos(a) for a in angles], dtype=torch.float64)


@torch.no_grad()
def _attention_by_loops(attention: RelativeAttention, tokens: Tensor, length: int, visible: list[int]) -> Tensor:
    """Transformer-XL's attention, one head, token and distance at a time; tokens [N, C + T, E]."""
    remembered, heads, size = tokens.shape[1] - length, attention.heads, attention.head_width
    keys, values = attention.key_value.weight.split(heads * size)
    mixed = torch.zeros(len(tokens), length, heads * size, dtype=tokens.dtype)
    for n, t, head in itertools.product(range(len(tokens)), range(length), range(heads)):
        here, at = remembered + t, slice(head * size, (head + 1) * size)
        query = attention.query.weight[at] @ tokens[n, here]
        weights, seen = [], range(remembered - visible[n], here + 1)
        for j in seen:
            place = attention.position.weight[at] @ _wave(here - j, tokens.shape[2])
            content = (query + attention.content_bias[head]) @ (keys[at] @ tokens[n, j])
            score = content + (query + attention.position_bias[head]) @ place
            weights.append(math.exp(float(score) / math.sqrt(size)))
        for j, weight in zip(seen, weights, strict=True):
            mixed[n, t, at] += weight / sum(weights) * (values[at] @ tokens[n, j])
    return mixed @ attention.out.weight.T


@pytest.mark.parametrize(("length", "remembered", "visible"), [(3, 4, [0, 2, 4]), (1, 6, [6, 0, 3]), (4, 0, [0, 0, 0])])
def test_attention_equals_the_loops(length: int, remembered: int, visible: list[int]) -> None:
    attention = _network().blocks[0].attention
    tokens = _random(3, remembered + length, SMALL.width)
    view = _view(tokens[:, remembered:], remembered, torch.tensor(visible))
    expected = _attention_by_loops(attention, tokens, length, visible)
    assert torch.allclose(attention(tokens, view), expected, rtol=0.0, atol=1e-10)


# ---------------------------------------------------------------------- gates


def test_a_gate_by_hand() -> None:
    """Width 1: r = σ(0.5 y - x), z = σ(0.25 y + 0.75 x - 2), h = tanh(2 y + 3 r x)."""
    gate = GruGate(1, 2.0).double()
    with torch.no_grad():
        gate.of_update.weight.copy_(torch.tensor([[0.5], [0.25], [2.0]]))
        gate.of_stream.weight.copy_(torch.tensor([[-1.0], [0.75]]))
        gate.of_reset.weight.fill_(3.0)
    x, y = 0.4, -0.3
    reset = 1 / (1 + math.exp(-(0.5 * y - x)))
    mix = 1 / (1 + math.exp(-(0.25 * y + 0.75 * x - 2.0)))
    expected = (1 - mix) * x + mix * math.tanh(2 * y + 3 * reset * x)
    joined = gate(torch.tensor([x], dtype=torch.float64), torch.tensor([y], dtype=torch.float64))
    assert joined.item() == pytest.approx(expected, abs=1e-15)


def _moved(bias: float) -> float:
    """How far a new block moves its tokens, relative to their size."""
    config = GatedTransformerConfig(gate_bias=bias)
    block = _network(config).blocks[0]
    tokens, memory = _random(50, 5, config.width), _random(50, 5, config.width, seed=2)
    output = block(tokens, memory, _view(tokens, 5, torch.full((50,), 5)))
    return float((output - tokens).detach().norm() / tokens.norm())


def test_a_new_block_passes_the_identity() -> None:
    """Measured: 0.81 of the tokens' size with b_g = 0, 0.35 with 2, 0.08 with 4, nothing at last."""
    moved = {bias: _moved(bias) for bias in (0.0, 2.0, 4.0, 8.0, 16.0)}
    assert moved[0.0] > 0.7
    assert moved[2.0] < 0.4
    assert moved[4.0] < 0.1
    assert moved[16.0] / moved[8.0] == pytest.approx(math.exp(-8.0), rel=0.05)  # far out, σ(-b) falls like exp(-b)
    assert _moved(800.0) == 0.0


def test_a_new_network_with_strong_gates_is_its_encoder() -> None:
    network = _network(replace(SMALL, gate_bias=800.0))
    steps = _random(2, 3, FEATURES)
    output, _ = network(steps, _random(2, 3, 4, 6), torch.tensor([4, 4]))
    assert torch.equal(output, network.encoder(steps))


# ---------------------------------------------------------------------- memory


def test_memory_changes_the_output_as_far_as_it_is_visible() -> None:
    network = _network()
    steps, memory, visible = _random(2, 3, FEATURES), _random(2, 3, 4, 6, seed=2), torch.tensor([4, 2])
    output, _ = network(steps, memory, visible)
    for slot in range(4):
        changed = memory.clone()
        changed[:, :, slot] += _random(6, seed=5)  # a constant would be invisible behind the layer norm
        other, _ = network(steps, changed, visible)
        assert not torch.allclose(output[0], other[0])
        assert torch.equal(output[1], other[1]) == (slot < 2)  # only the newest two are visible there


def test_no_gradient_enters_the_memory() -> None:
    network = _network()
    first, second = (_random(2, 3, FEATURES, seed=seed).requires_grad_() for seed in (3, 4))
    memory = _random(2, 3, 4, 6).requires_grad_()
    output, fed = network(first, memory, torch.tensor([4, 4]))
    assert not fed.requires_grad
    later, _ = network(second, torch.cat((memory[:, :, 3:], fed), dim=2), torch.tensor([4, 4]))
    later.sum().backward()
    assert memory.grad is None
    assert first.grad is None
    assert second.grad is not None
    output.sum().backward()
    assert memory.grad is None
    assert first.grad is not None


def test_every_weight_learns() -> None:
    network = _network()
    output, _ = network(_random(4, 3, FEATURES), _random(4, 3, 4, 6), torch.tensor([4, 3, 2, 0]))
    output.square().sum().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0.0, name


def test_acting_in_inference_mode_first_does_not_forbid_gradients() -> None:
    network, inputs = _network(), (_random(2, 5, FEATURES), _random(2, 3, 4, 6), torch.tensor([4, 1]))
    with torch.inference_mode():
        network(*inputs)
    network(*inputs)[0].sum().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


def test_a_later_step_never_changes_an_earlier_output() -> None:
    network = _network()
    steps, memory, visible = _random(2, 3, FEATURES), _random(2, 3, 4, 6), torch.tensor([4, 1])
    output, _ = network(steps, memory, visible)
    for late in range(3):
        changed = steps.clone()
        changed[:, late] += 1.0
        other, _ = network(changed, memory, visible)
        assert torch.equal(output[:, :late], other[:, :late])
        for step in range(late, 3):
            assert not torch.allclose(output[:, step], other[:, step])


def _by_segments(network: GatedTransformer, steps: Tensor) -> Tensor:
    """Read an episode, [N, T, F], a segment at a time."""
    length, memory_length = network.config.sequence_length, network.config.memory_length
    fed = torch.zeros(len(steps), network.config.layers, memory_length, network.config.width, dtype=steps.dtype)
    outputs = []
    for start in range(0, steps.shape[1], length):
        memory = fed[:, :, fed.shape[2] - memory_length :]
        visible = torch.full((len(steps),), min(start, memory_length))
        output, new = network(steps[:, start : start + length], memory, visible)
        fed = torch.cat((fed, new), dim=2)
        outputs.append(output)
    return torch.cat(outputs, dim=1)


def _step_by_step(network: GatedTransformer, steps: Tensor, context: Context | None = None) -> Tensor:
    context, outputs = context or _empty(network, len(steps)), []
    for step in steps.unbind(1):
        output, context = network.step(step, context)
        outputs.append(output)
    return torch.stack(outputs, dim=1)


@pytest.mark.parametrize("memory_length", [0, 1, 3, 4, 7])
def test_acting_step_by_step_equals_the_sequences(memory_length: int) -> None:
    network = _network(replace(SMALL, memory_length=memory_length))
    steps = _random(2, 14, FEATURES)
    assert torch.allclose(_step_by_step(network, steps), _by_segments(network, steps), rtol=0.0, atol=1e-12)


def test_sight_grows_with_depth() -> None:
    """Three blocks and a memory of one segment: the sixth segment sees the third, not the second."""
    network = _network(replace(SMALL, sequence_length=2, memory_length=2))
    steps = _random(1, 12, FEATURES)
    output = _step_by_step(network, steps)
    for segment in range(6):
        changed = steps.clone()
        changed[:, 2 * segment] += 1.0
        seen = not torch.equal(_step_by_step(network, changed)[:, 10:], output[:, 10:])
        assert seen == (segment >= 2)


# ---------------------------------------------------------------------- contexts


def test_an_episodes_start_forgets_that_episode_alone() -> None:
    network = _network()
    steps = _random(2, 9, FEATURES)
    context = _empty(network, 2)
    for step in steps[:, :5].unbind(1):
        _, context = network.step(step, context)
    rest = _step_by_step(network, steps[:, 5:], context.restarted(torch.tensor([True, False])))
    assert torch.allclose(rest[0], _step_by_step(network, steps[:1, 5:])[0], rtol=0.0, atol=1e-12)
    assert torch.allclose(rest[1], _step_by_step(network, steps)[1, 5:], rtol=0.0, atol=1e-12)


def test_what_the_next_step_may_see() -> None:
    """Segments of 3 and a memory of 4: the own segment so far and four steps before it."""
    network = _network()
    context, visible = _empty(network, 1), []
    for _ in range(9):
        visible.append(int(context.visible))
        _, context = network.step(_random(1, FEATURES), context)
    assert visible == [0, 1, 2, 3, 4, 5, 4, 5, 6]
    assert context.cut().visible.tolist() == [4]
    assert context.age.tolist() == [9]
    assert context.memory.shape == (1, 3, 4, 6)


def test_contexts_of_some_episodes() -> None:
    network = _network()
    steps = _random(3, 5, FEATURES)
    context = _empty(network, 3)
    for step in steps[:, :4].unbind(1):
        _, context = network.step(step, context)
    output, _ = network.step(steps[:, 4], context)
    some, _ = network.step(steps[[2, 0], 4], context.of([2, 0]))
    assert torch.allclose(some, output[[2, 0]], rtol=0.0, atol=1e-12)


# ---------------------------------------------------------------------- start and sizes


def test_weights_start_as_xavier_says() -> None:
    """Layers that share a matrix start as if they had one each: bound √(6 / (in + out))."""
    config = GatedTransformerConfig()
    block = _network(config).blocks[0]
    square = math.sqrt(6 / 128)
    bounds = {
        block.gate_mlp.of_update: square,
        block.gate_mlp.of_stream: square,
        block.gate_attention.of_reset: square,
        block.attention.key_value: square,
        block.attention.out: square,
        block.mlp_in: math.sqrt(6 / 96),
    }
    for linear, bound in bounds.items():
        assert 0.98 * bound < linear.weight.abs().max() <= bound
    assert torch.equal(block.gate_mlp.identity_bias, torch.full((64,), 2.0, dtype=torch.float64))
    assert block.mlp_in.bias.abs().max() == 0.0


@pytest.mark.parametrize(
    "change", [{"heads": 0}, {"memory_length": -1}, {"width": 7}, {"sequence_length": 1, "memory_length": 0}]
)
def test_sizes_that_make_no_sense(change: dict[str, int]) -> None:
    with pytest.raises(UserError, match="network"):
        replace(SMALL, **change)
