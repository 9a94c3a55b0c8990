"""New actions for old segments: the movement primitive under fresh parameters (Sec. 4.3.1).

Axes: `B` episodes, `K` segments, `L` actions per segment, `D` degrees of freedom, `P` primitive parameters.
"""

from __future__ import annotations

import torch
from torch import Tensor

from top_erl.algorithms.top_erl.segments import Segments
from top_erl.errors import UserError
from top_erl.primitives import Primitive, SegmentGrid
from top_erl.rollout.replay import EpisodeBatch


def check_conditions(primitive: Primitive, **conditions: str) -> None:
    """Refuse options whose value is "segment" for a primitive that cannot go on from a segment's first state."""
    wanted = [name for name, condition in conditions.items() if condition == "segment"]
    if wanted and not primitive.restarts:
        options = " ".join(f"--learn.{name.replace('_', '-')} episode" for name in wanted)
        raise UserError(
            f"A movement of kind {primitive.config.kind} cannot be restarted at a segment's start: "
            f"use {options}, or --primitive.kind prodmp."
        )


class Regeneration:
    """Regenerates the actions of segments."""

    def __init__(self, primitive: Primitive, grid: SegmentGrid) -> None:
        """Prepare for a primitive on the times of an episode."""
        self.primitive, self.grid = primitive, grid

    @classmethod
    def of_tokens(
        cls, primitive: Primitive, horizon: int, stride: int, dt: float, device: torch.device
    ) -> Regeneration:
        """Prepare for stored episodes of so many tokens, m control steps apart.

        Stored action j was tracked from time m·j·dt on and describes the reference at (m·j + 1)·dt.
        """
        steps = torch.arange(horizon, dtype=torch.float64, device=device) * stride
        return cls(primitive, primitive.grid((steps + 1) * dt, steps * dt, dtype=torch.float32))

    def __call__(self, batch: EpisodeBatch, segments: Segments, params: Tensor, condition: str) -> Tensor:
        """Actions of the segments under new parameters, [B, K, P] → [B, K, L, 2D].

        The initial condition is the old reference at the segment's start, or the episode's first state. A relative
        goal always refers to the episode's first position, whatever the initial condition.
        """
        starts = segments.starts if condition == "segment" else torch.zeros_like(segments.starts)  # [K]
        position, velocity = batch.reference[:, starts].chunk(2, dim=-1)  # [B, K, D] each
        origin = batch.reference[:, :1].chunk(2, dim=-1)[0]  # [B, 1, D]
        basis = self.grid.basis(starts, segments.inside)  # [K, L, 2, ...]
        return self.primitive.segments(basis, params, position, velocity, goal_origin=origin)
