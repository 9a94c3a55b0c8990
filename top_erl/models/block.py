"""The transformer block: causal self-attention, then a GELU MLP, each added to the stream of tokens.

A block answers three questions at three prices: all tokens (`transform`, for a whole stack), one token of each
sequence (`one_of`), and tokens that are sequences of their own (`alone`). The last two are for targets and have no
gradient.

Axes: `N` sequences, `M` tokens, `R` tokens of all sequences, `E` width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as fn

from top_erl.models.attention import attention_of_one, fused_attention
from top_erl.models.passes import EPSILON, BlockPass, BlockWeights, HeadPass, HeadWeights, Layout, rows_of
from top_erl.models.products import FULL, Products


class Block(nn.Module):
    """Pre-norm transformer block with an MLP of four times the width."""

    def __init__(self, width: int, heads: int, *, layer_norm: bool = True, dropout: float = 0.0) -> None:
        """Build the block; its weights come from torch's global generator."""
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.products: Products = FULL
        """How matrices are multiplied."""
        self.norm_attention = nn.LayerNorm(width, EPSILON) if layer_norm else None
        self.query_key_value = nn.Linear(width, 3 * width)
        self.attention_out = nn.Linear(width, width)
        self.norm_mlp = nn.LayerNorm(width, EPSILON) if layer_norm else None
        self.mlp_in = nn.Linear(width, 4 * width)
        self.mlp_out = nn.Linear(4 * width, width)
        self._weights: BlockWeights | None = None

    def forward(self, tokens: Tensor) -> Tensor:
        """Transform tokens, [N, M, E]; `transform` does the same for a stack of blocks."""
        count, length, width = tokens.shape
        return transform(tokens.reshape(-1, width), ((count, length),), [self]).view(tokens.shape)

    @torch.no_grad()
    def one_of(self, rows: Tensor, layout: Layout, index: Tensor, lone: Tensor | None = None) -> Tensor:
        """Transform one token of each sequence only, the `index`-th, [R, E] and [N] to [N, E].

        Keys and values are needed of all tokens up to it, everything else of itself alone. With `lone` tokens, [J, E],
        these are transformed as by `alone`, and follow, [N + J, E]; they share the MLP.
        """
        width, block = rows.shape[1], self._pass()
        chosen = rows[_firsts(layout, rows.device) + index]  # [N, E]
        counts = [count for count, _ in layout]
        queries = block.project(chosen, slice(width)).split(counts)
        others = block.project(rows, slice(width, None)).split(rows_of(layout))  # keys and values
        mixed = []
        for query, other, place, shape in zip(queries, others, index.split(counts), layout, strict=True):
            key, value = other.view(*shape, -1).chunk(2, dim=-1)  # [N, M, E] each
            mixed.append(attention_of_one(query, key, value, place, self.heads))
        attended = block.attend(chosen, mixed[0] if len(mixed) == 1 else torch.cat(mixed))
        return block.mlp(attended if lone is None else torch.cat((attended, block.attend_alone(lone))))

    @torch.no_grad()
    def alone(self, tokens: Tensor) -> Tensor:
        """Transform tokens that are sequences of their own, [..., E]: attention is then the value itself."""
        block = self._pass()
        return block.mlp(block.attend_alone(tokens.reshape(-1, tokens.shape[-1]))).view(tokens.shape)

    def with_dropout(self, tokens: Tensor) -> Tensor:
        """Transform tokens with noise on attention and on both residual steps, left to autograd."""
        rate = self.dropout if self.training else 0.0
        heads = self.query_key_value(self.norm_attention(tokens) if self.norm_attention else tokens)
        tokens = tokens + fn.dropout(self.attention_out(fused_attention(heads, self.heads, rate)), rate)
        hidden = self.mlp_in(self.norm_mlp(tokens) if self.norm_mlp else tokens)
        return tokens + fn.dropout(self.mlp_out(fn.gelu(hidden)), rate)

    def weights(self) -> BlockWeights:
        """All parameters, looked up again only after they were exchanged, e.g. for those of another device."""
        if self._weights is None or self._weights.in_weight is not self.mlp_in.weight:
            self._weights = self._look_up()
        return self._weights

    def _look_up(self) -> BlockWeights:
        first, second = self.norm_attention, self.norm_mlp
        heads, out, mlp_in, mlp_out = self.query_key_value, self.attention_out, self.mlp_in, self.mlp_out
        scales = [None if norm is None else norm.weight for norm in (first, second)]
        shifts = [None if norm is None else norm.bias for norm in (first, second)]
        return BlockWeights(
            scales[0], shifts[0], *_of(heads), *_of(out), scales[1], shifts[1], *_of(mlp_in), *_of(mlp_out)
        )

    def _pass(self) -> BlockPass:
        """One pass without a way back."""
        return BlockPass(self.weights(), self.heads, self.products, keep=False)


def _of(layer: nn.Linear) -> tuple[Tensor, Tensor]:
    return layer.weight, layer.bias


def transform(rows: Tensor, layout: Layout, blocks: Sequence[nn.Module], head: HeadWeights | None = None) -> Tensor:
    """Transform the tokens of sequences, [R, E], by a stack of blocks, one after the other.

    With a head, its answers to the tokens are returned instead, [R].
    """
    stack = [cast(Block, block) for block in blocks]
    if any(block.dropout and block.training for block in stack):
        parts = [part.view(*shape, -1) for part, shape in zip(rows.split(rows_of(layout)), layout, strict=True)]
        for block in stack:
            parts = [block.with_dropout(part) for part in parts]
        rows = torch.cat([part.flatten(0, 1) for part in parts])
        stack = []
    return _apply(rows, layout, None, stack, head) if stack or head else rows


def transform_after(
    rows: Tensor, first: Tensor, blocks: Sequence[nn.Module], head: HeadWeights | None = None
) -> Tensor:
    """Transform sequences, [N · M, E], that see one more token before their first one, [N, E].

    Gradients flow into the rows only: the weights must be frozen, and the token before is a constant.
    """
    count = len(first)
    return _apply(rows, ((count, len(rows) // count),), first, [cast(Block, block) for block in blocks], head)


def _apply(
    rows: Tensor, layout: Layout, first: Tensor | None, stack: Sequence[Block], head: HeadWeights | None
) -> Tensor:
    weights = [weight for block in stack for weight in block.weights()] + list(head or ())
    settings = [(block.heads, block.products) for block in stack]
    learning = torch.is_grad_enabled() and any(w is not None and w.requires_grad for w in weights)
    if first is not None and learning:
        raise ValueError("Gradients of the weights need the first tokens too: use `transform`.")
    keep = learning or (torch.is_grad_enabled() and rows.requires_grad)
    out: Tensor = _Stack.apply(rows, layout, first, keep, settings, *weights)  # type: ignore[no-untyped-call]
    return out


class _Stack(torch.autograd.Function):
    """A stack of blocks, and perhaps a head, as one node of the gradient's graph."""

    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        layout: Layout,
        first: Tensor | None,
        keep: bool,
        settings: list[tuple[int, Products]],
        *weights: Tensor | None,
    ) -> Tensor:
        """Transform tokens, [R, E], to tokens or to answers, [R]."""
        size = len(BlockWeights._fields)
        passes: list[BlockPass | HeadPass] = []
        for number, (heads, products) in enumerate(settings):
            own = BlockWeights(*weights[number * size : (number + 1) * size])  # type: ignore[arg-type]
            block = BlockPass(own, heads, products, keep=keep)
            if first is None:
                rows = block.forward(rows, layout)
            else:
                rows, first = block.forward_after(rows, layout, first, number == len(settings) - 1)
            if keep:  # otherwise its activations go before the next block makes its own
                passes.append(block)
        if len(weights) > size * len(settings):
            head = HeadPass(HeadWeights(*weights[-len(HeadWeights._fields) :]))  # type: ignore[arg-type]
            rows = head.forward(rows)
            passes.append(head)
        ctx.passes = passes if keep else []
        return rows

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of the tokens and, if they are needed, of all weights."""
        others = ctx.needs_input_grad[5:]
        want = any(others)
        gradients: list[Tensor | None] = []
        for block in reversed(ctx.passes):
            grad, own = block.backward(grad, want)
            gradients = own + gradients
        return grad, None, None, None, None, *(gradients or (None,) * len(others))


def _firsts(layout: Layout, device: torch.device) -> Tensor:
    """The row of each sequence's first token, [N]."""
    parts, before = [], 0
    for count, length in layout:
        parts.append(before + length * torch.arange(count, device=device))
        before += count * length
    return torch.cat(parts)
