"""Gaussian distributions as a mean and a covariance factor, and the KL divergence between them.

Axes: `B` states of a batch, `K` samples per state, `P` dimension of the Gaussian.

The covariance is Σ = L Lᵀ. A policy whose covariance does not depend on the state has one factor and many
means; that *shared* factor has no batch axis, so that whatever is computed from it is computed once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

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
        return self.mean + (self.factor @ noise.unsqueeze(-1)).squeeze(-1)

    def sample_many(self, noise: Tensor) -> Tensor:
        """Turn standard normal noise [..., K, P] into K samples per mean [..., K, P]."""
        return self.per_sample().sample(noise)

    def per_sample(self) -> Gaussian:
        """The same Gaussians with an axis for samples: mean [..., 1, P] broadcasts over [..., K, P]."""
        factor = self.factor if self.shared else self.factor.unsqueeze(-2 if self.diagonal else -3)
        return Gaussian(self.mean.unsqueeze(-2), factor, self.diagonal)

    def whiten(self, difference: Tensor) -> Tensor:
        """Solve L x = difference for x, [..., P]: lengths become Mahalanobis lengths."""
        if self.diagonal:
            return difference / self.factor
        if self.shared:  # one solve with many right-hand sides
            columns = difference.reshape(-1, self.dim).mT  # [P, N]
            solution: Tensor = torch.linalg.solve_triangular(self.factor, columns, upper=False)
            return solution.mT.reshape(difference.shape)
        column = difference.unsqueeze(-1)  # [..., P, 1]
        solution = torch.linalg.solve_triangular(self.factor, column, upper=False)
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
    return 0.5 * b.whiten(a.mean - b.mean).square().sum(-1)


def kl_covariance_part(a: Gaussian, b: Gaussian) -> Tensor:
    """Covariance part of KL(a ‖ b), 1/2 [tr(Σ_b⁻¹ Σ_a) - P + log|Σ_b| - log|Σ_a|]; [B], or [] if shared.

    The textbook sum subtracts numbers of size P to get one of size 10⁻⁴ and has no correct digit left in
    float32. With K = L_b⁻¹ L_a and the relative excess d_i = K_ii - 1 of its diagonal, the same number is a
    sum of small, non-negative terms: 1/2 [Σ_{i>j} K_ij² + Σ_i d_i² + 2 (d_i - log(1 + d_i))].
    """
    excess = (a.scale() - b.scale()) / b.scale()  # d_i, [..., P]
    total = (excess.square() + 2 * (excess - excess.log1p())).sum(-1)  # [...]
    if not (a.diagonal and b.diagonal):
        ratio = torch.linalg.solve_triangular(b.matrix_factor(), a.matrix_factor(), upper=False)  # [..., P, P]
        total = total + ratio.tril(-1).square().sum((-2, -1))
    return 0.5 * total


def kl_divergence(a: Gaussian, b: Gaussian) -> Tensor:
    """KL(a ‖ b) per state [B]."""
    return kl_mean_part(a, b) + kl_covariance_part(a, b)
