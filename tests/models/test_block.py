"""The hand-written passes through a block, against autograd on the textbook formulas."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck
from torch.nn import functional as fn

from top_erl.models.attention import LONGEST_BATCHED
from top_erl.models.block import Block, transform, transform_after
from top_erl.models.passes import Folded
from top_erl.models.products import BlasProducts, LowProducts, _blas_product, low_products


@pytest.mark.parametrize("layer_norm", [True, False])
@pytest.mark.parametrize("length", [3, LONGEST_BATCHED + 1], ids=["batched", "fused"])
def test_gradients_of_a_stack(layer_norm: bool, length: int) -> None:
    blocks = [Block(4, 2, layer_norm=layer_norm).double() for _ in range(2)]
    weights = [parameter for block in blocks for parameter in block.parameters()]
    layout = ((2, length), (3, 2))  # sequences of two lengths in one matrix
    rows = torch.randn(2 * length + 6, 4, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda rows, *_: transform(rows, layout, blocks), (rows, *weights), fast_mode=True)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_sequences_of_several_lengths_do_not_see_each_other(dropout: float) -> None:
    blocks = [Block(8, 2, dropout=dropout).double().eval() for _ in range(2)]
    layout = ((3, 5), (2, 3), (4, 1))
    rows = torch.randn(25, 8, dtype=torch.float64)
    expected = [transform(part, (shape,), blocks) for part, shape in zip(rows.split([15, 6, 4]), layout, strict=True)]
    torch.testing.assert_close(transform(rows, layout, blocks), torch.cat(expected))
    index = torch.tensor([4, 0, 2, 1, 2, 0, 0, 0, 0])
    chosen = blocks[0].one_of(rows, layout, index)
    whole = transform(rows, layout, blocks[:1])
    places = torch.tensor([4, 5, 12, 16, 20, 21, 22, 23, 24])
    torch.testing.assert_close(chosen, whole[places])


def _textbook(block: Block, tokens: Tensor) -> Tensor:
    """The block from public layers alone."""
    heads = block.query_key_value(block.norm_attention(tokens)).unflatten(-1, (3, block.heads, -1))
    query, key, value = heads.transpose(1, 3).unbind(2)
    mixed = fn.scaled_dot_product_attention(query, key, value, is_causal=True).transpose(1, 2).flatten(-2)
    tokens = tokens + block.attention_out(mixed)
    return tokens + block.mlp_out(fn.gelu(block.mlp_in(block.norm_mlp(tokens))))


def _gradients(block: Block, tokens: Tensor, output: Tensor, pull: Tensor) -> dict[str, Tensor]:
    block.zero_grad()
    tokens.grad = None
    (output * pull).sum().backward()
    return {"tokens": tokens.grad} | {name: p.grad.clone() for name, p in block.named_parameters()}


@pytest.mark.parametrize("length", [2, 6, 26, 70])
def test_block_equals_the_textbook_in_single_precision(length: int) -> None:
    block = Block(32, 4)
    tokens, pull = torch.randn(8, length, 32, requires_grad=True), torch.randn(8, length, 32)
    ours, expected = block(tokens), _textbook(block, tokens)
    assert torch.allclose(ours, expected, atol=1e-5)
    mine, theirs = _gradients(block, tokens, ours, pull), _gradients(block, tokens, expected, pull)
    for name, gradient in theirs.items():
        assert torch.allclose(mine[name], gradient, rtol=1e-4, atol=1e-4), name


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("layer_norm", [True, False])
def test_sequences_after_a_token_are_those_of_the_whole(layers: int, layer_norm: bool) -> None:
    blocks = [Block(8, 2, layer_norm=layer_norm).double().requires_grad_(False) for _ in range(layers)]
    whole = torch.randn(4, 6, 8, dtype=torch.float64, requires_grad=True)
    pull = torch.randn(4, 5, 8, dtype=torch.float64)
    expected = transform(whole.flatten(0, 1), ((4, 6),), blocks).view(4, 6, 8)[:, 1:]
    (expected * pull).sum().backward()
    rows = whole.detach()[:, 1:].flatten(0, 1).requires_grad_()
    ours = transform_after(rows, whole.detach()[:, 0], blocks).view(4, 5, 8)
    (ours * pull).sum().backward()
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(rows.grad.view(4, 5, 8), whole.grad[:, 1:], rtol=0, atol=1e-12)


def test_sequences_after_a_token_need_frozen_weights() -> None:
    with pytest.raises(ValueError, match="use `transform`"):
        transform_after(torch.randn(6, 8), torch.randn(2, 8), [Block(8, 2)])


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


def test_no_weight_gradients_when_weights_are_frozen() -> None:
    block = Block(8, 2).requires_grad_(False)
    tokens = torch.randn(3, 4, 8, requires_grad=True)
    block(tokens).sum().backward()
    assert tokens.grad is not None
    assert all(parameter.grad is None for parameter in block.parameters())


@pytest.mark.parametrize("kind", [LowProducts, BlasProducts])
@pytest.mark.parametrize("length", [6, LONGEST_BATCHED + 1], ids=["batched", "fused"])
def test_low_precision_is_close_and_keeps_float32_at_the_border(kind: type[LowProducts], length: int) -> None:
    safe = type(low_products(torch.device("cpu"))) is LowProducts
    if not safe if kind is LowProducts else _blas_product() is None:
        pytest.skip("not the route of this processor")
    block = Block(64, 4)
    tokens, pull = torch.randn(16, length, 64, requires_grad=True), torch.randn(16, length, 64)
    expected = block(tokens)
    theirs = _gradients(block, tokens, expected, pull)
    block.products = kind()
    ours = block(tokens)
    mine = _gradients(block, tokens, ours, pull)
    assert ours.dtype == torch.float32
    assert 0 < (ours - expected).norm() / expected.norm() < 0.01
    for name, gradient in theirs.items():
        assert mine[name].dtype == torch.float32, name
        assert (mine[name] - gradient).norm() / gradient.norm() < 0.02, name


@torch.no_grad()
def test_a_single_token_leaves_the_weights_alone() -> None:
    block = Block(8, 2)
    before = {name: parameter.clone() for name, parameter in block.named_parameters()}
    block.alone(torch.randn(1, 8))
    block(torch.randn(1, 1, 8))
    for name, parameter in block.named_parameters():
        assert torch.equal(parameter, before[name]), name
