"""Probabilistic movement primitives (ProMP): positions are a weighted sum of basis functions of time.

Axes: `T` times, `N` weights per degree of freedom, `n` action times, `m` condition times, `2` position and velocity.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as fn

from top_erl.config.primitive import PrimitiveConfig
from top_erl.errors import UserError
from top_erl.primitives.basis import NormalizedRbf
from top_erl.primitives.interface import Primitive, SegmentGrid
from top_erl.primitives.pace import braked
from top_erl.primitives.phase import LinearPhase
from top_erl.primitives.reference import as_time, check_times


class ProMp(Primitive):
    """Trajectories from weights alone; velocities are forward differences over the given times, the last repeats.

    One that ends at rest has a last difference of its own, over the control step that would follow.

    A ProMP has no dynamics: it cannot start from a given velocity, and from a given position only if some of its
    functions are fixed at zero (`num_zero_start`); the initial position is then added to the trajectory.
    """

    restarts = False
    can_end_at_rest = True

    def __init__(self, config: PrimitiveConfig, num_dof: int, dt: float) -> None:
        """Place the basis functions."""
        scale = torch.full((config.num_basis,), config.weights_scale, dtype=torch.float64)  # [N]
        super().__init__(config, num_dof, dt, scale)
        zeros = config.num_zero_start + config.num_zero_goal
        if zeros and config.num_basis_outside:
            raise UserError(
                "Functions of weight 0 cannot be combined with functions outside of the movement; "
                "set primitive.num_basis_outside, or num_zero_start and num_zero_goal, to 0."
            )
        self.zero_padded = zeros > 0
        phase = LinearPhase(config.tau)
        total = config.num_basis + zeros
        self.rbf = NormalizedRbf(phase, total, config.bandwidth_factor, config.num_basis_outside)

    def basis(self, times: Tensor, init_time: float | Tensor, like: Tensor) -> Tensor:
        """Functions that have a weight and their differences, then what an initial state adds, [..., T, 2, N + 2]."""
        check_times(times, least=2)
        if bool((as_time(init_time, like).abs() > 0.01 * self.dt).any()):
            raise UserError(
                "A ProMP begins at time 0 and cannot be restarted in the middle of a movement; "
                "give its initial state at time 0, or use a ProDMP or a DMP."
            )
        times = times.to(like.device).double()
        first = self.config.num_zero_start
        if self.config.end_at_rest:
            times = torch.cat((times, times[..., -1:] + self.dt), dim=-1)  # [..., T+1]
        position = self._functions(times)[..., first : first + self.config.num_basis]  # [..., T, N]
        velocity = position.diff(dim=-2) / times.diff(dim=-1).unsqueeze(-1)  # [..., T-1, N]
        if self.config.end_at_rest:
            position = position[..., :-1, :]
        else:
            velocity = torch.cat((velocity, velocity[..., -1:, :]), dim=-2)
        basis = fn.pad(torch.stack((position, velocity), dim=-2), (0, 2))  # [..., T, 2, N+2]
        basis[..., 0, -2] = float(self.zero_padded)
        return basis.to(like)

    def _functions(self, times: Tensor) -> Tensor:
        """All functions, those of weight 0 too, at times in seconds of any shape `[...]`: [..., n]."""
        if self.config.end_at_rest:
            times = self.config.tau * braked(times / self.config.tau)
        return self.rbf(times)

    def grid(self, action_times: Tensor, condition_times: Tensor, dtype: torch.dtype | None = None) -> SegmentGrid:
        """Prepare segments, whose initial state is always the one at time 0; see `Primitive.grid`.

        Velocities are those of a trajectory over all control steps, wherever a segment ends: differences over a control
        step, and the last repeats if all steps are there and the movement does not end at rest.
        """
        like = action_times.new_empty(0, dtype=dtype)
        pairs = torch.stack((action_times, action_times + self.dt), dim=-1)  # [n, 2]
        rows = self.basis(pairs, 0.0, like)[:, 0]  # [n, 2, N+2]
        repeats = len(action_times) > 1 and not self.config.end_at_rest
        if repeats and bool(action_times[-1] - action_times[-2] < 1.5 * self.dt):
            rows[-1, 1] = rows[-2, 1]
        elsewhere = condition_times.to(rows.device).abs() > 0.01 * self.dt  # [m]
        return SegmentGrid(torch.where(elsewhere[:, None, None, None], float("nan"), rows))
