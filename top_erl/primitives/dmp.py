"""Dynamic movement primitives (DMP): a spring-damper system pushed by a learned force.

    tau^2 y'' = alpha (beta (g - y) - tau y') + x sum_i phi_i(x) w_i,    beta = alpha / 4

Eq. (3) of the paper, integrated step by step, which is what a ProDMP avoids. It is here for comparison, and
as the plain way to say what a ProDMP computes.

Axes: `T` times, `D` degrees of freedom, `N` basis functions, `P = D * (N + 1)` parameters, DoF-major: the
weights of a degree of freedom, then its goal. All leading axes are batch axes and broadcast.
"""

from __future__ import annotations

import torch
from torch import Tensor

from top_erl.errors import UserError
from top_erl.primitives.basis import NormalizedRbf
from top_erl.primitives.config import DmpConfig
from top_erl.primitives.fitting import ridge_regression
from top_erl.primitives.phase import ExponentialPhase
from top_erl.primitives.reference import Reference, as_time, broadcast_shape, check_params, check_times


class Dmp:
    """Trajectories by integration from an initial state; differentiable in parameters and state."""

    def __init__(self, config: DmpConfig) -> None:
        self.config = config
        self.num_params = config.num_dof * (config.num_basis + 1)
        self.phase = ExponentialPhase(config.tau, config.alpha_phase)
        outside = config.num_basis_outside
        self.rbf = NormalizedRbf(self.phase, config.num_basis, config.bandwidth_factor, outside)

    def trajectory(
        self,
        params: Tensor,
        times: Tensor,
        init_time: float | Tensor,
        init_position: Tensor,
        init_velocity: Tensor,
    ) -> Reference:
        """Integrate from an initial state.

        Args:
            params: Parameters, [..., P].
            times: Seconds, ascending, [T] or [..., T]; the first is `init_time` or `init_time + dt`.
            init_time: Seconds at which the initial state is given, one number or [...].
            init_position: [..., D].
            init_velocity: Per second, [..., D].
        """
        check_params(params, self.num_params)
        all_times, added = self._with_start(times.to(params.device), init_time)  # [..., T or T+1]
        parts = torch.unflatten(params, -1, (self.config.num_dof, -1))  # [..., D, N+1]
        goal = self.config.goal_scale * parts[..., -1]  # [..., D]
        design = self._force_design(all_times).to(params)  # [..., T, N]
        force = torch.einsum("...tn,...dn->...td", design, parts[..., :-1])  # [..., T, D]
        scaled_times = (all_times / self.config.tau).unsqueeze(-1)  # [..., T, 1]
        steps = scaled_times.diff(dim=-2).to(params)  # [..., T-1, 1]
        states = self._integrate(steps, force, goal, init_position.to(params), init_velocity.to(params))
        return Reference(*(values[..., added:, :] for values in states))

    def _integrate(
        self, steps: Tensor, force: Tensor, goal: Tensor, position: Tensor, velocity: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Semi-implicit Euler: positions and velocities, [..., T, D] each, from initial ones, [..., D]."""
        alpha, tau = self.config.alpha, self.config.tau
        shape = broadcast_shape(force[..., 0, :].shape, position.shape, velocity.shape)  # [..., D]
        y, z = position.expand(shape), tau * velocity.expand(shape)
        ys, zs = [y], [z]
        for i in range(steps.shape[-2]):
            # z_{i+1} = z_i + ds [alpha (beta (g - y_i) - z_i) + f_i],  y_{i+1} = y_i + ds z_{i+1}
            z = z + steps[..., i, :] * (alpha * (alpha / 4 * (goal - y) - z) + force[..., i, :])
            y = y + steps[..., i, :] * z
            ys.append(y)
            zs.append(z)
        return torch.stack(ys, dim=-2), torch.stack(zs, dim=-2) / tau

    def fit(
        self,
        positions: Tensor,
        times: Tensor,
        init_velocity: Tensor | None = None,
        ridge: float = 1e-9,
    ) -> Tensor:
        """Parameters, [..., P], that push the system nearest to demonstrated positions.

        The integration rule is solved for the force at every step; force and goal are then found together.

        Args:
            positions: Demonstration, [..., T, D]; its first entry is the initial position.
            times: Seconds, [T] or [..., T], at least three.
            init_velocity: [..., D]; by default the first difference quotient.
            ridge: Weight of the penalty on large parameters.
        """
        check_times(times, least=3)
        alpha, tau = self.config.alpha, self.config.tau
        steps = (times.double().diff(dim=-1) / tau).unsqueeze(-1)  # [..., T-1, 1]
        later = positions.double().diff(dim=-2) / steps  # [..., T-1, D]: z_{i+1} = (y_{i+1} - y_i) / ds
        first = later[..., :1, :] if init_velocity is None else tau * init_velocity.double().unsqueeze(-2)
        z = torch.cat((first, later), dim=-2)  # [..., T, D]
        # alpha beta g + f_i = (z_{i+1} - z_i) / ds + alpha (beta y_i + z_i)
        now = alpha * (alpha / 4 * positions.double()[..., :-1, :] + z[..., :-1, :])
        targets = z.diff(dim=-2) / steps + now  # [..., T-1, D]
        force = self._force_design(times)[..., :-1, :]  # [..., T-1, N]
        goal = torch.full_like(force[..., :1], self.config.goal_scale * alpha**2 / 4)
        return ridge_regression(torch.cat((force, goal), dim=-1), targets, ridge).to(positions.dtype)

    def _force_design(self, times: Tensor) -> Tensor:
        """Force per unit weight, x phi(x) times the scale, float64, [..., T, N]."""
        return self.config.weights_scale * self.phase(times.double()).unsqueeze(-1) * self.rbf(times)

    def _with_start(self, times: Tensor, init_time: float | Tensor) -> tuple[Tensor, int]:
        """Times from `init_time` on, and how many had to be put before the given ones (0 or 1)."""
        check_times(times)
        start = as_time(init_time, times).double().unsqueeze(-1)  # [..., 1]
        offset = (times[..., :1].double() - start) / self.config.dt  # in steps
        if bool((offset.abs() < 0.01).all()):
            return times.double(), 0
        if not bool(((offset - 1).abs() < 0.01).all()):
            raise UserError(
                f"Times begin {float(offset.flatten()[0]):g} steps (dt={self.config.dt:g}) after init_time; "
                "a DMP integrates from its initial state, so begin at init_time or init_time + dt, "
                "or use a ProDMP."
            )
        lead = broadcast_shape(times.shape[:-1], start.shape[:-1])
        return torch.cat((start.expand(*lead, 1), times.double().expand(*lead, -1)), dim=-1), 1
