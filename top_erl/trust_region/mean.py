"""The projection that all layers use for the mean: go back along the straight line to the old one.

Problem: min_μ d(μ, μ_new) subject to d(μ, μ_old) ≤ ε, with d a squared distance in any one metric. The
solution lies on the line between the two means, at the weight sqrt(ε / d(μ_new, μ_old)) of the new one.
Covariances in the Frobenius and Wasserstein layers obey the same rule in their own coordinates.

Axes: `B` states, `P` dimension.
"""

from __future__ import annotations

import torch
from torch import Tensor


def interpolation_weight(distance: Tensor, bound: float) -> tuple[Tensor, Tensor]:
    """Weight of the new point that puts the interpolated point on the bound.

    Args:
        distance: Squared distance between new and old [...].
        bound: Largest allowed squared distance.

    Returns:
        Weight sqrt(ε / d) [...], exactly 1 without gradient where the bound holds already; and whether the
        bound is active [...], which is d > ε.
    """
    active = distance > bound  # [...]
    one = torch.ones_like(distance)
    # Both inputs of the square root are replaced where it is not needed: its slope at d = 0 is infinite, and
    # infinity times the zero gradient of an unused branch would be NaN.
    limit = torch.where(active, torch.full_like(distance, bound), one)
    return (limit / torch.where(active, distance, one)).sqrt(), active


def project_mean(new: Tensor, old: Tensor, distance: Tensor, bound: float) -> tuple[Tensor, Tensor]:
    """Project means onto the ball around the old means.

    Args:
        new: New means [B, P].
        old: Old means [B, P].
        distance: Squared distance of each pair [B], differentiable in `new`.
        bound: Largest allowed distance ε_μ, in the unit of `distance`.

    Returns:
        Projected means [B, P] and whether the bound was active [B]. Where it is not, the new mean is returned
        as is.
    """
    weight, active = interpolation_weight(distance, bound)  # [B], [B]
    # μ* = μ_old + sqrt(ε/d) (μ_new - μ_old)
    moved = old + weight.unsqueeze(-1) * (new - old)  # [B, P]
    return torch.where(active.unsqueeze(-1), moved, new), active
