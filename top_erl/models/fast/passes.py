"""The passes through a transformer block, forward and backward, written out.

    before attention:  q, k, v = Linear(Norm(x))
    after attention:   y = x + Linear(mixed);  z = y + Linear(GELU(Linear(Norm(y))))

Autograd would record a dozen nodes per block, with a view or a copy around most of them. Here a whole stack of blocks
is one node (`top_erl.models.fast.stack.transform`), and backward is little more than its matrix products. Their
precision is an argument; everything else is done in the precision of the input, but for GELU, which is done in that of
the products it stands between.

Sequences of several lengths lie one after the other in the rows of one matrix; only attention has to know where each
begins (`Layout`).

Axes: `N` sequences, `M` tokens, `R` tokens of all sequences, `E` width.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as fn

from top_erl.models.fast.attention import AttentionAfter, CausalAttention, make_attention
from top_erl.models.fast.products import Products
from top_erl.models.transformer import Block

EPSILON = 1e-5
"""Added to variances by LayerNorm."""

Layout = tuple[tuple[int, int], ...]
"""How sequences lie in the rows of a matrix: so many of such a length, (N, M), then so many of another."""


def rows_of(layout: Layout) -> list[int]:
    """Rows of the sequences of each length."""
    return [count * length for count, length in layout]


class BlockWeights(NamedTuple):
    """The parameters of a block; a block without normalisation has no scales and shifts."""

    first_scale: Tensor | None
    first_shift: Tensor | None
    heads_weight: Tensor
    heads_bias: Tensor
    out_weight: Tensor
    out_bias: Tensor
    second_scale: Tensor | None
    second_shift: Tensor | None
    in_weight: Tensor
    in_bias: Tensor
    mlp_weight: Tensor
    mlp_bias: Tensor

    @classmethod
    def of(cls, block: Block) -> BlockWeights:
        """Look up the parameters."""
        heads, out, mlp_in, mlp_out = block.query_key_value, block.attention_out, block.mlp_in, block.mlp_out
        return cls(
            *(*_scale_shift(block.norm_attention), heads.weight, heads.bias, out.weight, out.bias),
            *(*_scale_shift(block.norm_mlp), mlp_in.weight, mlp_in.bias, mlp_out.weight, mlp_out.bias),
        )


def _scale_shift(norm: nn.Module) -> tuple[Tensor | None, Tensor | None]:
    return (norm.weight, norm.bias) if isinstance(norm, nn.LayerNorm) else (None, None)


class BlockPass:
    """One pass of tokens through a block; keeps what backward needs, if asked to."""

    def __init__(self, weights: BlockWeights, heads: int, products: Products, *, keep: bool) -> None:
        """Cast the weights for being multiplied; without `keep` there is no backward."""
        self.weights, self.heads, self.products, self.keep = weights, heads, products, keep
        self.into_heads = Folded(weights.first_scale, weights.first_shift, weights.heads_weight, weights.heads_bias)
        self.into_mlp = Folded(weights.second_scale, weights.second_shift, weights.in_weight, weights.in_bias)
        matrices = (self.into_heads.weight, weights.out_weight, self.into_mlp.weight, weights.mlp_weight)
        self.heads_cast, self.out_cast, self.in_cast, self.mlp_cast = map(products.cast, matrices)
        self._attention: list[CausalAttention] = []

    def forward_after(self, rows: Tensor, layout: Layout, first: Tensor, last: bool) -> tuple[Tensor, Tensor]:
        """Transform sequences of one length, [N · M, E], that see one more token before their first, [N, E].

        That token is a constant and sees nothing but itself, so what attention mixes for it is its own value. In the
        last block only its key and value matter.

        Returns:
            The tokens of the sequences, and the ones before them.
        """
        width = rows.shape[1]
        key_value = self.project(first, slice(width, None))  # [N, 2E]
        first = first if last else self.feed_forward(first, key_value[:, width:])
        # what the two calls have kept is overwritten now: backward is that of the sequences
        self._x, self._layout, self._attention = rows, layout, [AttentionAfter(self.heads, key_value)]
        heads = _split(self.project(rows, slice(None)), layout)  # [N, M, 3E]
        return self.feed_forward(rows, self._attention[0].forward(heads[0]).flatten(0, 1)), first

    def forward(self, rows: Tensor, layout: Layout) -> Tensor:
        """Transform the tokens of sequences, [R, E]."""
        self._x, self._layout = rows, layout
        self._attention = [make_attention(length, self.heads) for _, length in layout]
        heads = _split(self.project(rows, slice(None)), layout)  # [N, M, 3E] each
        if len(layout) == 1:
            return self.feed_forward(rows, self._attention[0].forward(heads[0]).flatten(0, 1))
        mixed = torch.empty_like(rows, dtype=heads[0].dtype)  # [R, E]
        for attention, own, out in zip(self._attention, heads, _split(mixed, layout), strict=True):
            attention.forward_into(own, out)
        return self.feed_forward(rows, mixed)

    def attend_alone(self, x: Tensor) -> Tensor:
        """Add what attention mixes for tokens that are sequences of their own to the stream, [R, E].

        That is their own value, so the projections into and out of attention are one.
        """
        weights, products, width = self.weights, self.products, x.shape[1]
        value_weight, value_bias = self.into_heads.weight[2 * width :], self.into_heads.bias[2 * width :]
        joint = products.cast(weights.out_weight @ value_weight)  # [E, E]
        bias = torch.addmv(weights.out_bias, weights.out_weight, value_bias)
        normed, _ = self.into_heads.normalise(x)
        return products.add_product(x + bias, products.cast(normed), joint.mT)

    def forward_alone(self, x: Tensor) -> Tensor:
        """Transform tokens that are sequences of their own, [R, E]."""
        return self.mlp(self.attend_alone(x))

    def project(self, x: Tensor, columns: slice) -> Tensor:
        """Some columns of queries, keys and values, [R, E] to [R, some of 3E]."""
        normed, self._first_statistics = self.into_heads.normalise(x)
        self._normed = self.products.cast(normed)
        return self.products.raw_affine(self._normed, self.heads_cast[columns].mT, self.into_heads.bias[columns])

    def attend(self, x: Tensor, mixed: Tensor) -> Tensor:
        """Add what attention mixed to the stream, [R, E]."""
        self._mixed = self.products.cast(mixed)
        return self.products.add_product(x + self.weights.out_bias, self._mixed, self.out_cast.mT)

    def feed_forward(self, x: Tensor, mixed: Tensor) -> Tensor:
        """Add what attention mixed to the stream, then the MLP's output, [R, E]."""
        return self.mlp(self.attend(x, mixed))

    def mlp(self, y: Tensor) -> Tensor:
        """Add the MLP's output to the stream, [R, E]."""
        products, self._y = self.products, y
        normed, self._second_statistics = self.into_mlp.normalise(y)
        self._normed_y = products.cast(normed)
        self._before = products.raw_affine(self._normed_y, self.in_cast.mT, self.into_mlp.bias)
        activate = fn.gelu if self.keep else torch.ops.aten.gelu_
        self._hidden = products.cast(activate(self._before))  # [R, 4E]
        return products.add_product(y + self.weights.mlp_bias, self._hidden, self.mlp_cast.mT)

    def backward(self, grad: Tensor, want: bool) -> tuple[Tensor, list[Tensor | None]]:
        """Gradients of the tokens, [R, E], from that of z, and, if wanted, of all weights in their order."""
        products = self.products
        z_cast = products.cast(grad)
        grad_before = products.raw(z_cast, self.mlp_cast)
        torch.ops.aten.gelu_backward.grad_input(grad_before, self._before, grad_input=grad_before)
        before_cast = products.cast(grad_before)
        grad_normed = products.product(before_cast, self.in_cast)
        grad_y = _normalise_backward(grad_normed, self._y, self._second_statistics).add_(grad)
        y_cast = products.cast(grad_y)
        grad_heads = self._attention_backward(products.raw(y_cast, self.out_cast))
        heads_cast = products.cast(grad_heads)
        grad_normed = products.product(heads_cast, self.heads_cast)
        grad_x = _normalise_backward(grad_normed, self._x, self._first_statistics).add_(grad_y)
        if not want:
            return grad_x, []
        return grad_x, [
            *self.into_heads.backward(products.product(heads_cast.mT, self._normed), products.column_sums(grad_heads)),
            *(products.product(y_cast.mT, self._mixed), grad_y.sum(0)),
            *self.into_mlp.backward(
                products.product(before_cast.mT, self._normed_y), products.column_sums(grad_before)
            ),
            *(products.product(z_cast.mT, self._hidden), grad.sum(0)),
        ]

    def _attention_backward(self, grad: Tensor) -> Tensor:
        """Gradient of queries, keys and values, [R, 3E], from that of what attention mixed, [R, E]."""
        gradients = _split(grad, self._layout)
        if len(gradients) == 1:
            return self._attention[0].backward(gradients[0]).flatten(0, 1)
        out = grad.new_empty(grad.shape[0], 3 * grad.shape[1])
        for attention, gradient, own in zip(self._attention, gradients, _split(out, self._layout), strict=True):
            attention.backward_into(gradient, own)
        return out


class HeadWeights(NamedTuple):
    """The parameters of the last norm, if there is one, and of the head, [1, E]."""

    scale: Tensor | None
    shift: Tensor | None
    weight: Tensor

    @classmethod
    def of(cls, norm: nn.Module, head: nn.Linear) -> HeadWeights:
        """Look up the parameters."""
        return cls(*_scale_shift(norm), head.weight)


class HeadPass:
    """One pass of tokens through the last norm and the head, which has one output a token."""

    def __init__(self, weights: HeadWeights) -> None:
        """Fold the norm into the head."""
        self._folded = Folded(weights.scale, weights.shift, weights.weight, weights.weight.new_zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        """The head's outputs, [R, E] to [R]."""
        self._x = x
        self._normed, self._statistics = self._folded.normalise(x)
        return torch.addmv(self._folded.bias, self._normed, self._folded.weight[0])

    def backward(self, grad: Tensor, want: bool) -> tuple[Tensor, list[Tensor | None]]:
        """Gradients of the tokens, [R, E], from that of the outputs, [R], and, if wanted, of all weights."""
        grad_x = _normalise_backward(torch.outer(grad, self._folded.weight[0]), self._x, self._statistics)
        if not want:
            return grad_x, []
        scale, shift, weight, _ = self._folded.backward((grad @ self._normed).unsqueeze(0), grad.sum().view(1))
        return grad_x, [scale, shift, weight]


def _split(rows: Tensor, layout: Layout) -> list[Tensor]:
    """The sequences of each length, [N, M, F], as they lie in the rows of a matrix, [R, F]."""
    if len(layout) == 1:
        return [rows.view(*layout[0], -1)]
    return [own.view(*shape, -1) for own, shape in zip(rows.split(rows_of(layout)), layout, strict=True)]


_Statistics = tuple[Tensor, Tensor] | None


class Folded:
    """A linear layer after LayerNorm, with the norm's scale s and shift t moved into it: W (s ∘ x̂ + t) + b.

    Rows are then only centred and divided by their deviation, and the gradients of s and t follow from those of the
    layer, instead of from another pass over all rows.
    """

    def __init__(self, scale: Tensor | None, shift: Tensor | None, weight: Tensor, bias: Tensor) -> None:
        """Fold scale and shift, [E], if there are any, into weight, [F, E], and bias, [F]."""
        self._inputs = (scale, shift, weight)
        self.weight = weight if scale is None else weight * scale
        self.bias = bias if shift is None else torch.addmv(bias, weight, shift)

    def normalise(self, x: Tensor) -> tuple[Tensor, _Statistics]:
        """Centred and divided rows, [R, E], with mean and inverse deviation; without a norm the rows themselves."""
        if self._inputs[0] is None:
            return x, None
        normed, mean, inverse = torch.native_layer_norm(x, (x.shape[-1],), None, None, EPSILON)
        return normed, (mean, inverse)

    def backward(self, grad: Tensor, bias_grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor, Tensor]:
        """Gradients of scale, shift, weight and bias, from those of the folded weight, [F, E], and bias, [F]."""
        scale, shift, weight = self._inputs
        if scale is None or shift is None:
            return None, None, grad, bias_grad
        unfolded = torch.addr(grad * scale, bias_grad, shift)
        return (grad * weight).sum(0), bias_grad @ weight, unfolded, bias_grad


def _normalise_backward(grad: Tensor, x: Tensor, statistics: _Statistics) -> Tensor:
    """Gradient of rows from that of the normalised rows, [R, E], which may be reused."""
    if statistics is None:
        return grad
    rows: Tensor = torch.ops.aten.native_layer_norm_backward(
        grad, x, (x.shape[-1],), *statistics, None, None, [True, False, False]
    )[0]
    return rows
