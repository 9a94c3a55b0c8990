"""Probabilistic movement primitives (ProMP): positions are a weighted sum of basis functions of time.

Axes: `T` times, `D` degrees of freedom, `N` weights per degree of freedom, `P = D * N` parameters, DoF-major.
All leading axes are batch axes and broadcast.
"""

from __future__ import annotations

import torch
from torch import Tensor

from top_erl.errors import UserError
from top_erl.primitives.basis import NormalizedRbf
from top_erl.primitives.config import ProMpConfig
from top_erl.primitives.distribution import TrajectoryDistribution
from top_erl.primitives.fitting import ridge_regression
from top_erl.primitives.phase import LinearPhase
from top_erl.primitives.reference import Reference, check_params, check_times


class ProMp:
    """Trajectories from weights alone.

    A ProMP has no dynamics: it cannot start from a given velocity, and from a given position only if some of
    its functions are fixed at zero (`num_zero_start`); the initial position is then added to the trajectory.
    """

    def __init__(self, config: ProMpConfig) -> None:
        self.config = config
        self.num_params = config.num_dof * config.num_basis
        total = config.num_basis + config.num_zero_start + config.num_zero_goal
        phase = LinearPhase(config.tau)
        self.rbf = NormalizedRbf(phase, total, config.bandwidth_factor, config.num_basis_outside)

    def trajectory(
        self,
        params: Tensor,
        times: Tensor,
        init_time: float | Tensor | None = None,
        init_position: Tensor | None = None,
        init_velocity: Tensor | None = None,
    ) -> Reference:
        """The trajectory of the weights; velocities are forward differences, the last one repeats.

        Args:
            params: Weights, [..., P].
            times: Seconds, [T] or [..., T], at least two.
            init_time: Unused; here so that primitives can be exchanged.
            init_position: Added to all positions if the primitive is zero-padded, [..., D]; else unused.
            init_velocity: Unused, as `init_time`.
        """
        check_times(times, least=2)
        position = self._mean(params, times, init_position)  # [..., T, D]
        steps = times.diff(dim=-1).unsqueeze(-1).to(params)  # [..., T-1, 1]
        velocity = position.diff(dim=-2) / steps  # [..., T-1, D]
        return Reference(position, torch.cat((velocity, velocity[..., -1:, :]), dim=-2))

    def distribution(
        self,
        mean: Tensor,
        factor: Tensor,
        times: Tensor,
        init_position: Tensor | None = None,
        regularization: float = 1e-4,
    ) -> TrajectoryDistribution:
        """Gaussian over positions of Gaussian weights.

        Args:
            mean: Mean of the weights, [..., P].
            factor: L with weight covariance L L^T, [..., P, P].
            times: Seconds, [T] or [..., T].
            init_position: As in `trajectory`.
            regularization: Added to the diagonal, as a fraction of the largest variance of the whole batch.
        """
        check_params(factor.mT, self.num_params)
        return TrajectoryDistribution(
            mean_position=self._mean(mean, times, init_position).mT.flatten(-2),
            position_design=self._design(times).to(mean),
            factor=factor,
            regularization=regularization,
        )

    def fit(self, positions: Tensor, times: Tensor, init_position: Tensor | None = None, ridge: float = 1e-9) -> Tensor:
        """Weights, [..., P], whose trajectory is nearest to demonstrated positions.

        Args:
            positions: Demonstration, [..., T, D].
            times: Seconds, [T] or [..., T].
            init_position: What a zero-padded primitive starts from, [..., D]; by default the first position.
            ridge: Weight of the penalty on large weights.
        """
        if self.config.zero_padded:
            start = positions[..., 0, :] if init_position is None else init_position
            positions = positions - start.unsqueeze(-2)
        return ridge_regression(self._design(times), positions, ridge)

    def _mean(self, params: Tensor, times: Tensor, init_position: Tensor | None) -> Tensor:
        """Positions, [..., T, D]."""
        check_params(params, self.num_params)
        weights = torch.unflatten(params, -1, (self.config.num_dof, self.config.num_basis))  # [..., D, N]
        position = torch.einsum("...tn,...dn->...td", self._design(times).to(params), weights)
        if not self.config.zero_padded:
            return position
        if init_position is None:
            raise UserError("A zero-padded ProMP moves relative to its start; pass init_position.")
        return position + init_position.unsqueeze(-2).to(params)

    def _design(self, times: Tensor) -> Tensor:
        """Scaled basis functions that have a weight, float64, [..., T, N]."""
        check_times(times)
        first = self.config.num_zero_start
        return self.config.weights_scale * self.rbf(times)[..., first : first + self.config.num_basis]
