"""Clamped B-splines that leave from any state: piecewise polynomials with position and velocity given at the start.

With u = t / tau, B_0 .. B_{N+2} the clamped B-splines over equal intervals of [0, 1], a goal g and N weights,

    y(u) = g + sum_{i=1}^{N} w_i B_{i+1}(u) + e(u),    e(u) = (a + b u) (c - u)^2

The first two B-splines alone have a position and a velocity at 0, and the last alone a position at 1: so weights move
neither the start nor the end, where y(0) and y'(0) are those of g + e, and y(1) = g + e(1). a and b follow from the
state: e is the cubic that takes the difference between the state and the planned curve to 0, without velocity, at u = c
(`settling`). With c = 1 the movement ends at its goal. e has a double root at c wherever it begins, so that what passes
through one of its own states goes on as it did. As a cubic, e is a B-spline over the same knots; all of y is one.

Axes: `T` times, `N` weights, `G = N + 1` with the goal, `2` position and velocity. The parameters of a degree of
freedom are [w_1 .. w_N, g].
"""

from __future__ import annotations

import torch
from torch import Tensor

from top_erl.config.primitive import PrimitiveConfig
from top_erl.errors import UserError
from top_erl.primitives.interface import Primitive
from top_erl.primitives.pace import braked, braked_rate, one_over
from top_erl.primitives.reference import as_time, check_times
from top_erl.primitives.tables import condition

_SETTLED = 1e-6
"""In tau: what is no time. Nearer to c than this a difference stays as it is, as nothing could make up for it."""


class BSpline(Primitive):
    """Times may lie before the initial state's, and between control steps; after tau the planned curve stands still."""

    can_end_at_rest = True

    def __init__(self, config: PrimitiveConfig, num_dof: int, dt: float) -> None:
        """Place the knots."""
        scales = [config.weights_scale] * config.num_basis + [config.goal_scale]
        scale = torch.tensor(scales, dtype=torch.float64)  # [G]
        super().__init__(config, num_dof, dt, scale, relative_goal=config.relative_goal)
        if config.num_basis < config.degree - 2:
            raise UserError(
                f"primitive.num_basis is {config.num_basis}, but a B-spline of degree {config.degree} needs at least "
                f"{config.degree - 2}; raise num_basis or lower degree."
            )
        self.knots = clamped_knots(config.num_basis + 3, config.degree)

    def basis(self, times: Tensor, init_time: float | Tensor, like: Tensor) -> Tensor:
        """Basis of trajectories through a state at `init_time`, [..., T, 2, G + 2]."""
        check_times(times)
        moments = times.to(like.device).double()  # [..., T]
        start = as_time(init_time, like).double().unsqueeze(-1)  # [..., 1]
        motions, start_motions = self._motions(moments), self._motions(start)
        return condition(motions, start_motions, self._transition(moments, start)).to(like)

    def _motions(self, times: Tensor) -> Tensor:
        """The planned curve and its velocity per unit of each parameter, at times `[...]`: [..., 2, G]."""
        u, rate = self._scaled(times)
        values, slopes = bsplines(u.clamp(0.0, 1.0), self.knots.to(u.device), self.config.degree)  # [..., N+3] each
        slopes = slopes * torch.where(u <= 1.0 + _SETTLED, rate, 0.0).unsqueeze(-1)
        position = torch.cat((values[..., 2:-1], torch.ones_like(values[..., :1])), dim=-1)  # [..., G]
        velocity = torch.cat((slopes[..., 2:-1], torch.zeros_like(slopes[..., :1])), dim=-1)
        return torch.stack((position, velocity), dim=-2)

    def _transition(self, times: Tensor, start: Tensor) -> Tensor:
        """How a difference at one time, [..., 1], goes on to others, [..., T]: M, [..., T, 2, 2].

        Over r = c - u_b, with x = (u - u_b) / r, the cubics of Hermite that end in 0 without velocity:
        h(x) = (1 - x)^2 (1 + 2 x) for a position, and r x (1 - x)^2 for a velocity in u.
        """
        u, rate = self._scaled(times)
        u_b, rate_b = self._scaled(start)
        left = self.config.settling - u_b  # r, [..., 1]
        settled = left <= _SETTLED
        left = torch.where(settled, 1.0, left)
        x = ((u - u_b) / left).clamp(max=1.0)  # [..., T]
        one = torch.ones_like(x)
        position = torch.stack(((1 - x) ** 2 * (1 + 2 * x), left * x * (1 - x) ** 2), dim=-1)
        velocity = torch.stack((6 * x * (x - 1) / left, (1 - x) * (1 - 3 * x)), dim=-1)
        position = torch.where(settled.unsqueeze(-1), torch.stack((one, u - u_b), dim=-1), position)
        velocity = torch.where(settled.unsqueeze(-1), torch.stack((0 * one, one), dim=-1), velocity)
        moved = torch.stack((position, velocity * rate.unsqueeze(-1)), dim=-2)  # [..., T, 2, 2], of dy/du
        per_second = torch.stack((torch.ones_like(rate_b), one_over(rate_b)), dim=-1)  # [..., 1, 2]
        return moved * per_second.unsqueeze(-2)

    def _scaled(self, times: Tensor) -> tuple[Tensor, Tensor]:
        """The scaled time u at times `[...]`, and du/dt."""
        tau, u = self.config.tau, times / self.config.tau
        if self.config.end_at_rest:
            return braked(u), braked_rate(u) / tau
        return u, torch.full_like(u, 1 / tau)


def clamped_knots(count: int, degree: int) -> Tensor:
    """Knots of `count` B-splines over equal intervals of [0, 1], with `degree + 1` of them at both ends; float64."""
    inner = torch.linspace(0.0, 1.0, count - degree + 1, dtype=torch.float64)
    return torch.cat((inner.new_zeros(degree), inner, inner.new_ones(degree)))


def bsplines(u: Tensor, knots: Tensor, degree: int) -> tuple[Tensor, Tensor]:
    """Values and derivatives of all B-splines over knots (Cox and de Boor), at `[...]` of [0, 1]: [..., n] each.

    Args:
        u: Where, float64.
        knots: In order, the first and the last repeated.
        degree: Of the pieces, at least 1.
    """
    last = int(torch.searchsorted(knots, knots[-1])) - 1  # the interval that the end belongs to
    interval = (torch.searchsorted(knots, u.contiguous(), right=True) - 1).clamp(max=last)
    values = torch.nn.functional.one_hot(interval, len(knots) - 1).to(u.dtype)  # [..., n + degree]
    slopes = torch.zeros_like(values)
    for k in range(1, degree + 1):
        width = knots[k:] - knots[:-k]  # [n + degree + 1 - k]
        share = values * torch.where(width > 0, 1 / width, 0.0)
        rising = (u.unsqueeze(-1) - knots[: -k - 1]) * share[..., :-1]
        slopes = k * (share[..., :-1] - share[..., 1:])
        values = rising + (knots[k + 1 :] - u.unsqueeze(-1)) * share[..., 1:]
    return values, slopes
