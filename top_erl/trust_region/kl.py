"""KL projection of a covariance, solved as one bounded scalar equation with an exact gradient.

Problem: min_Σ KL(Σ ‖ Σ_new) subject to KL(Σ ‖ Σ_old) ≤ ε, covariance parts only. The solution interpolates
the *precisions* Q = Σ⁻¹ with a weight t of the new one, 0 < t ≤ 1 (t = 1/(1 + η), η the Lagrange multiplier):

    Q* = t Q_new + (1 - t) Q_old

Seen from the old Gaussian (multiply by L_old from both sides) the old precision is the identity, and the new
one has the eigenvalues r_i, the squared singular values of L_new⁻¹ L_old = W diag(sqrt r) Vᵀ. Then

    Σ* = L_old V diag(s) Vᵀ L_oldᵀ,   s_i = 1 / (1 + t ρ_i),   ρ_i = r_i - 1
    κ(t) = KL(Σ* ‖ Σ_old) = 1/2 Σ_i f(t ρ_i),   f(x) = log(1 + x) - x / (1 + x)

and t is the root of κ(t) = ε, or 1 if already κ(1) ≤ ε. All of it is computed in float64.

Axes: `...` batch, `P` dimension.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from top_erl.trust_region.factor import factorize

_SERIES_BELOW = 1e-2
"""Below this |x| the two terms of f(x) cancel, and its series takes over (eight terms: exact to rounding)."""

_SERIES = tuple((-1) ** n * (n - 1) / n for n in range(2, 10))
"""f(x) = Σ_{n≥2} (-1)ⁿ (n-1)/n xⁿ."""

_RELATIVE_TOLERANCE = 1e-13
_TINY = float(np.finfo(np.float64).tiny)


class ProjectedFactor(NamedTuple):
    """A projected covariance factor and how it came about.

    Attributes:
        factor: Lower-triangular factors [..., P, P], or standard deviations [..., P].
        weight: Weight t of the new precision [...], 1 where the bound is not active.
        active: Whether the bound was active [...].
    """

    factor: Tensor
    weight: Tensor
    active: Tensor


def project_factor(new: Tensor, old: Tensor, bound: float) -> ProjectedFactor:
    """KL projection of full covariances.

    Args:
        new: Factors of the new covariances [..., P, P], lower triangular with positive diagonal.
            Differentiable.
        old: Factors of the old covariances, broadcastable to `new`. A constant.
        bound: Largest allowed covariance part of KL(projected ‖ old), a total over all dimensions.

    Returns:
        The projection in the type of `new`. Where the bound is not active the new factor is returned as is.
    """
    new, old = torch.broadcast_tensors(new, old)
    factor, weight, active = _FullProjection.apply(new, old.detach(), bound)  # type: ignore[no-untyped-call]
    return ProjectedFactor(factor, weight, active)


def project_std(new: Tensor, old: Tensor, bound: float) -> ProjectedFactor:
    """KL projection of diagonal covariances; as `project_factor`, with standard deviations [..., P]."""
    new, old = torch.broadcast_tensors(new, old)
    std, weight, active = _DiagonalProjection.apply(new, old.detach(), bound)  # type: ignore[no-untyped-call]
    return ProjectedFactor(std, weight, active)


def solve_weight(excess: Tensor, bound: float) -> tuple[Tensor, Tensor]:
    """Weight t of the new precision that puts the projection on the bound.

    Args:
        excess: ρ = r - 1 > -1 [..., P] in float64; r as in the module docstring.
        bound: ε.

    Returns:
        Weights [...], and whether the bound is active [...].
    """
    if excess.device.type != "cpu":  # a fixed number of steps, so that nothing waits for the device
        return _newton(torch, excess, bound, steps=20, stop_early=False)
    with np.errstate(all="ignore"):  # NumPy, because on small vectors PyTorch is mostly overhead
        if excess.dim() == 1:
            weight, active = _newton_for_one(excess.numpy(), bound, steps=60)
        else:
            weight, active = _newton(np, excess.numpy(), bound, steps=60, stop_early=True)
    return torch.as_tensor(weight, dtype=excess.dtype), torch.as_tensor(active)


def _newton(xp: Any, excess: Any, bound: float, *, steps: int, stop_early: bool) -> tuple[Any, Any]:
    """`solve_weight` for arrays of the library `xp`, NumPy or PyTorch.

    κ grows from 0 like t², so sqrt κ is nearly a straight line: Newton's method on sqrt κ(t) - sqrt ε needs
    two to four steps. It is kept inside a bracket that follows from
    x²/2 / max(1, 1+x)² ≤ f(x) ≤ x²/2 / min(1, 1+x)².
    """
    # λ > 1e15 rounds to ρ = -1, where f is infinite minus infinite; any ρ this close gives the same t.
    excess = xp.clip(excess, -1 + 2**-50, 1e150)
    one = xp.ones_like(excess[..., 0])  # [...]
    active = _divergence(xp, one, excess) > bound  # [...]
    steep = abs(excess)  # |1/λ - 1|, with λ = 1/r
    flat = steep / (1 + excess)  # |1 - λ|
    root = bound**0.5
    # Rounding must not close the bracket when all eigenvalues are nearly one: leave a hair on both sides.
    low = _limit(xp, root, xp.maximum(steep, flat)) * (1 - 1e-9)
    high = _limit(xp, root, xp.minimum(steep, flat)) * (1 + 1e-9)
    weight = xp.sqrt(low * high)
    for _ in range(steps):
        value = _divergence(xp, weight, excess)
        open_ = active & (abs(value - bound) > _RELATIVE_TOLERANCE * bound)
        if stop_early and not open_.any():
            break
        below = value < bound
        low, high = xp.where(below, weight, low), xp.where(below, high, weight)
        value_root = xp.sqrt(xp.clip(value, _TINY, None))
        # t ← t - h/h' with h = sqrt κ - sqrt ε. Outside the bracket: its geometric mean, as t can be 1e-10.
        slope = xp.clip(_slope(weight, excess), _TINY, None)
        newton = weight - 2 * value_root * (value_root - root) / slope
        inside = (newton > low) & (newton < high)
        weight = xp.where(open_, xp.where(inside, newton, xp.sqrt(low * high)), weight)
    return xp.where(active, xp.clip(weight, None, 1.0), one), active


def _newton_for_one(excess: Any, bound: float, steps: int) -> tuple[float, bool]:
    """`_newton` for one covariance, ρ [P]: the same steps, but with plain numbers for the weight and its bracket."""
    excess = np.clip(excess, -1 + 2**-50, 1e150)
    if not _sum_of_f(np, excess) > bound:
        return 1.0, False
    steep = abs(excess)
    flat, root = steep / (1 + excess), bound**0.5
    low = float(_limit(np, root, np.maximum(steep, flat))) * (1 - 1e-9)
    high = float(_limit(np, root, np.minimum(steep, flat))) * (1 + 1e-9)
    weight = math.sqrt(low * high)
    for _ in range(steps):
        value = float(_sum_of_f(np, weight * excess))
        if abs(value - bound) <= _RELATIVE_TOLERANCE * bound:
            break
        low, high = (weight, high) if value < bound else (low, weight)
        share = excess / (1 + weight * excess)
        slope, value_root = 0.5 * weight * float(share @ share), math.sqrt(max(value, _TINY))
        newton = weight - 2 * value_root * (value_root - root) / max(slope, _TINY)
        weight = newton if low < newton < high else math.sqrt(low * high)
    return min(weight, 1.0), True


def _divergence(xp: Any, weight: Any, excess: Any) -> Any:
    """κ(t) = 1/2 Σ_i f(t ρ_i) [...], for weights t [...] and excess precisions ρ [..., P]."""
    return _sum_of_f(xp, weight[..., None] * excess)


def _sum_of_f(xp: Any, x: Any) -> Any:
    """1/2 Σ_i f(x_i) [...], for x [..., P]."""
    exact = xp.log1p(x) - x / (1 + x)
    small = abs(x) < _SERIES_BELOW
    if xp is np and not small.any():  # the usual case, at half the price; looking costs nothing here
        return 0.5 * exact.sum(-1)
    series = _SERIES[-1]
    for coefficient in reversed(_SERIES[:-1]):
        series = series * x + coefficient
    return 0.5 * xp.where(small, series * x * x, exact).sum(-1)


def _slope(weight: Any, excess: Any) -> Any:
    """dκ/dt = t/2 Σ_i ρ_i² s_i² [...]."""
    share = excess / (1 + weight[..., None] * excess)
    return 0.5 * weight * (share * share).sum(-1)


def _limit(xp: Any, root: float, distance: Any) -> Any:
    """A bound of the weight from distances [..., P]: 2 sqrt ε over their length, at most one."""
    length = xp.sqrt((distance * distance).sum(-1))
    return xp.clip(2 * root / xp.clip(length, _TINY, None), None, 1.0)


def _constraint_multiplier(shrink: Tensor, excess: Tensor, gradient: Tensor) -> Tensor:
    """How much of the gradient lies along the bound's normal and is lost, [..., 1].

    μ = Σ_i s_i d_i Ĝ_ii / Σ_i d_i² with d_i = ρ_i s_i.

    Args:
        shrink: s [..., P].
        excess: ρ [..., P].
        gradient: Ĝ_ii, the loss differentiated by s_i [..., P].
    """
    lever = excess * shrink  # d, [..., P]
    length = lever.square().sum(-1, keepdim=True)
    return (shrink * lever * gradient).sum(-1, keepdim=True) / torch.where(length > 0, length, 1.0)


class _FullProjection(torch.autograd.Function):
    """Forward by the singular values of L_new⁻¹ L_old, backward by implicit differentiation of κ(t) = ε.

    The backward pass has no difference of eigenvalues in a denominator, so repeated eigenvalues do no harm.
    """

    @staticmethod
    def forward(ctx: FunctionCtx, new: Tensor, old: Tensor, bound: float) -> tuple[Tensor, Tensor, Tensor]:
        """Project; all arguments as in `project_factor`, with equal shapes."""
        old64 = old.double()
        relative = torch.linalg.solve_triangular(new.double(), old64, upper=False)  # L_new⁻¹ L_old
        left, root, right_t = torch.linalg.svd(relative)  # W, sqrt r, Vᵀ
        excess = (root - 1) * (root + 1)  # ρ [..., P]
        weight, active = solve_weight(excess, bound)
        # An inactive row is not used below; with t = 0 its (possibly ill-conditioned) matrix is the identity.
        used = torch.where(active, weight, torch.zeros_like(weight))
        shrink = 1 / (1 + used.unsqueeze(-1) * excess)  # s [..., P]
        # Σ* seen from the old Gaussian. On the bound its eigenvalues are close to one: safe to factorise.
        inner = factorize(right_t.mT @ (shrink.unsqueeze(-1) * right_t), "the KL-projected covariance")  # C
        factor = torch.where(active[..., None, None], (old64 @ inner).to(new.dtype), new)
        ctx.save_for_backward(old64, left, root, right_t, inner, weight, active, excess, shrink)
        weight_out = weight.to(new.dtype)
        ctx.mark_non_differentiable(weight_out, active)
        return factor, weight_out, active

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad: Tensor, *unused: Tensor) -> tuple[Tensor, None, None]:
        """Gradient for the new factor, from the gradient for the projected one."""
        old, left, root, right_t, inner, weight, active, excess, shrink = ctx.saved_tensors  # type: ignore[attr-defined]
        # From L* = L_old C back to Σ* as the old Gaussian sees it: the reverse of a Cholesky factorisation.
        #   G = sym(C⁻ᵀ Φ(Cᵀ C̄) C⁻¹), Φ: lower triangle with halved diagonal
        half = (inner.mT @ (old.mT @ grad.double()).tril()).tril()
        half = half - 0.5 * torch.diag_embed(half.diagonal(dim1=-2, dim2=-1))
        half = torch.linalg.solve_triangular(inner.mT, half, upper=True)
        half = torch.linalg.solve_triangular(inner, half, upper=False, left=False)
        gradient = right_t @ (0.5 * (half + half.mT)) @ right_t.mT  # Ĝ in the eigenbasis, [..., P, P]
        # Σ_new by implicit differentiation: H_ij = t a_i a_j (Ĝ_ij - δ_ij μ ρ_i), a_i = s_i r_i
        multiplier = _constraint_multiplier(shrink, excess, gradient.diagonal(dim1=-2, dim2=-1))
        along = gradient - torch.diag_embed(multiplier * excess)
        # L_new: tril(2 L_old⁻ᵀ V H Vᵀ L_old⁻¹ L_new), where Vᵀ L_old⁻¹ L_new = diag(r^-½) Wᵀ
        rows = weight.unsqueeze(-1) * shrink * root.square()  # t a_i, at most one
        columns = shrink * root  # a_j r_j^-½
        outer = right_t.mT @ (rows.unsqueeze(-1) * along * columns.unsqueeze(-2)) @ left.mT
        grad_new = 2 * torch.linalg.solve_triangular(old.mT, outer, upper=True).tril()
        return torch.where(active[..., None, None], grad_new.to(grad.dtype), grad), None, None


class _DiagonalProjection(torch.autograd.Function):
    """The same in one basis for all: every matrix is diagonal."""

    @staticmethod
    def forward(ctx: FunctionCtx, new: Tensor, old: Tensor, bound: float) -> tuple[Tensor, Tensor, Tensor]:
        """Project; all arguments as in `project_std`, with equal shapes."""
        new64, old64 = new.double(), old.double()
        excess = (old64 - new64) * (old64 + new64) / new64.square()  # ρ = σ_old²/σ_new² - 1, [..., P]
        weight, active = solve_weight(excess, bound)
        shrink = 1 / (1 + weight.unsqueeze(-1) * excess)  # s [..., P]
        std = torch.where(active.unsqueeze(-1), (old64 * shrink.sqrt()).to(new.dtype), new)
        ctx.save_for_backward(new64, old64, weight, active, excess, shrink)
        weight_out = weight.to(new.dtype)
        ctx.mark_non_differentiable(weight_out, active)
        return std, weight_out, active

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad: Tensor, *unused: Tensor) -> tuple[Tensor, None, None]:
        """Gradient for the new standard deviations, from the gradient for the projected ones."""
        new, old, weight, active, excess, shrink = ctx.saved_tensors  # type: ignore[attr-defined]
        gradient = 0.5 * grad.double() * old / shrink.sqrt()  # Ĝ_ii: σ* = σ_old sqrt(s)
        along = gradient - _constraint_multiplier(shrink, excess, gradient) * excess
        # σ_new: t a_i² (Ĝ_ii - μ ρ_i) dλ_i/dσ_new, with a_i = s_i r_i and λ_i = σ_new²/σ_old² = 1/r_i
        grad_new = 2 * weight.unsqueeze(-1) * shrink.square() * (old / new).square() * along / new
        return torch.where(active.unsqueeze(-1), grad_new.to(grad.dtype), grad), None, None
