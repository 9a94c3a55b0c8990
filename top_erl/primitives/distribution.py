"""Gaussian distributions over trajectories.

A primitive is linear in its parameters, so Gaussian parameters give a Gaussian trajectory. Covariances are made only
when asked for: a trajectory of `D * T` numbers has few parameters, and many users need only the diagonal.

Axes: `T` times, `D` degrees of freedom, `G` parameters of each, `P = D * G`. "Flat" means DoF-major: all
times of the first degree of freedom, then all of the second, and so on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True)
class TrajectoryDistribution:
    """Gaussian over positions, and one over velocities; covariances made on demand."""

    mean: Tensor
    """Mean positions, then mean velocities, flat, [..., 2, D * T]."""
    design: Tensor
    """Motion of one degree of freedom per unit of each of its parameters, [..., T, 2, G]."""
    factor: Tensor
    """L with parameter covariance L L^T, [..., D * G, P]."""
    regularization: float
    """Added to the diagonal, as a fraction of the largest variance of the whole batch."""

    @property
    def mean_position(self) -> Tensor:
        """Mean positions, flat, [..., D * T]."""
        return self.mean[..., 0, :]

    @property
    def mean_velocity(self) -> Tensor:
        """Mean velocities, flat, [..., D * T]."""
        return self.mean[..., 1, :]

    @cached_property
    def position_covariance(self) -> Tensor:
        """Covariance of the flat positions, [..., D * T, D * T]."""
        return _regularized_covariance(self._root(0), self.regularization)

    @cached_property
    def velocity_covariance(self) -> Tensor:
        """Covariance of the flat velocities, [..., D * T, D * T]."""
        return _regularized_covariance(self._root(1), self.regularization)

    @cached_property
    def position_std(self) -> Tensor:
        """Standard deviation of every position, [..., T, D]; no covariance is built."""
        variance = self._root(0).square().sum(-1)  # [..., D * T]
        std = (variance + _jitter(variance, self.regularization)).sqrt()
        return torch.unflatten(std, -1, (-1, self.design.shape[-3])).mT  # [..., T, D]

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

    def _root(self, which: int) -> Tensor:
        """A with covariance A A^T, before regularisation, of positions (0) or velocities (1), [..., D * T, P]."""
        return propagate(self.design[..., which, :], self.factor)


def propagate(design: Tensor, factor: Tensor) -> Tensor:
    """Multiply a factor of the parameter covariance by (I_D kron design).

    Args:
        design: Basis of one degree of freedom, [..., T, G].
        factor: L with parameter covariance L L^T, [..., D * G, P].

    Returns:
        A with covariance A A^T of the flat trajectory, [..., D * T, P].
    """
    per_dof = torch.unflatten(factor, -2, (-1, design.shape[-1]))  # [..., D, G, P]
    return torch.einsum("...tg,...dgp->...dtp", design, per_dof).flatten(-3, -2)


def _jitter(variance: Tensor, regularization: float) -> Tensor:
    """One number for the whole batch, as in mp_pytorch; constant for gradients."""
    return regularization * variance.detach().max()


def _regularized_covariance(root: Tensor, regularization: float) -> Tensor:
    covariance = root @ root.mT  # [..., D * T, D * T]
    jitter = _jitter(covariance.diagonal(dim1=-2, dim2=-1), regularization)
    return covariance + jitter * torch.eye(covariance.shape[-1], dtype=root.dtype, device=root.device)
