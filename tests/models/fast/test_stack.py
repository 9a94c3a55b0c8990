"""The written-out passes through a stack of blocks, against numerical gradients and the plain block."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from top_erl.models import Block, CriticConfig
from top_erl.models.fast.attention import LONGEST_BATCHED
from top_erl.models.fast.passes import BlockWeights, Folded, HeadWeights
from top_erl.models.fast.products import FULL, BlasProducts, LowProducts, Products, _blas_product, low_products
from top_erl.models.fast.stack import Stack, transform, transform_after, transform_alone, transform_chosen


def _block(width: int = 8, heads: int = 2, *, layer_norm: bool = True) -> Block:
    return Block(CriticConfig(width=width, heads=heads, layer_norm=layer_norm))


def _stack(blocks: list[Block], *, head: bool = False, products: Products = FULL) -> Stack:
    weights = blocks[0].query_key_value.weight
    last = HeadWeights(None, None, torch.ones(1, weights.shape[1], dtype=weights.dtype)) if head else None
    return Stack(tuple(map(BlockWeights.of, blocks)), last, blocks[0].heads, products)


def _one_block(block: Block, tokens: Tensor, products: Products = FULL) -> Tensor:
    """The block's tokens, [N, M, E], as the plain block would make them."""
    count, length, width = tokens.shape
    return transform(tokens.reshape(-1, width), ((count, length),), _stack([block], products=products)).view_as(tokens)


@pytest.mark.parametrize("layer_norm", [True, False])
@pytest.mark.parametrize("length", [3, LONGEST_BATCHED + 1], ids=["batched", "fused"])
def test_gradients_of_a_stack(layer_norm: bool, length: int) -> None:
    blocks = [_block(4, layer_norm=layer_norm).double() for _ in range(2)]
    weights = [parameter for block in blocks for parameter in block.parameters()]
    layout = ((2, length), (3, 2))  # sequences of two lengths in one matrix
    rows = torch.randn(2 * length + 6, 4, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda rows, *_: transform(rows, layout, _stack(blocks)), (rows, *weights), fast_mode=True)


@torch.no_grad()
def test_sequences_of_several_lengths_do_not_see_each_other() -> None:
    blocks = [_block().double() for _ in range(2)]
    layout, rows = ((3, 5), (2, 3), (4, 1)), torch.randn(25, 8, dtype=torch.float64)
    expected = []
    for own, shape in zip(rows.split([15, 6, 4]), layout, strict=True):
        tokens = own.view(*shape, 8)
        for block in blocks:
            tokens = block(tokens)
        expected.append(tokens.flatten(0, 1))
    torch.testing.assert_close(transform(rows, layout, _stack(blocks)), torch.cat(expected))


@pytest.mark.parametrize("layers", [1, 3])
@torch.no_grad()
def test_chosen_tokens_and_tokens_alone_are_those_of_all(layers: int) -> None:
    stack = _stack([_block().double() for _ in range(layers)], head=True)
    layout, rows = ((3, 5), (2, 3), (4, 1)), torch.randn(25, 8, dtype=torch.float64)
    index, places = torch.tensor([4, 0, 2, 1, 2, 0, 0, 0, 0]), torch.tensor([4, 5, 12, 16, 20, 21, 22, 23, 24])
    expected = transform(rows, layout, stack)
    alone = torch.randn(6, 8, dtype=torch.float64)
    expected_alone = transform(alone, ((6, 1),), stack)
    torch.testing.assert_close(transform_chosen(rows, layout, index, None, stack), expected[places])
    both = transform_chosen(rows, layout, index, alone, stack)
    torch.testing.assert_close(both, torch.cat((expected[places], expected_alone)))
    torch.testing.assert_close(transform_alone(alone, stack), expected_alone)


def _gradients(block: Block, tokens: Tensor, output: Tensor, pull: Tensor) -> dict[str, Tensor]:
    names, parameters = zip(*block.named_parameters(), strict=True)
    gradients = torch.autograd.grad((output * pull).sum(), (tokens, *parameters))
    return dict(zip(("tokens", *names), gradients, strict=True))


@pytest.mark.parametrize("length", [2, 6, 26, 70])
def test_block_equals_the_plain_one_in_single_precision(length: int) -> None:
    block = _block(32, 4)
    tokens, pull = torch.randn(8, length, 32, requires_grad=True), torch.randn(8, length, 32)
    ours, expected = _one_block(block, tokens), block(tokens)
    assert torch.allclose(ours, expected, atol=1e-5)
    mine, theirs = _gradients(block, tokens, ours, pull), _gradients(block, tokens, expected, pull)
    for name, gradient in theirs.items():
        assert torch.allclose(mine[name], gradient, rtol=1e-4, atol=1e-4), name


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("layer_norm", [True, False])
def test_sequences_after_a_token_are_those_of_the_whole(layers: int, layer_norm: bool) -> None:
    stack = _stack([_block(layer_norm=layer_norm).double().requires_grad_(False) for _ in range(layers)])
    whole = torch.randn(4, 6, 8, dtype=torch.float64, requires_grad=True)
    pull = torch.randn(4, 5, 8, dtype=torch.float64)
    expected = transform(whole.flatten(0, 1), ((4, 6),), stack).view(4, 6, 8)[:, 1:]
    (expected * pull).sum().backward()
    rows = whole.detach()[:, 1:].flatten(0, 1).requires_grad_()
    ours = transform_after(rows, whole.detach()[:, 0], stack).view(4, 5, 8)
    (ours * pull).sum().backward()
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(rows.grad.view(4, 5, 8), whole.grad[:, 1:], rtol=0, atol=1e-12)


def test_sequences_after_a_token_need_frozen_weights() -> None:
    with pytest.raises(ValueError, match="use `transform`"):
        transform_after(torch.randn(6, 8), torch.randn(2, 8), _stack([_block()]))


def test_a_folded_norm_has_the_gradients_of_norm_and_layer() -> None:
    norm, layer = torch.nn.LayerNorm(5).double(), torch.nn.Linear(5, 3).double()
    torch.nn.init.normal_(norm.weight)
    torch.nn.init.normal_(norm.bias)
    x, pull = torch.randn(7, 5, dtype=torch.float64), torch.randn(7, 3, dtype=torch.float64)
    expected = layer(norm(x))
    (expected * pull).sum().backward()
    folded = Folded(*(p.detach() for p in (norm.weight, norm.bias, layer.weight, layer.bias)))
    normed, _ = folded.normalise(x)
    torch.testing.assert_close(normed @ folded.weight.mT + folded.bias, expected.detach(), rtol=0, atol=1e-12)
    gradients = folded.backward(pull.mT @ normed, pull.sum(0))
    for gradient, parameter in zip(gradients, (*norm.parameters(), *layer.parameters()), strict=True):
        torch.testing.assert_close(gradient, parameter.grad, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", [LowProducts, BlasProducts])
@pytest.mark.parametrize("length", [6, LONGEST_BATCHED + 1], ids=["batched", "fused"])
def test_low_precision_is_close_and_keeps_float32_at_the_border(kind: type[LowProducts], length: int) -> None:
    safe = type(low_products()) is LowProducts
    if not safe if kind is LowProducts else _blas_product() is None:
        pytest.skip("not the route of this processor")
    block = _block(64, 4)
    tokens, pull = torch.randn(16, length, 64, requires_grad=True), torch.randn(16, length, 64)
    expected, ours = block(tokens), _one_block(block, tokens, kind())
    theirs, mine = _gradients(block, tokens, expected, pull), _gradients(block, tokens, ours, pull)
    assert ours.dtype == torch.float32
    assert 0 < (ours - expected).norm() / expected.norm() < 0.01
    for name, gradient in theirs.items():
        assert mine[name].dtype == torch.float32, name
        assert (mine[name] - gradient).norm() / gradient.norm() < 0.02, name


@torch.no_grad()
def test_a_single_token_leaves_the_weights_alone() -> None:
    block = _block()
    before = {name: parameter.clone() for name, parameter in block.named_parameters()}
    transform_alone(torch.randn(1, 8), _stack([block], head=True))
    _one_block(block, torch.randn(1, 1, 8))
    for name, parameter in block.named_parameters():
        assert torch.equal(parameter, before[name]), name
