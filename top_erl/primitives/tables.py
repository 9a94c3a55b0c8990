"""The tables behind a ProDMP: the motion that each parameter causes, and how a state moves on by itself.

In scaled time s = t / tau the dynamic movement primitive, Eq. (3) of the paper, reads

    y'' = alpha (alpha / 4 (g - y) - y') + x(s) phi(x(s)) . w

It is linear. Starting at rest at 0, the parameters [w, g] cause the motion Phi(s) [w, g]; without parameters
a state [y, y'] is carried on by a 2 x 2 transition matrix M. Any solution through a state at s_b is therefore

    [y, y'](s) = M(s, s_b) [y, y'](s_b) + (Phi(s) - M(s, s_b) Phi(s_b)) [w, g]

which is Eq. (4) of the paper with c_1 and c_2 solved for. Phi is tabulated once, by the trapezoidal rule on a
grid of the control step, and interpolated linearly between its points. The grid is part of the definition: a
finer one gives slightly different trajectories. Derivatives are stored per second: states are positions and
velocities.

A movement that ends at rest is the same solution at another pace, s = braked(t / tau) (`pace.py`): its tables hold
Phi at the braked grid points, and its M is the exact one between braked times.

Axes: `n` grid points, `G = N + 1` columns (N weights, then the goal), `2` position and velocity.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from top_erl.config.primitive import PrimitiveConfig
from top_erl.errors import UserError
from top_erl.primitives.basis import NormalizedRbf
from top_erl.primitives.pace import braked, braked_rate, one_over
from top_erl.primitives.phase import ExponentialPhase
from top_erl.primitives.reference import CastOnce


@dataclass(frozen=True)
class GridIndex:
    """Where times lie on the grid."""

    lower: Tensor
    """Grid point at or before each time, long, [...]."""
    fraction: Tensor
    """Part of the way to the next grid point, float64, [...]; 0 for times on the grid."""


class ProDmpTables:
    """Motions that the parameters of one degree of freedom cause, up to `table_length_factor` tau."""

    def __init__(self, config: PrimitiveConfig, dt: float) -> None:
        """Build them for control steps of `dt` seconds."""
        if not 0.0 < dt <= config.tau:
            raise UserError(f"dt is {dt} but tau is {config.tau}; set dt, the control step, above 0 and at most tau.")
        if config.alpha * config.table_length_factor > 1000:
            raise UserError(
                f"alpha * table_length_factor is {config.alpha * config.table_length_factor:g}; "
                "keep it at 1000 or below, or the tables overflow."
            )
        self.tau = config.tau
        self.length = config.table_length_factor
        self.scaled_dt = dt / config.tau
        self._half_alpha = config.alpha / 2
        phase = ExponentialPhase(config.tau, config.alpha_phase)
        self.rbf = NormalizedRbf(phase, config.num_basis, config.bandwidth_factor, config.num_basis_outside)
        steps_per_tau = round(1 / self.scaled_dt)
        self.spacing = 1 / steps_per_tau  # equals scaled_dt if tau is a multiple of dt
        grid = torch.linspace(0, self.length, self.length * steps_per_tau + 1, dtype=torch.float64)  # [n]
        motions = self._motions(grid, phase)  # [n, 2, G], per unit of scaled time
        self.auto_scale = self._auto_scale(motions[:, 0], config.auto_scale_basis)  # [G]
        per_second = torch.tensor([[1.0], [1 / self.tau]], dtype=torch.float64)  # [2, 1]
        self.motions = motions * per_second  # [n, 2, G]
        self.end_at_rest = config.end_at_rest
        if self.end_at_rest:
            rate = torch.stack((torch.ones_like(grid), braked_rate(grid)), dim=-1)  # [n, 2]
            self.motions = self._motions(braked(grid), phase) * per_second * rate.unsqueeze(-1)
        self._table = CastOnce(self.motions)

    def _motions(self, grid: Tensor, phase: ExponentialPhase) -> Tensor:
        """Phi at scaled times, [n], per unit of scaled time: [n, 2, G]."""
        weights = self._weight_motions(grid, phase(grid * self.tau))  # [n, 2, N]
        return torch.cat((weights, self._goal_motion(grid)), dim=-1)

    def _weight_motions(self, grid: Tensor, phase: Tensor) -> Tensor:
        """Variation of parameters, [n, 2, N]: y2 p2 - y1 p1 and its derivative.

        p1(s) = int_0^s u e^(alpha u / 2) x phi du and p2(s) = int_0^s e^(alpha u / 2) x phi du.
        """
        a, s = self._half_alpha, grid.unsqueeze(-1)  # s: [n, 1]
        force = torch.exp(a * s) * phase.unsqueeze(-1) * self.rbf(grid * self.tau)  # [n, N]
        p1, p2 = (_cumulative_trapezoid(values, grid) for values in (s * force, force))  # [n, N] each
        y1 = torch.exp(-a * s)
        y2 = s * y1
        position = y2 * p2 - y1 * p1
        velocity = (y1 - a * y2) * p2 + a * y1 * p1  # y1' = -a y1, y2' = y1 - a y2
        return torch.stack((position, velocity), dim=1)

    def _goal_motion(self, grid: Tensor) -> Tensor:
        """Motion towards a goal of 1, [n, 2, 1]; its integrals have a closed form."""
        a = self._half_alpha
        decay = torch.exp(-a * grid)  # [n]
        return torch.stack((1 - (1 + a * grid) * decay, a**2 * grid * decay), dim=1).unsqueeze(-1)

    @staticmethod
    def _auto_scale(positions: Tensor, wanted: bool) -> Tensor:
        """One over the largest value of each column, [G] (not of its magnitude: the columns are positive)."""
        scale = 1 / positions.amax(0)
        if not torch.isfinite(scale).all():
            raise UserError("A basis function vanishes in the phase's decay; lower alpha_phase.")
        return scale if wanted else torch.ones_like(scale)

    def locate(self, times: Tensor) -> GridIndex:
        """Find times in seconds, of any shape, on the grid; times before 0 count as 0.

        Done in float64. Times that miss a grid point only by the rounding of their own precision lie on it.
        """
        rounding = 4 * torch.finfo(times.dtype).eps if times.is_floating_point() else 0.0
        scaled = times.detach().to(torch.float64).clamp(min=0.0) / self.tau
        if not bool((scaled <= self.length * (1 + rounding)).all()):
            raise UserError(
                f"Time {float(times.max()):g} s is not within the tabulated {self.length * self.tau:g} s, "
                f"table_length_factor={self.length} times tau={self.tau:g}; raise table_length_factor or tau."
            )
        index = scaled / self.scaled_dt
        nearest = index.round()
        index = torch.where((index - nearest).abs() <= (rounding * nearest).clamp(min=1e-9), nearest, index)
        lower = index.floor().clamp(0, len(self.motions) - 2)
        return GridIndex(lower.long(), index - lower)

    def lookup(self, index: GridIndex, dtype: torch.dtype) -> Tensor:
        """Motions at located times [...], interpolated: [..., 2, G]."""
        table = self._table.to(dtype, index.lower.device)  # [n, 2, G]
        fraction = index.fraction.to(dtype)[..., None, None]
        return torch.lerp(table[index.lower], table[index.lower + 1], fraction)

    def transition(self, index: GridIndex, start: GridIndex) -> Tensor:
        """Matrices M that carry a state at `start` to `index` (shapes broadcast): float64, [..., 2, 2].

        The homogeneous solutions are e^(-a d) and d e^(-a d) with a = alpha / 2 and d counted from the grid
        point at or before the start. On the grid r = e^(-a Delta) and delta = Delta e^(-a Delta) with
        Delta = s - s_b. Between grid points both are interpolated linearly, as the motions are.
        """
        if self.end_at_rest:
            return self._braked_transition(index, start)
        u1, u2 = self._homogeneous(index.lower - start.lower, index.fraction)
        b1, b2 = self._homogeneous(torch.zeros_like(start.lower), start.fraction)
        r = u1 / b1
        return self._carry(r, (u2 - b2 * r) / b1)

    def _braked_transition(self, index: GridIndex, start: GridIndex) -> Tensor:
        """M between braked times; velocities are ds/du times those in s. After tau nothing moves."""
        u, u_b = ((place.lower + place.fraction) * self.spacing for place in (index, start))
        passed = braked(u) - braked(u_b)
        r = torch.exp(-self._half_alpha * passed)
        rate, start_rate = torch.broadcast_tensors(braked_rate(u), one_over(braked_rate(u_b)))
        one = torch.ones_like(rate)
        scale = torch.stack((torch.stack((one, start_rate), -1), torch.stack((rate, rate * start_rate), -1)), -2)
        return self._carry(r, passed * r) * scale

    def _carry(self, r: Tensor, delta: Tensor) -> Tensor:
        """M of the homogeneous solutions r and delta, [..., 2, 2]."""
        a = self._half_alpha
        first = torch.stack((r + a * delta, self.tau * delta), dim=-1)  # [..., 2]
        second = torch.stack((-(a**2) * delta / self.tau, r - a * delta), dim=-1)  # [..., 2]
        return torch.stack((first, second), dim=-2)

    def _homogeneous(self, steps: Tensor, fraction: Tensor) -> tuple[Tensor, Tensor]:
        """Interpolated e^(-a d) and d e^(-a d), d = steps + fraction after a grid point, [...] each."""
        before = steps.to(torch.float64) * self.spacing
        after = before + self.spacing
        decay_before, decay_after = (torch.exp(-self._half_alpha * d) for d in (before, after))
        return (
            torch.lerp(decay_before, decay_after, fraction),
            torch.lerp(before * decay_before, after * decay_after, fraction),
        )


def condition(motions: Tensor, start_motions: Tensor, transition: Tensor) -> Tensor:
    """Basis of trajectories through a given state: the columns of the parameters, then of that state.

    Args:
        motions: Phi at the wanted times, [..., T, 2, G].
        start_motions: Phi at the time of the state, [..., 1, 2, G].
        transition: M from that time to the wanted ones, [..., T, 2, 2].

    Returns:
        [Phi - M Phi_b, M], [..., T, 2, G + 2]; its product with [parameters, y_b, dy_b] is [y, dy].
    """
    free = motions - transition @ start_motions  # [..., T, 2, G]
    return torch.cat((free, transition.expand(*free.shape[:-1], 2)), dim=-1)


def _cumulative_trapezoid(values: Tensor, grid: Tensor) -> Tensor:
    """Integral from the first grid point to each, [n, N]."""
    integral = torch.cumulative_trapezoid(values, grid, dim=0)  # [n-1, N]
    return torch.cat((torch.zeros_like(values[:1]), integral))
