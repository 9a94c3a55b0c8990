"""What learners ask of a movement primitive, all of it by way of one matrix.

Given the state it starts from, a trajectory is linear in the parameters. For every degree of freedom it is

    [y, dy](t) = Psi(t, t_b) [scaled parameters, y_b, dy_b]

with (y_b, dy_b) the state at t_b. A kind of primitive is its Psi, `Primitive.basis`; trajectories, distributions over
them, fitting and segments of movements follow from it here.

Axes: `T` times, `D` degrees of freedom, `G` parameters of each, `P = D * G`, `K` segments, `L` actions per segment,
`n` action times, `m` condition times, `2` position and velocity. Parameters are DoF-major: all of the first degree of
freedom, then of the second, and so on. All leading axes are batch axes and broadcast.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from top_erl.config.primitive import PrimitiveConfig
from top_erl.errors import UserError
from top_erl.primitives.distribution import TrajectoryDistribution
from top_erl.primitives.fitting import ridge_regression
from top_erl.primitives.reference import CastOnce, Reference, broadcast_shape, check_params, check_times


@dataclass(frozen=True)
class SegmentGrid:
    """The matrix from every time at which a segment may start to every later time at which it may have an action.

    An off-policy update needs, for a whole batch, the actions of K segments that start at different times. All that
    depends on time alone is here; the basis of a set of segments is then a single gather.
    """

    table: Tensor
    """Psi, [m, n, 2, G + 2]; NaN where no segment can go."""

    def basis(self, starts: Tensor, actions: Tensor) -> Tensor:
        """Gather the matrices of K segments, [K, L, 2, G + 2].

        Args:
            starts: Index into the condition times of each segment's initial state, long, [K].
            actions: Indices into the action times of each segment's actions, long, [K, L].
        """
        return self.table[starts.unsqueeze(-1), actions]


class Primitive(ABC):
    """Trajectories from parameters and an initial state; differentiable in both, in any precision and device.

    With a relative goal the last parameter of each degree of freedom is an offset from `goal_origin`, by default the
    initial position of the call. To restart the same movement from a later state, pass the position its first call
    began at as `goal_origin`: the goal then stays where it was.
    """

    restarts: ClassVar[bool] = True
    """Whether a movement can go on from any state at any time, not only from its start at time 0."""
    can_end_at_rest: ClassVar[bool] = False
    """Whether this kind heeds `PrimitiveConfig.end_at_rest`."""

    def __init__(
        self, config: PrimitiveConfig, num_dof: int, dt: float, scale: Tensor, *, relative_goal: bool = False
    ) -> None:
        """Keep what all kinds share.

        Args:
            config: Settings.
            num_dof: D, at least 1.
            dt: Control step in seconds, above 0.
            scale: What each parameter of a degree of freedom is multiplied with, float64, [G].
            relative_goal: Whether the last of them is a goal that counts from `goal_origin`.
        """
        if num_dof < 1:
            raise UserError(f"num_dof is {num_dof}; a primitive moves at least 1 degree of freedom.")
        if not 0.0 < dt < float("inf"):
            raise UserError(f"dt is {dt}; set it to the control step, a number of seconds above 0.")
        if config.end_at_rest:
            self._check_end_at_rest(config, dt)
        self.config, self.num_dof, self.dt = config, num_dof, dt
        self.scale, self.relative_goal = scale, relative_goal
        self.num_columns = len(scale)
        self.num_params = num_dof * self.num_columns
        self._scale = CastOnce(scale)

    def _check_end_at_rest(self, config: PrimitiveConfig, dt: float) -> None:
        """Refuse a kind that cannot, and an end between two control steps."""
        if not self.can_end_at_rest:
            raise UserError(f"A primitive of kind {config.kind} cannot end at rest; use --primitive.no-end-at-rest.")
        if abs(config.tau / dt - round(config.tau / dt)) > 1e-6:
            raise UserError(
                f"To end at rest a movement must last whole control steps: set primitive.tau, {config.tau:g} s, to a "
                f"multiple of dt, {dt:g} s."
            )

    @abstractmethod
    def basis(self, times: Tensor, init_time: float | Tensor, like: Tensor) -> Tensor:
        """The matrix Psi of one degree of freedom, [..., T, 2, G + 2], before parameters are scaled.

        Args:
            times: Seconds, [T] or [..., T].
            init_time: Seconds at which the initial state is given, one number or [...].
            like: Tells precision and device.
        """

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
            times: Seconds, [T] or [..., T].
            init_time: Seconds at which the initial state is given, one number or [...].
            init_position: [..., D].
            init_velocity: Per second, [..., D].
            goal_origin: What a relative goal is relative to, [..., D]; unused with an absolute goal.
        """
        basis = self.basis(times, init_time, params)  # [..., T, 2, G+2]
        coefficients = self._coefficients(params, init_position, init_velocity, goal_origin)  # [..., D, G+2]
        states = torch.einsum("...tsg,...dg->...tsd", basis, coefficients)  # [..., T, 2, D]
        return Reference(position=states[..., 0, :], velocity=states[..., 1, :])

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
        basis = self.basis(times, init_time, mean)  # [..., T, 2, G+2]
        coefficients = self._coefficients(mean, init_position, init_velocity, goal_origin)  # [..., D, G+2]
        states = torch.einsum("...tsg,...dg->...sdt", basis, coefficients)  # [..., 2, D, T]
        return TrajectoryDistribution(states.flatten(-2), self.design(basis), factor, regularization)

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
            times: Seconds, [T] or [..., T], at least two.
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
        basis = self.basis(times, init_time, nothing)  # [..., T, 2, G+2]
        fixed = self._coefficients(nothing, init_position, init_velocity, goal_origin)  # [..., D, G+2]
        targets = positions.double() - torch.einsum("...tg,...dg->...td", basis[..., 0, :], fixed)
        return ridge_regression(self.design(basis)[..., 0, :], targets, ridge).to(positions.dtype)

    def grid(self, action_times: Tensor, condition_times: Tensor, dtype: torch.dtype | None = None) -> SegmentGrid:
        """Prepare `segments` for fixed times, on the device of `action_times`.

        Args:
            action_times: Seconds at which segments have actions, [n].
            condition_times: Seconds at which segments may begin, i.e. their initial state is given, [m].
            dtype: Precision of the parameters; by default that of `action_times`.
        """
        check_times(action_times)
        check_times(condition_times)
        starts = condition_times.to(action_times).unsqueeze(-1)  # [m, 1]
        like = action_times.new_empty(0, dtype=dtype)
        table = self.basis(torch.maximum(action_times, starts), starts.squeeze(-1), like)  # [m, n, 2, G+2]
        before = (action_times < starts)[..., None, None]  # a segment has no actions before its start
        return SegmentGrid(table.masked_fill(before, float("nan")))

    def segments(
        self,
        basis: Tensor,
        params: Tensor,
        init_position: Tensor,
        init_velocity: Tensor,
        goal_origin: Tensor | None = None,
    ) -> Tensor:
        """Actions of K segments, each through its own initial state; one matrix product.

        Args:
            basis: From `SegmentGrid.basis`, [K, L, 2, G + 2].
            params: [..., K, P], or [..., 1, P] for the same parameters in all segments.
            init_position: Position at each segment's start, [..., K, D] (or [..., 1, D]).
            init_velocity: Velocity at each segment's start, [..., K, D] (or [..., 1, D]).
            goal_origin: What a relative goal is relative to, [..., K, D] or [..., 1, D].

        Returns:
            Positions, then velocities, [..., K, L, 2D].
        """
        coefficients = self._coefficients(params, init_position, init_velocity, goal_origin)
        coefficients = coefficients.expand(*coefficients.shape[:-3], len(basis), -1, -1)  # [..., K, D, G+2]
        states = torch.einsum("klsg,...kdg->...klsd", basis, coefficients)  # [..., K, L, 2, D]
        return states.flatten(-2)

    def design(self, basis: Tensor) -> Tensor:
        """Motion per unit of each parameter of a degree of freedom, [..., 2, G], from [..., 2, G + 2]."""
        return basis[..., : self.num_columns] * self._scale.to(basis.dtype, basis.device)

    def _coefficients(
        self, params: Tensor, init_position: Tensor, init_velocity: Tensor, goal_origin: Tensor | None
    ) -> Tensor:
        """Scaled parameters, initial position and velocity of every degree of freedom, [..., D, G + 2].

        The last parameter is scale * g + origin with a relative goal: the origin meets the goal's column unscaled.
        """
        check_params(params, self.num_params)
        position, velocity = init_position.to(params), init_velocity.to(params)
        weights = torch.unflatten(params, -1, (self.num_dof, self.num_columns))  # [..., D, G]
        weights = weights * self._scale.to(params.dtype, params.device)
        last = weights[..., -1]  # [..., D]
        if self.relative_goal:
            last = last + (position if goal_origin is None else goal_origin.to(params))
        shape = broadcast_shape(last.shape, position.shape, velocity.shape)  # [..., D]
        weights = weights[..., :-1].expand(*shape, -1)
        state = [column.expand(shape).unsqueeze(-1) for column in (last, position, velocity)]
        return torch.cat((weights, *state), dim=-1)
