"""Frobenius projection of a covariance: min |Σ - Σ_new|² subject to |Σ - Σ_old|² ≤ ε, in the Frobenius norm.

The solution is the point of the bound on the straight line between the two covariances.

Axes: `...` batch, `P` dimension.
"""

from __future__ import annotations

import torch
from torch import Tensor

from top_erl.trust_region.factor import factorize_active
from top_erl.trust_region.mean import interpolation_weight


def factor_distance(a: Tensor, b: Tensor) -> Tensor:
    """Squared distance |Σ_a - Σ_b|² [...] of full covariances given as factors [..., P, P]."""
    return (a @ a.mT - b @ b.mT).square().sum((-2, -1))


def std_distance(a: Tensor, b: Tensor) -> Tensor:
    """Squared distance |Σ_a - Σ_b|² [...] of diagonal covariances given as standard deviations [..., P]."""
    return (a.square() - b.square()).square().sum(-1)


def project_factor(new: Tensor, old: Tensor, bound: float) -> tuple[Tensor, Tensor]:
    """Project full covariances.

    Args:
        new: Factors of the new covariances [..., P, P]. Differentiable.
        old: Factors of the old covariances, broadcastable to `new`. A constant.
        bound: Largest allowed squared distance to the old covariance.

    Returns:
        Lower-triangular factors [..., P, P], and whether the bound was active [...].
    """
    old = old.detach()
    weight, active = interpolation_weight(factor_distance(new, old), bound)
    new_covariance, old_covariance = new @ new.mT, old @ old.mT  # [..., P, P]
    # Σ* = Σ_old + sqrt(ε/d) (Σ_new - Σ_old)
    covariance = old_covariance + weight[..., None, None] * (new_covariance - old_covariance)
    return factorize_active(active, covariance, new, "the Frobenius-projected covariance"), active


def project_std(new: Tensor, old: Tensor, bound: float) -> tuple[Tensor, Tensor]:
    """Project diagonal covariances; as `project_factor`, with standard deviations [..., P]."""
    old = old.detach()
    weight, active = interpolation_weight(std_distance(new, old), bound)
    variance = old.square() + weight.unsqueeze(-1) * (new.square() - old.square())  # [..., P]
    return torch.where(active.unsqueeze(-1), variance.sqrt(), new), active
