"""Wasserstein-2 projection of a covariance, in the approximation that new and old covariance commute.

With symmetric square roots S (Σ = S S) the covariance part of the squared distance is then tr(Σ + Σ_old - 2
S_old S), which is |S - S_old|²; scaled by the old precision it is |(S - S_old) S_old⁻¹|². Both are quadratic
in S, so the projection is an interpolation of the roots that ends exactly on the bound. There is no factor
1/2 in the distance.

Axes: `...` batch, `P` dimension.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from top_erl.trust_region.factor import factorize_active
from top_erl.trust_region.mean import interpolation_weight


def symmetric_root(factor: Tensor) -> Tensor:
    """Symmetric square root S of L Lᵀ, differentiable also where eigenvalues are repeated.

    Args:
        factor: Lower-triangular factors L [..., P, P].

    Returns:
        Symmetric positive definite roots [..., P, P].
    """
    root: Tensor = _SymmetricRoot.apply(factor)  # type: ignore[no-untyped-call]
    return root


class _SymmetricRoot(torch.autograd.Function):
    """S = W diag(σ) Wᵀ from the singular value decomposition L = W diag(σ) Zᵀ."""

    @staticmethod
    def forward(ctx: FunctionCtx, factor: Tensor) -> Tensor:
        """Root [..., P, P] of a lower-triangular factor [..., P, P]."""
        lower = factor.tril()
        basis, values, _ = torch.linalg.svd(lower)  # W [..., P, P], σ [..., P]
        ctx.save_for_backward(lower, basis, values)
        root: Tensor = (basis * values.unsqueeze(-2)) @ basis.mT
        return root

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad: Tensor) -> Tensor:
        """Solve the Sylvester equation of dS S + S dS = dΣ in the eigenbasis of S."""
        lower, basis, values = ctx.saved_tensors  # type: ignore[attr-defined]
        # Σ̄_ij = S̄_ij / (σ_i + σ_j): a sum in the denominator, never a difference
        inner = (basis.mT @ (grad + grad.mT) @ basis) / (values.unsqueeze(-1) + values.unsqueeze(-2))
        result: Tensor = (basis @ inner @ basis.mT @ lower).tril()  # L̄ = tril((Σ̄ + Σ̄ᵀ) L)
        return result


def factor_distance(a: Tensor, b: Tensor, scale_prec: bool) -> Tensor:
    """Covariance part of the squared distance [...] between full covariances given as factors [..., P, P]."""
    return _root_distance(symmetric_root(a), symmetric_root(b), scale_prec)


def std_distance(a: Tensor, b: Tensor, scale_prec: bool) -> Tensor:
    """Covariance part of the squared distance [...] of diagonal covariances given as deviations [..., P]."""
    return ((a - b) / b if scale_prec else a - b).square().sum(-1)


def project_factor(new: Tensor, old: Tensor, bound: float, scale_prec: bool) -> tuple[Tensor, Tensor]:
    """Project full covariances.

    Args:
        new: Factors of the new covariances [..., P, P]. Differentiable.
        old: Factors of the old covariances, broadcastable to `new`. A constant.
        bound: Largest allowed covariance part of the squared distance to the old one.
        scale_prec: Measure in units of the old standard deviations.

    Returns:
        Lower-triangular factors [..., P, P], and whether the bound was active [...].
    """
    new_root, old_root = symmetric_root(new), symmetric_root(old.detach())  # [..., P, P]
    weight, active = interpolation_weight(_root_distance(new_root, old_root, scale_prec), bound)
    # S* = S_old + sqrt(ε/d) (S_new - S_old)
    root = old_root + weight[..., None, None] * (new_root - old_root)
    return factorize_active(active, root @ root.mT, new, "the W2-projected covariance"), active


def project_std(new: Tensor, old: Tensor, bound: float, scale_prec: bool) -> tuple[Tensor, Tensor]:
    """Project diagonal covariances; as `project_factor`, with standard deviations [..., P]."""
    old = old.detach()
    weight, active = interpolation_weight(std_distance(new, old, scale_prec), bound)
    return torch.where(active.unsqueeze(-1), old + weight.unsqueeze(-1) * (new - old), new), active


def _root_distance(a: Tensor, b: Tensor, scale_prec: bool) -> Tensor:
    """|S_a - S_b|², or |(S_a - S_b) S_b⁻¹|², of symmetric roots [..., P, P]; [...]."""
    difference = a - b
    if scale_prec:
        # (X S_b⁻¹)ᵀ = S_b⁻¹ X for symmetric X, and the norm does not see the transpose.
        difference = torch.linalg.solve(b, difference)
    return difference.square().sum((-2, -1))
