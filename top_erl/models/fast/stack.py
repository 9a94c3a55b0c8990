"""A stack of transformer blocks and the head behind it, as one node of the gradient's graph.

The stack answers three questions at three prices: all tokens (`transform`; `transform_after` without gradients of the
weights and of the first token), one token of each sequence and tokens that are sequences of their own (both by
`transform_chosen`, for targets, without gradients).

Axes: `N` sequences, `M` tokens, `R` tokens of all sequences, `J` tokens alone, `E` width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from top_erl.models.fast.attention import attention_of_one
from top_erl.models.fast.passes import BlockPass, BlockWeights, HeadPass, HeadWeights, Layout, rows_of
from top_erl.models.fast.products import Products


@dataclass(frozen=True)
class Stack:
    """The parameters of a stack and how they are used."""

    blocks: tuple[BlockWeights, ...]
    """Blocks, one after the other."""
    head: HeadWeights | None
    """With a head, its outputs are returned, [R], instead of tokens, [R, E]."""
    num_heads: int
    """Attention heads."""
    products: Products
    """How matrices are multiplied."""

    def weights(self) -> list[Tensor | None]:
        """All parameters in order."""
        return [weight for block in self.blocks for weight in block] + list(self.head or ())

    def block_pass(self, number: int, *, keep: bool) -> BlockPass:
        """A pass through one of the blocks; `keep` what its backward pass needs."""
        return BlockPass(self.blocks[number], self.num_heads, self.products, keep=keep)


def transform(rows: Tensor, layout: Layout, stack: Stack) -> Tensor:
    """Transform the tokens of sequences, [R, E]."""
    return _apply(rows, layout, None, stack)


def transform_after(rows: Tensor, first: Tensor, stack: Stack) -> Tensor:
    """Transform sequences, [N · M, E], that see one more token before their first one, [N, E].

    Gradients flow into the rows only: the weights must be frozen, and the token before is a constant.
    """
    return _apply(rows, ((len(first), len(rows) // len(first)),), first, stack)


@torch.no_grad()
def transform_chosen(rows: Tensor, layout: Layout, index: Tensor, alone: Tensor | None, stack: Stack) -> Tensor:
    """Outputs of the `index`-th token of each sequence, [R, E] and [N] to [N], then of tokens alone, [J, E] to [J].

    In the last block, keys and values are needed of all tokens up to it, everything else of itself only. A token alone
    is a sequence of its own: attention mixes nothing but its own value.
    """
    last = len(stack.blocks) - 1
    for number in range(last):
        block = stack.block_pass(number, keep=False)
        rows, alone = block.forward(rows, layout), None if alone is None else block.forward_alone(alone)
    block, width = stack.block_pass(last, keep=False), rows.shape[1]
    chosen = rows[_first_rows(layout) + index]  # [N, E]
    counts = [count for count, _ in layout]
    queries = block.project(chosen, slice(width)).split(counts)
    others = block.project(rows, slice(width, None)).split(rows_of(layout))  # keys and values
    mixed = []
    for query, other, place, shape in zip(queries, others, index.split(counts), layout, strict=True):
        key, value = other.view(*shape, -1).chunk(2, dim=-1)  # [N, M, E] each
        mixed.append(attention_of_one(query, key, value, place, stack.num_heads))
    attended = block.attend(chosen, mixed[0] if len(mixed) == 1 else torch.cat(mixed))
    tokens = block.mlp(attended if alone is None else torch.cat((attended, block.attend_alone(alone))))
    return _head_pass(stack).forward(tokens)


@torch.no_grad()
def transform_alone(tokens: Tensor, stack: Stack) -> Tensor:
    """Outputs of tokens that are sequences of their own, [J, E] to [J]."""
    for number in range(len(stack.blocks)):
        tokens = stack.block_pass(number, keep=False).forward_alone(tokens)
    return _head_pass(stack).forward(tokens)


def _apply(rows: Tensor, layout: Layout, first: Tensor | None, stack: Stack) -> Tensor:
    weights = stack.weights()
    learning = torch.is_grad_enabled() and any(w is not None and w.requires_grad for w in weights)
    if first is not None and learning:
        raise ValueError("Gradients of the weights need the first tokens too: use `transform`.")
    keep = learning or (torch.is_grad_enabled() and rows.requires_grad)
    out: Tensor = _Transform.apply(rows, layout, first, keep, stack, *weights)  # type: ignore[no-untyped-call]
    return out


def _head_pass(stack: Stack) -> HeadPass:
    assert stack.head is not None
    return HeadPass(stack.head)


class _Transform(torch.autograd.Function):
    """The stack as one node; its weights are arguments too, for autograd to see them."""

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, layout: Layout, first: Tensor | None, keep: bool, stack: Stack, *weights: Tensor | None
    ) -> Tensor:
        """Transform tokens, [R, E], to tokens or to outputs of the head, [R]."""
        passes: list[BlockPass | HeadPass] = []
        for number in range(len(stack.blocks)):
            block = stack.block_pass(number, keep=keep)
            if first is None:
                rows = block.forward(rows, layout)
            else:
                rows, first = block.forward_after(rows, layout, first, number == len(stack.blocks) - 1)
            if keep:  # otherwise its activations are freed before the next block makes its own
                passes.append(block)
        if stack.head is not None:
            head = HeadPass(stack.head)
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


def _first_rows(layout: Layout) -> Tensor:
    """The row of each sequence's first token, [N]."""
    rows, before = [], 0
    for count, length in layout:
        rows.append(before + length * torch.arange(count, device="cpu"))
        before += count * length
    return torch.cat(rows)
