"""New actions for old segments: the movement primitive under fresh parameters (Sec. 4.3.1).

Axes: `B` episodes, `K` segments, `L` actions per segment, `D` degrees of freedom, `P` primitive parameters.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from top_erl.algorithms.segments import Segments
from top_erl.primitives import ProDmp
from top_erl.primitives.segments import SegmentBasis, SegmentGrid
from top_erl.rollout import EpisodeBatch


class Regeneration:
    """Regenerates the actions of segments; what depends on the cut alone is worked out once for each."""

    def __init__(self, primitive: ProDmp, grid: SegmentGrid) -> None:
        """Prepare for a primitive on the times of an episode."""
        self.primitive, self.grid = primitive, grid
        self._bases: WeakKeyDictionary[Segments, dict[str, tuple[Tensor, SegmentBasis]]] = WeakKeyDictionary()

    def __call__(self, batch: EpisodeBatch, segments: Segments, params: Tensor, condition: str) -> Tensor:
        """Actions of the segments under new parameters, [B, K, P] → [B, K, L, 2D].

        The initial condition is the old reference at the segment's start, or the episode's first state. A relative
        goal always refers to the episode's first position, whatever the initial condition.
        """
        starts, basis = self._basis(segments, condition)
        position, velocity = batch.reference[:, starts].chunk(2, dim=-1)  # [B, K, D] each
        origin = batch.reference[:, :1].chunk(2, dim=-1)[0]  # [B, 1, D]
        return self.primitive.segments(basis, params, position, velocity, goal_origin=origin)

    @torch.inference_mode(False)
    def _basis(self, segments: Segments, condition: str) -> tuple[Tensor, SegmentBasis]:
        """Where the initial conditions lie, [K], and the basis from there on."""
        known = self._bases.setdefault(segments, {})
        if condition not in known:
            starts = segments.starts if condition == "segment" else torch.zeros_like(segments.starts)
            known[condition] = (starts, self.grid.basis(starts, segments.inside))
        return known[condition]
