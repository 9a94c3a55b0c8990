"""Gaussian distributions as a mean and a covariance factor, and the KL divergence between them.

Axes: `B` states of a batch, `K` samples per state, `P` dimension of the Gaussian.

The covariance is Σ = L Lᵀ. A policy whose covariance does not depend on the state has one factor and many
means; that *shared* factor has no batch axis, so that whatever is computed from it is computed once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from top_erl.errors import UserError
from top_erl.trust_region.factor import factorize


@dataclass(frozen=True)
class Gaussian:
    """A batch of Gaussians.

    Attributes:
        mean: Means [..., P].
        factor: Lower-triangular factors L with positive diagonal, [..., P, P] or [P, P] if shared; standard
            deviations, [..., P] or [P] if shared, when `diagonal`.
        diagonal: Whether the covariance is diagonal and `factor` holds standard deviations.
    """

    mean: Tensor
    factor: Tensor
    diagonal: bool = False

    def __post_init__(self) -> None:
        axes = 1 if self.diagonal else 2
        wanted = (self.dim,) * axes
        if self.factor.dim() < axes or tuple(self.factor.shape[-axes:]) != wanted:
            kind = "standard deviations" if self.diagonal else "a lower-triangular factor"
            raise UserError(
                f"A Gaussian with mean {tuple(self.mean.shape)} needs {kind} whose last axes are {wanted}, "
                f"got {tuple(self.factor.shape)}."
            )

    @classmethod
    def from_covariance(cls, mean: Tensor, covariance: Tensor, name: str = "the covariance") -> Gaussian:
        """Gaussian with the full covariance [..., P, P]; `name` is used in the error if it has no factor."""
        return cls(mean, factorize(covariance, name))

    @property
    def dim(self) -> int:
        """Dimension P."""
        return self.mean.shape[-1]

    @property
    def shared(self) -> bool:
        """Whether all means have one covariance in common (the factor has no batch axis)."""
        return self.factor.dim() == (1 if self.diagonal else 2)

    def scale(self) -> Tensor:
        """Diagonal of the factor [..., P] ([P] if shared); the product of its entries is sqrt|Σ|."""
        return self.factor if self.diagonal else self.factor.diagonal(dim1=-2, dim2=-1)

    def matrix_factor(self) -> Tensor:
        """Lower-triangular factor [..., P, P], also for a diagonal covariance."""
        return torch.diag_embed(self.factor) if self.diagonal else self.factor

    def covariance(self) -> Tensor:
        """Covariance Σ = L Lᵀ as matrices [..., P, P] ([P, P] if shared)."""
        factor = self.matrix_factor()
        return factor @ factor.mT

    def std(self) -> Tensor:
        """Marginal standard deviations sqrt(Σ_ii) [..., P] ([P] if shared)."""
        # Σ_ii = Σ_j L_ij²: the length of row i of the factor.
        return self.factor if self.diagonal else torch.linalg.vector_norm(self.factor, dim=-1)

    def entropy(self) -> Tensor:
        """Differential entropy [...] ([] if shared)."""
        # H = P/2 log(2πe) + Σ_i log L_ii
        return 0.5 * self.dim * math.log(2 * math.pi * math.e) + self.scale().log().sum(-1)

    def sample(self, noise: Tensor) -> Tensor:
        """Turn standard normal noise into one sample per mean.

        Args:
            noise: Standard normal numbers [..., P], shaped like the mean.

        Returns:
            mean + L noise, [..., P].
        """
        if self.diagonal:
            return self.mean + self.factor * noise
        if self.shared:  # one product
            return self.mean + noise @ self.factor.mT
        return self.mean + (self.factor @ noise.unsqueeze(-1)).squeeze(-1)

    def sample_many(self, noise: Tensor) -> Tensor:
        """Turn standard normal noise [..., K, P] into K samples per mean [..., K, P]."""
        return self.per_sample().sample(noise)

    def per_sample(self) -> Gaussian:
        """The same Gaussians with an axis for samples: mean [..., 1, P] broadcasts over [..., K, P]."""
        factor = self.factor if self.shared else self.factor.unsqueeze(-2 if self.diagonal else -3)
        return Gaussian(self.mean.unsqueeze(-2), factor, self.diagonal)

    def whiten(self, difference: Tensor, transposed: bool = False) -> Tensor:
        """Solve L x = difference for x, [..., P]: lengths become Mahalanobis lengths. `transposed`: Lᵀ x."""
        if self.diagonal:
            return difference / self.factor
        factor = self.factor.mT if transposed else self.factor
        if self.shared:  # one solve with many right-hand sides
            columns = difference.reshape(-1, self.dim).mT  # [P, N]
            solution: Tensor = torch.linalg.solve_triangular(factor, columns, upper=transposed)
            return solution.mT.reshape(difference.shape)
        column = difference.unsqueeze(-1)  # [..., P, 1]
        solution = torch.linalg.solve_triangular(factor, column, upper=transposed)
        return solution.squeeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density [...] at the values [..., P]; for [..., K, P] use `per_sample().log_prob`."""
        # log p = -1/2 |L⁻¹(x - μ)|² - P/2 log(2π) - Σ_i log L_ii
        squared_length = self.whiten(value - self.mean).square().sum(-1)  # [...]
        return -0.5 * squared_length - 0.5 * self.dim * math.log(2 * math.pi) - self.scale().log().sum(-1)

    def rows(self, index: list[int]) -> Gaussian:
        """The Gaussians of some states; a shared covariance stays shared."""
        factor = self.factor if self.shared else self.factor[index]
        return Gaussian(self.mean[index], factor, self.diagonal)

    def detach(self) -> Gaussian:
        """The same Gaussians, cut off from the gradient."""
        return Gaussian(self.mean.detach(), self.factor.detach(), self.diagonal)

    def to(self, dtype: torch.dtype) -> Gaussian:
        """The same Gaussians in another floating-point type (differentiable)."""
        return Gaussian(self.mean.to(dtype), self.factor.to(dtype), self.diagonal)


def kl_mean_part(a: Gaussian, b: Gaussian) -> Tensor:
    """Mean part of KL(a ‖ b), 1/2 (μ_a - μ_b)ᵀ Σ_b⁻¹ (μ_a - μ_b), per state [B]."""
    if b.mean.requires_grad or b.factor.requires_grad:
        return 0.5 * b.whiten(a.mean - b.mean).square().sum(-1)
    distance: Tensor = _MeanPart.apply(a.mean, b)  # type: ignore[no-untyped-call]
    return distance


def kl_covariance_part(a: Gaussian, b: Gaussian) -> Tensor:
    """Covariance part of KL(a ‖ b), 1/2 [tr(Σ_b⁻¹ Σ_a) - P + log|Σ_b| - log|Σ_a|]; [B], or [] if shared.

    The textbook sum subtracts numbers of size P to get one of size 10⁻⁴ and has no correct digit left in
    float32. With K = L_b⁻¹ L_a and the relative excess d_i = K_ii - 1 of its diagonal, the same number is a
    sum of small, non-negative terms: 1/2 [Σ_{i>j} K_ij² + Σ_i d_i² + 2 (d_i - log(1 + d_i))].
    """
    if a.diagonal and b.diagonal:
        return 0.5 * _diagonal_terms((a.factor - b.factor) / b.factor)
    factors = (a.matrix_factor(), b.matrix_factor())
    if b.factor.requires_grad:
        return 0.5 * _covariance_terms(*factors)[0]
    distance: Tensor = _CovariancePart.apply(*factors)  # type: ignore[no-untyped-call]
    return distance


def _diagonal_terms(excess: Tensor) -> Tensor:
    """Σ_i d_i² + 2 (d_i - log(1 + d_i)), [..., P] to [...]."""
    return (excess.square() + 2 * (excess - excess.log1p())).sum(-1)


def _covariance_terms(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Twice the covariance part [...], and L_b⁻¹ L_a below its diagonal [..., P, P], for factors [..., P, P]."""
    scale = b.diagonal(dim1=-2, dim2=-1)
    excess = (a.diagonal(dim1=-2, dim2=-1) - scale) / scale  # d_i, [..., P]
    below = torch.linalg.solve_triangular(b, a, upper=False).tril(-1)
    return _diagonal_terms(excess) + below.square().sum((-2, -1)), below


class _MeanPart(torch.autograd.Function):
    """The mean part as one node of the gradient's graph: its slope is Σ_b⁻¹ (μ_a - μ_b)."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, b: Gaussian) -> Tensor:
        """Measure means [..., P]."""
        ctx.b, ctx.whitened = b, b.whiten(mean - b.mean)
        return 0.5 * ctx.whitened.square().sum(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        """Gradient of the mean."""
        return grad.unsqueeze(-1) * ctx.b.whiten(ctx.whitened, transposed=True), None


class _CovariancePart(torch.autograd.Function):
    """The covariance part as one node: its slope is the lower triangle of L_b⁻ᵀ (K - diag(1 / K_ii))."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        """Measure factors [..., P, P]."""
        twice, below = _covariance_terms(a, b)
        ctx.save_for_backward(a, b, below)
        return 0.5 * twice

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        """Gradient of a's factor."""
        a, b, below = ctx.saved_tensors
        own, other = a.diagonal(dim1=-2, dim2=-1), b.diagonal(dim1=-2, dim2=-1)
        slope = (own - other) * (own + other) / (own * other)  # K_ii - 1 / K_ii without cancellation, [..., P]
        inner = torch.linalg.solve_triangular(b.mT, below + torch.diag_embed(slope), upper=True).tril()
        return grad[..., None, None] * inner, None


def kl_divergence(a: Gaussian, b: Gaussian) -> Tensor:
    """KL(a ‖ b) per state [B]."""
    return kl_mean_part(a, b) + kl_covariance_part(a, b)
