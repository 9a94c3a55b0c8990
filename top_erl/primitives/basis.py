"""Normalised radial basis functions over a phase.

Axes: `N` basis functions.
"""

from __future__ import annotations

import torch
from torch import Tensor

from top_erl.primitives.phase import ExponentialPhase, Phase


def basis_centers(phase: Phase, num_basis: int, num_outside: int) -> tuple[Tensor, Tensor]:
    """Centres of the basis functions and the gap from each to its next, both in phase, [N] float64.

    Centres are equally spaced in time over [0, tau]; `num_outside` of the functions lie before it and as many
    after. A single function sits in the middle, with a gap of 1.
    """
    if num_basis == 1:
        middle = torch.tensor([0.5 * phase.tau], dtype=torch.float64)
        return phase.unbounded(middle), torch.ones(1, dtype=torch.float64)
    spacing = phase.tau / (num_basis - 2 * num_outside - 1)
    # one more point than functions, so that the last function has a next one too
    steps = torch.arange(num_basis + 1, dtype=torch.float64) - num_outside  # [N+1]
    points = phase.unbounded(steps * spacing)  # [N+1]
    gaps = points.diff()  # [N]
    if num_basis == 2 and isinstance(phase, ExponentialPhase):
        # the second gap is tiny next to the first; doubled as mp_pytorch does
        gaps[-1] *= 2
    return points[:-1], gaps


class NormalizedRbf:
    """Bell curves over a phase that sum to one (a single one is left as it is)."""

    def __init__(self, phase: Phase, num_basis: int, bandwidth_factor: float, num_outside: int = 0) -> None:
        self.phase = phase
        self.centers, gaps = basis_centers(phase, num_basis, num_outside)  # [N]
        self.bandwidths = bandwidth_factor / gaps**2  # [N]

    def __call__(self, times: Tensor) -> Tensor:
        """Values of the basis functions at times in seconds of any shape `[...]`; float64, [..., N]."""
        phase = self.phase(times.to(torch.float64)).unsqueeze(-1)  # [..., 1]
        centers, bandwidths = self.centers.to(times.device), self.bandwidths.to(times.device)
        exponent = -0.5 * bandwidths * (phase - centers) ** 2  # [..., N]
        if len(centers) == 1:
            return exponent.exp()
        return exponent.softmax(-1)  # exp / sum of exp, safe where every bell curve underflows
