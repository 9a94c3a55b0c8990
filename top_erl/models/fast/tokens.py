"""Embedding states and actions as tokens, straight into the rows of one matrix, forward and backward.

    first token:   W_s s + place_0        others:   W_a a_i + place_i

Actions are laid out with an empty row where a state's token goes, so that one product makes the tokens and one more
the gradient of its weights; nothing is joined or cut apart afterwards.

Axes: `B` episodes, `K` sequences, `L` actions per sequence, `S` state entries, `A` action entries, `R` tokens,
`E` width.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from top_erl.models.fast.passes import Layout


def embed(
    state: Tensor, actions: Tensor, place: Tensor, weights: tuple[Tensor, Tensor], tail: int
) -> tuple[Tensor, Layout]:
    """Embed sequences; those of full length come first, then the last ones if they are shorter.

    Args:
        state: first state of each sequence, [B, K, S].
        actions: its actions, [B, K, L, A].
        place: what is added to the tokens, [K, L + 1, E].
        weights: of states, [E, S], and of actions, [E, A].
        tail: actions of the last sequence that count, at most L.

    Returns:
        Tokens, [R, E], and how the sequences lie there.
    """
    lengths = _lengths(actions.shape, tail)
    rows: Tensor = _Embed.apply(state, actions, place, *weights, lengths)  # type: ignore[no-untyped-call]
    return rows, tuple((len(state) * (chosen.stop - chosen.start), length + 1) for chosen, length in lengths)


_Lengths = list[tuple[slice, int]]
"""Which sequences have one length, and that length in actions."""


def _lengths(shape: torch.Size, tail: int) -> _Lengths:
    """The full sequences, then the last one if it is shorter."""
    count, length = shape[1:3]
    full = count if tail == length else count - 1
    return [own for own in ((slice(0, full), length), (slice(full, count), tail)) if own[0].stop > own[0].start]


class _Embed(torch.autograd.Function):
    """The embedding as one node of the gradient's graph."""

    @staticmethod
    def forward(
        ctx: Any,
        state: Tensor,
        actions: Tensor,
        place: Tensor,
        state_weight: Tensor,
        action_weight: Tensor,
        lengths: _Lengths,
    ) -> Tensor:
        """Make the tokens, [R, E]."""
        spread = _spread(actions, lengths)  # [R, A]
        rows = spread @ action_weight.mT
        first = state @ state_weight.mT  # [B, K, E]
        for (chosen, length), tokens in _views(rows, lengths, len(state)):
            tokens[:, :, 0] = first[:, chosen]
            tokens += place[chosen, : length + 1]
        ctx.save_for_backward(state, spread, state_weight, action_weight)
        ctx.lengths, ctx.shapes = lengths, (actions.shape, place.shape)
        return rows

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of states and actions, if they are needed, and of place and weights."""
        state, spread, state_weight, action_weight = ctx.saved_tensors
        need_state, need_actions, need_place, need_state_weight, need_action_weight, _ = ctx.needs_input_grad
        actions_shape, place_shape = ctx.shapes
        views = list(_views(grad, ctx.lengths, len(state)))
        first = torch.cat([tokens[:, :, 0] for _, tokens in views], dim=1)  # [B, K, E]
        flat = first.flatten(0, 1)
        return (
            first @ state_weight if need_state else None,
            _gather(grad @ action_weight, ctx.lengths, actions_shape) if need_actions else None,
            _sum_over_episodes(views, place_shape) if need_place else None,
            (state.flatten(0, 1).mT @ flat).mT if need_state_weight else None,  # the wider matrix second is faster
            (spread.mT @ grad).mT if need_action_weight else None,
            None,
        )


def _views(rows: Tensor, lengths: _Lengths, episodes: int) -> list[tuple[tuple[slice, int], Tensor]]:
    """The rows of the sequences of each length, [B, K, L + 1, F]."""
    shapes = [(episodes, chosen.stop - chosen.start, length + 1) for chosen, length in lengths]
    split = rows.split([math.prod(shape) for shape in shapes])
    return [(own, tokens.view(*shape, -1)) for own, tokens, shape in zip(lengths, split, shapes, strict=True)]


def _spread(actions: Tensor, lengths: _Lengths) -> Tensor:
    """Actions, [B, K, L, A], in the rows of their tokens; the rows of states are zero. [R, A]."""
    episodes, size = actions.shape[0], actions.shape[-1]
    count = sum(episodes * (chosen.stop - chosen.start) * (length + 1) for chosen, length in lengths)
    rows = actions.new_zeros(count, size)
    for (chosen, length), own in _views(rows, lengths, episodes):
        own[:, :, 1:] = actions[:, chosen, :length]
    return rows


def _gather(rows: Tensor, lengths: _Lengths, shape: torch.Size) -> Tensor:
    """The inverse of `_spread`, [R, A] to [B, K, L, A]; actions that were not embedded get zero."""
    out = rows.new_zeros(shape)
    for (chosen, length), own in _views(rows, lengths, shape[0]):
        out[:, chosen, :length] = own[:, :, 1:]
    return out


def _sum_over_episodes(views: list[tuple[tuple[slice, int], Tensor]], shape: torch.Size) -> Tensor:
    """Gradient of what was added to the tokens, [K, L + 1, E]."""
    out = views[0][1].new_zeros(shape)
    for (chosen, length), tokens in views:
        out[chosen, : length + 1] = tokens.sum(0)
    return out
