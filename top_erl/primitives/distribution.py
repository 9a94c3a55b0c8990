"""Gaussian distributions over trajectories.

A primitive is linear in its parameters, so Gaussian parameters give a Gaussian trajectory. Its covariance is
kept as a factor: a trajectory of `D * T` numbers has few parameters, and many users need only the diagonal.

Axes: `T` times, `D` degrees of freedom, `G` parameters of each, `P = D * G`. "Flat" means DoF-major: all
times of the first degree of freedom, then all of the second, and so on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from top_erl.errors import UserError


@dataclass(frozen=True)
class TrajectoryDistribution:
    """Gaussian over positions, and velocities where the primitive has them; covariances made on demand."""

    mean_position: Tensor
    """Mean positions, flat, [..., D * T]."""
    position_design: Tensor
    """Positions of one degree of freedom per unit of each of its parameters, [..., T, G]."""
    factor: Tensor
    """L with parameter covariance L L^T, [..., D * G, P]."""
    regularization: float
    """Added to the diagonal, as a fraction of the largest variance of the whole batch."""
    mean_velocity: Tensor | None = None
    """Mean velocities, flat, [..., D * T]; None for a ProMP."""
    velocity_design: Tensor | None = None
    """As `position_design`, for velocities; None for a ProMP."""

    @cached_property
    def position_factor(self) -> Tensor:
        """A with position covariance A A^T before regularisation, [..., D * T, P]."""
        return propagate_factor(self.position_design, self.factor)

    @cached_property
    def position_covariance(self) -> Tensor:
        """Covariance of the flat positions, [..., D * T, D * T]."""
        return _regularized_covariance(self.position_factor, self.regularization)

    @cached_property
    def velocity_covariance(self) -> Tensor:
        """Covariance of the flat velocities, [..., D * T, D * T]."""
        if self.velocity_design is None:
            raise UserError("A ProMP has no distribution of velocities; use a ProDMP.")
        factor = propagate_factor(self.velocity_design, self.factor)
        return _regularized_covariance(factor, self.regularization)

    @cached_property
    def position_std(self) -> Tensor:
        """Standard deviation of every position, [..., T, D]; no covariance is built."""
        variance = self.position_factor.square().sum(-1)  # [..., D * T]
        std = (variance + _jitter(variance, self.regularization)).sqrt()
        return torch.unflatten(std, -1, (-1, self.position_design.shape[-2])).mT  # [..., T, D]

    def log_prob(self, positions: Tensor) -> Tensor:
        """Log-density of positions, [..., T, D], under the joint Gaussian of all times; [...]."""
        flat = positions.mT.flatten(-2)  # [..., D * T]
        cholesky = torch.linalg.cholesky(self.position_covariance)  # [..., D * T, D * T]
        residual = (flat - self.mean_position).unsqueeze(-1)  # [..., D * T, 1]
        whitened = torch.linalg.solve_triangular(cholesky, residual, upper=False).squeeze(-1)
        log_det = cholesky.diagonal(dim1=-2, dim2=-1).log().sum(-1)  # half of the covariance's
        constant = 0.5 * flat.shape[-1] * math.log(2 * math.pi)
        log_prob: Tensor = -0.5 * whitened.square().sum(-1) - log_det - constant
        return log_prob


def propagate_factor(design: Tensor, factor: Tensor) -> Tensor:
    """Carry a factor of the parameter covariance through (I_D kron design).

    Args:
        design: Basis of one degree of freedom, [..., T, G].
        factor: L with parameter covariance L L^T, [..., D * G, P].

    Returns:
        A factor of the covariance of the flat trajectory, [..., D * T, P].
    """
    per_dof = torch.unflatten(factor, -2, (-1, design.shape[-1]))  # [..., D, G, P]
    return torch.einsum("...tg,...dgp->...dtp", design, per_dof).flatten(-3, -2)


def _jitter(variance: Tensor, regularization: float) -> Tensor:
    """One number for the whole batch, as in mp_pytorch; constant for gradients."""
    return regularization * variance.detach().max()


def _regularized_covariance(factor: Tensor, regularization: float) -> Tensor:
    covariance = factor @ factor.mT  # [..., D * T, D * T]
    jitter = _jitter(covariance.diagonal(dim1=-2, dim2=-1), regularization)
    return covariance + jitter * torch.eye(covariance.shape[-1], dtype=factor.dtype, device=factor.device)
