"""ProDMP bases of many short segments at once, on a fixed grid of times.

An off-policy update needs, for a whole batch, the actions of K segments that start at different times. All
that depends on time alone is computed once per grid; a set of segments is then a few gathers, and its actions
are one matrix product.

Axes: `K` segments, `L` actions per segment, `n` action times, `m` condition times, `G` columns of the basis,
`2` position and velocity.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from top_erl.primitives.tables import condition


@dataclass(frozen=True)
class SegmentBasis:
    """What `ProDmp.segments` multiplies with parameters and initial states."""

    matrix: Tensor
    """Columns of the parameters, then of the state each segment starts from, [K, L, 2, G + 2]."""

    @property
    def num_segments(self) -> int:
        """K."""
        return self.matrix.shape[0]

    @property
    def num_actions(self) -> int:
        """L."""
        return self.matrix.shape[1]


@dataclass(frozen=True)
class SegmentGrid:
    """Everything about a ProDMP that depends on the times of actions and of initial states only."""

    action_times: Tensor
    """Scaled times t / tau of the actions, float64, [n]."""
    condition_times: Tensor
    """Scaled times at which a segment's initial state may be given, float64, [m]."""
    motions: Tensor
    """Motions caused by the parameters at the action times, [n, 2, G]."""
    condition_motions: Tensor
    """The same at the condition times, [m, 2, G]."""
    transition: Tensor
    """Matrices that carry a state from every condition time to every action time, [m, n, 2, 2]."""

    def basis(self, starts: Tensor, actions: Tensor) -> SegmentBasis:
        """Gather the basis of K segments.

        Args:
            starts: Index into the condition times of each segment's initial state, long, [K].
            actions: Indices into the action times of each segment's actions, long, [K, L].
        """
        transition = self.transition[starts.unsqueeze(-1), actions]  # [K, L, 2, 2]
        start_motions = self.condition_motions[starts].unsqueeze(-3)  # [K, 1, 2, G]
        return SegmentBasis(condition(self.motions[actions], start_motions, transition))
