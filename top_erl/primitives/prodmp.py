"""Probabilistic dynamic movement primitives (ProDMP).

The closed-form solution of a dynamic movement primitive: linear in its parameters like a ProMP, and smooth
from any initial position and velocity like a DMP (Li et al., 2023; Eq. (4) of the paper).

Axes: `T` times, `D` degrees of freedom, `N` basis functions, `G = N + 1` with the goal, `P = D * G`
parameters, `K` segments, `L` actions per segment, `2` position and velocity. Parameters are DoF-major:
[w_1 .. w_N, g] of the first degree of freedom, then of the second, and so on. All leading axes are batch axes
and broadcast.
"""

from __future__ import annotations

import torch
from torch import Tensor

from top_erl.primitives.config import ProDmpConfig
from top_erl.primitives.distribution import TrajectoryDistribution
from top_erl.primitives.fitting import ridge_regression
from top_erl.primitives.reference import (
    CastOnce,
    Reference,
    as_time,
    broadcast_shape,
    check_params,
    check_times,
)
from top_erl.primitives.segments import SegmentBasis, SegmentGrid
from top_erl.primitives.tables import GridIndex, ProDmpTables, condition


class ProDmp:
    """Trajectories from parameters and an initial state; differentiable in both, in any precision and device.

    With `relative_goal` the goal is an offset from `goal_origin`, by default the initial position of the
    call. To re-start the same movement from a later state, pass the position its first call began at as
    `goal_origin`: the goal then stays where it was.
    """

    def __init__(self, config: ProDmpConfig) -> None:
        self.config = config
        self.tables = ProDmpTables(config)
        self.num_columns = config.num_basis + 1
        self.num_params = config.num_dof * self.num_columns
        scales = [config.weights_scale] * config.num_basis + [config.goal_scale]
        self.scale = self.tables.auto_scale * torch.tensor(scales, dtype=torch.float64)  # [G]
        self._scale = CastOnce(self.scale)

    def trajectory(
        self,
        params: Tensor,
        times: Tensor,
        init_time: float | Tensor,
        init_position: Tensor,
        init_velocity: Tensor,
        goal_origin: Tensor | None = None,
    ) -> Reference:
        """The trajectory through an initial state.

        Args:
            params: Parameters, [..., P].
            times: Seconds, [T] or [..., T]; they may lie before `init_time`, and between grid points.
            init_time: Seconds at which the initial state is given, one number or [...].
            init_position: [..., D].
            init_velocity: Per second, [..., D].
            goal_origin: What a relative goal is relative to, [..., D]; unused with an absolute goal.
        """
        basis = self._basis(times, init_time, params)  # [..., T, 2, G+2]
        coefficients = self._coefficients(params, init_position, init_velocity, goal_origin)  # [..., D, G+2]
        states = torch.einsum("...tsg,...dg->...tsd", basis, coefficients)  # [..., T, 2, D]
        return Reference(position=states[..., 0, :], velocity=states[..., 1, :])

    def grid(self, action_times: Tensor, condition_times: Tensor, dtype: torch.dtype | None = None) -> SegmentGrid:
        """Prepare `segments` for fixed times, on the device of `action_times`.

        Args:
            action_times: Seconds at which segments have actions, [n].
            condition_times: Seconds at which segments may begin, i.e. their initial state is given, [m].
            dtype: Precision of the parameters; by default that of `action_times`.
        """
        check_times(action_times)
        check_times(condition_times)
        dtype = action_times.dtype if dtype is None else dtype
        condition_times = condition_times.to(action_times.device)
        actions, starts = self.tables.locate(action_times), self.tables.locate(condition_times)  # [n], [m]
        rows = GridIndex(starts.lower.unsqueeze(-1), starts.fraction.unsqueeze(-1))  # [m, 1]
        return SegmentGrid(
            action_times=action_times.double() / self.config.tau,
            condition_times=condition_times.double() / self.config.tau,
            motions=self.tables.lookup(actions, dtype),  # [n, 2, G]
            condition_motions=self.tables.lookup(starts, dtype),  # [m, 2, G]
            transition=self.tables.transition(actions, rows).to(dtype),  # [m, n, 2, 2]
        )

    def segments(
        self,
        basis: SegmentBasis,
        params: Tensor,
        init_position: Tensor,
        init_velocity: Tensor,
        goal_origin: Tensor | None = None,
    ) -> Tensor:
        """Actions of K segments, each through its own initial state; one matrix product.

        Args:
            basis: From `SegmentGrid.basis`.
            params: [..., K, P], or [..., 1, P] for the same parameters in all segments.
            init_position: Position at each segment's start, [..., K, D] (or [..., 1, D]).
            init_velocity: Velocity at each segment's start, [..., K, D] (or [..., 1, D]).
            goal_origin: What a relative goal is relative to, [..., K, D] or [..., 1, D].

        Returns:
            Positions, then velocities, [..., K, L, 2D].
        """
        coefficients = self._coefficients(params, init_position, init_velocity, goal_origin)
        lead = coefficients.shape[:-3]
        coefficients = coefficients.expand(*lead, basis.num_segments, -1, -1)  # [..., K, D, G+2]
        states = torch.einsum("klsg,...kdg->...klsd", basis.matrix, coefficients)  # [..., K, L, 2, D]
        return states.flatten(-2)

    def distribution(
        self,
        mean: Tensor,
        factor: Tensor,
        times: Tensor,
        init_time: float | Tensor,
        init_position: Tensor,
        init_velocity: Tensor,
        goal_origin: Tensor | None = None,
        regularization: float = 1e-4,
    ) -> TrajectoryDistribution:
        """Gaussian over trajectories of Gaussian parameters; the initial state is certain.

        Args:
            mean: Mean of the parameters, [..., P].
            factor: L with parameter covariance L L^T, [..., P, P].
            times: As in `trajectory`.
            init_time: As in `trajectory`.
            init_position: As in `trajectory`.
            init_velocity: As in `trajectory`.
            goal_origin: As in `trajectory`.
            regularization: Added to the diagonal, as a fraction of the largest variance of the whole batch.
        """
        check_params(factor.mT, self.num_params)
        basis = self._basis(times, init_time, mean)  # [..., T, 2, G+2]
        coefficients = self._coefficients(mean, init_position, init_velocity, goal_origin)  # [..., D, G+2]
        states = torch.einsum("...tsg,...dg->...sdt", basis, coefficients).flatten(-2)  # [..., 2, D * T]
        scale = self._scale.to(mean.dtype, mean.device)
        design = basis[..., : self.num_columns] * scale  # [..., T, 2, G]
        return TrajectoryDistribution(
            mean_position=states[..., 0, :],
            position_design=design[..., 0, :],
            factor=factor,
            regularization=regularization,
            mean_velocity=states[..., 1, :],
            velocity_design=design[..., 1, :],
        )

    def fit(
        self,
        positions: Tensor,
        times: Tensor,
        init_time: float | Tensor | None = None,
        init_position: Tensor | None = None,
        init_velocity: Tensor | None = None,
        goal_origin: Tensor | None = None,
        ridge: float = 1e-9,
    ) -> Tensor:
        """Parameters, [..., P], whose trajectory is nearest to demonstrated positions.

        Args:
            positions: Demonstration, [..., T, D].
            times: Seconds, [T] or [..., T].
            init_time: Time of the initial state; by default the first time.
            init_position: [..., D]; by default the first position.
            init_velocity: [..., D]; by default the first difference quotient.
            goal_origin: As in `trajectory`.
            ridge: Weight of the penalty on large parameters.
        """
        check_times(times, least=2)
        if init_velocity is None:
            step = (times[..., 1] - times[..., 0]).unsqueeze(-1)
            init_velocity = ((positions[..., 1, :] - positions[..., 0, :]) / step).to(positions.dtype)
        init_time = times[..., 0] if init_time is None else init_time
        init_position = positions[..., 0, :] if init_position is None else init_position
        nothing = torch.zeros(self.num_params, dtype=torch.float64, device=positions.device)
        basis = self._basis(times, init_time, nothing)[..., 0, :]  # [..., T, G+2]
        fixed = self._coefficients(nothing, init_position, init_velocity, goal_origin)  # [..., D, G+2]
        targets = positions.double() - torch.einsum("...tg,...dg->...td", basis, fixed)
        design = basis[..., : self.num_columns] * self.scale.to(positions.device)  # [..., T, G]
        return ridge_regression(design, targets, ridge).to(positions.dtype)

    def _basis(self, times: Tensor, init_time: float | Tensor, like: Tensor) -> Tensor:
        """Basis of trajectories through a state at `init_time`, [..., T, 2, G + 2]."""
        check_times(times)
        index = self.tables.locate(times.to(like.device))  # [..., T]
        start = self.tables.locate(as_time(init_time, like).unsqueeze(-1))  # [..., 1]
        transition = self.tables.transition(index, start).to(like)  # [..., T, 2, 2]
        motions, start_motions = (self.tables.lookup(place, like.dtype) for place in (index, start))
        return condition(motions, start_motions, transition)

    def _coefficients(
        self, params: Tensor, init_position: Tensor, init_velocity: Tensor, goal_origin: Tensor | None
    ) -> Tensor:
        """Scaled weights, absolute goal, initial position and velocity of every DoF, [..., D, G + 2].

        The absolute goal is scale * g + origin: the origin meets the goal's column unscaled.
        """
        check_params(params, self.num_params)
        position, velocity = init_position.to(params), init_velocity.to(params)
        weights = torch.unflatten(params, -1, (self.config.num_dof, self.num_columns))  # [..., D, G]
        weights = weights * self._scale.to(params.dtype, params.device)
        goal = weights[..., -1]  # [..., D]
        if self.config.relative_goal:
            goal = goal + (position if goal_origin is None else goal_origin.to(params))
        shape = broadcast_shape(goal.shape, position.shape, velocity.shape)  # [..., D]
        weights = weights[..., :-1].expand(*shape, -1)
        state = [column.expand(shape).unsqueeze(-1) for column in (goal, position, velocity)]
        return torch.cat((weights, *state), dim=-1)
