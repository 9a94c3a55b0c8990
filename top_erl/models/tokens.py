"""Embedding states and actions as tokens, straight into the rows of one matrix, forward and backward.

    first token:   W_s s + place_0        others:   W_a a_i + place_i

Actions are laid out with an empty row where a state's token goes, so that one product makes the tokens and one more
the gradient of its weights; nothing is joined or cut apart afterwards.

Axes: `B` episodes, `K` segments, `L` actions per segment, `S` state entries, `A` action entries, `R` tokens, `E` width.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from top_erl.models.passes import Layout


def embed(
    state: Tensor, actions: Tensor, place: Tensor, weights: tuple[Tensor, Tensor], tail: int
) -> tuple[Tensor, Layout]:
    """Embed segments; those of full length come first, then the last ones if they are shorter.

    Args:
        state: first state of each segment, [B, K, S].
        actions: its actions, [B, K, L, A].
        place: what is added to the tokens, [K, L + 1, E].
        weights: of states, [E, S], and of actions, [E, A].
        tail: actions of the last segment that count, at most L.

    Returns:
        Tokens, [R, E], and how the sequences lie there.
    """
    parts = _parts(actions.shape, tail)
    rows: Tensor = _Embed.apply(state, actions, place, *weights, parts)  # type: ignore[no-untyped-call]
    return rows, tuple((len(state) * (segments.stop - segments.start), length + 1) for segments, length in parts)


_Parts = list[tuple[slice, int]]
"""Segments of one length, and that length in actions."""


def _parts(shape: torch.Size, tail: int) -> _Parts:
    """The full segments, then the last one if it is shorter."""
    count, length = shape[1:3]
    full = count if tail == length else count - 1
    return [part for part in ((slice(0, full), length), (slice(full, count), tail)) if part[0].stop > part[0].start]


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
        parts: _Parts,
    ) -> Tensor:
        """Make the tokens, [R, E]."""
        spread = _spread(actions, parts)  # [R, A]
        rows = spread @ action_weight.mT
        first = state @ state_weight.mT  # [B, K, E]
        for (segments, length), tokens in _views(rows, parts, len(state)):
            tokens[:, :, 0] = first[:, segments]
            tokens += place[segments, : length + 1]
        ctx.save_for_backward(state, spread, state_weight, action_weight)
        ctx.parts, ctx.shapes = parts, (actions.shape, place.shape)
        return rows

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of states and actions, if they are needed, and of place and weights."""
        state, spread, state_weight, action_weight = ctx.saved_tensors
        need_state, need_actions, need_place, need_state_weight, need_action_weight, _ = ctx.needs_input_grad
        actions_shape, place_shape = ctx.shapes
        views = list(_views(grad, ctx.parts, len(state)))
        first = torch.cat([tokens[:, :, 0] for _, tokens in views], dim=1)  # [B, K, E]
        flat = first.flatten(0, 1)
        return (
            first @ state_weight if need_state else None,
            _gather(grad @ action_weight, ctx.parts, actions_shape) if need_actions else None,
            _sum_over_episodes(views, place_shape) if need_place else None,
            (state.flatten(0, 1).mT @ flat).mT if need_state_weight else None,  # the wider factor second is faster
            (spread.mT @ grad).mT if need_action_weight else None,
            None,
        )


def _views(rows: Tensor, parts: _Parts, episodes: int) -> list[tuple[tuple[slice, int], Tensor]]:
    """Each part with its rows, [B, K, L + 1, F]."""
    counts = [episodes * (segments.stop - segments.start) * (length + 1) for segments, length in parts]
    split = zip(parts, rows.split(counts), strict=True)
    return [(part, own.view(episodes, part[0].stop - part[0].start, part[1] + 1, -1)) for part, own in split]


def _spread(actions: Tensor, parts: _Parts) -> Tensor:
    """Actions, [B, K, L, A], in the rows of their tokens; the rows of states are zero. [R, A]."""
    episodes, size = actions.shape[0], actions.shape[-1]
    count = sum(episodes * (segments.stop - segments.start) * (length + 1) for segments, length in parts)
    rows = actions.new_zeros(count, size)
    for (segments, length), own in _views(rows, parts, episodes):
        own[:, :, 1:] = actions[:, segments, :length]
    return rows


def _gather(rows: Tensor, parts: _Parts, shape: torch.Size) -> Tensor:
    """The way back of `_spread`, [R, A] to [B, K, L, A]; actions that were not embedded get zero."""
    out = rows.new_zeros(shape)
    for (segments, length), own in _views(rows, parts, shape[0]):
        out[:, segments, :length] = own[:, :, 1:]
    return out


def _sum_over_episodes(views: list[tuple[tuple[slice, int], Tensor]], shape: torch.Size) -> Tensor:
    """Gradient of what was added to the tokens, [K, L + 1, E]."""
    out = views[0][1].new_zeros(shape)
    for (segments, length), tokens in views:
        out[segments, : length + 1] = tokens.sum(0)
    return out
