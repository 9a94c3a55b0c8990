"""Dynamic movement primitives (DMP): a spring-damper system pushed by a learned force.

    tau^2 y'' = alpha (beta (g - y) - tau y') + x sum_i phi_i(x) w_i,    beta = alpha / 4

Eq. (3) of the paper, integrated step by step, which is what a ProDMP avoids. The steps are linear, so that their
response to unit parameters and unit initial states says everything.

Axes: `T` times, `n` control steps, `N` basis functions, `G = N + 1` with the goal, `2` position and velocity. The
parameters of a degree of freedom are [w_1 .. w_N, g].
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as fn

from top_erl.config.primitive import PrimitiveConfig
from top_erl.errors import UserError
from top_erl.primitives.basis import NormalizedRbf
from top_erl.primitives.interface import Primitive
from top_erl.primitives.pace import braked, braked_rate, one_over
from top_erl.primitives.phase import ExponentialPhase
from top_erl.primitives.reference import as_time, check_times


class Dmp(Primitive):
    """Times must lie whole control steps after the initial state's."""

    can_end_at_rest = True

    def __init__(self, config: PrimitiveConfig, num_dof: int, dt: float) -> None:
        """Place the basis functions."""
        scales = [config.weights_scale] * config.num_basis + [config.goal_scale]
        scale = torch.tensor(scales, dtype=torch.float64)  # [G]
        super().__init__(config, num_dof, dt, scale, relative_goal=config.relative_goal)
        self.phase = ExponentialPhase(config.tau, config.alpha_phase)
        self.rbf = NormalizedRbf(self.phase, config.num_basis, config.bandwidth_factor, config.num_basis_outside)

    def basis(self, times: Tensor, init_time: float | Tensor, like: Tensor) -> Tensor:
        """Response to unit parameters and unit states at `init_time`, [..., T, 2, G + 2]."""
        check_times(times)
        start = as_time(init_time, like).double().unsqueeze(-1)  # [..., 1]
        steps = self._steps(times.to(like.device), start)  # [..., T]
        count = int(steps.max())
        now = start + self.dt * torch.arange(count + 1, dtype=torch.float64, device=like.device)  # [..., n+1]
        if self.config.end_at_rest:
            scaled = braked(now / self.config.tau)  # [..., n+1]
            force, steps_in_s = self._force(self.config.tau * scaled[..., :-1]), scaled.diff(dim=-1)
            rate = braked_rate(now / self.config.tau)
        else:
            force, steps_in_s = self._force(now[..., :-1]), torch.full_like(now[..., :-1], self.dt / self.config.tau)
            rate = torch.ones_like(now)
        states = self._integrate(force, steps_in_s, rate).to(like)  # [..., n+1, 2, G+2]
        lead = steps.shape[:-1]
        index = steps[..., None, None].expand(*steps.shape, *states.shape[-2:])
        return states.expand(*lead, *states.shape[-3:]).gather(-3, index)

    def _force(self, times: Tensor) -> Tensor:
        """Force of unit parameters (a goal pulls with alpha beta g); initial states have none, [..., n, G + 2]."""
        weights = self.phase(times).unsqueeze(-1) * self.rbf(times)  # [..., n, N]
        goal = torch.full_like(weights[..., :1], self.config.alpha**2 / 4)
        return fn.pad(torch.cat((weights, goal), dim=-1), (0, 2))

    def _integrate(self, force: Tensor, steps: Tensor, rate: Tensor) -> Tensor:
        """Semi-implicit Euler, one column for each unit: positions and velocities, [..., n + 1, 2, G + 2].

        z_{i+1} = z_i + ds [f_i - alpha (beta y_i + z_i)] and y_{i+1} = y_i + ds z_{i+1} with z = dy / ds.

        Args:
            force: [..., n, G + 2].
            steps: Steps ds in s, [..., n]; all dt / tau unless the movement brakes.
            rate: tau ds/dt before each step and after the last, [..., n + 1].
        """
        alpha, tau = self.config.alpha, self.config.tau
        y, z = force.new_zeros(*force.shape[:-2], 2, force.shape[-1]).unbind(-2)  # [..., G+2] each
        y[..., -2], z[..., -1] = 1.0, tau * one_over(rate[..., 0])
        states = [torch.stack((y, z), dim=-2)]
        for push, ds in zip(force.unbind(-2), steps.unsqueeze(-1).unbind(-2), strict=True):
            z = z + ds * (push - alpha * (alpha / 4 * y + z))
            y = y + ds * z
            states.append(torch.stack((y, z), dim=-2))
        per_second = torch.stack((torch.ones_like(rate), rate / tau), dim=-1)  # [..., n+1, 2]
        return torch.stack(states, dim=-3) * per_second.unsqueeze(-1)

    def _steps(self, times: Tensor, start: Tensor) -> Tensor:
        """Control steps from the initial state to each time, long, [..., T]."""
        steps = (times.double() - start) / self.dt
        if not bool(((steps - steps.round()).abs() < 0.01).all() and (steps > -0.5).all()):
            raise UserError(
                f"A DMP goes from its initial state in steps of dt={self.dt:g} s: "
                "ask for times that are whole steps later, or use a ProDMP."
            )
        return steps.round().long()
