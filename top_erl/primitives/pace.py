"""The pace of a movement that ends at rest: the same movement, in another timing.

With u = t / tau, the movement goes a little faster than it would, at the constant pace c, and brakes over the last
quarter of its time, in which x runs from 0 to 1:

    ds/du = c (1 - 3 x^2 + 2 x^3),    s(0) = 0,  s(1) = 1,  s'(1) = s''(1) = 0

A primitive evaluated at s instead of u runs through the same positions, and arrives at tau without velocity and
without acceleration. It stays linear in its parameters, and what passes through one of its own states goes on as it
did, since only the time is another.
"""

from __future__ import annotations

import torch
from torch import Tensor

_BRAKING = 0.25
"""Share of the movement's time in which it brakes."""
_PACE = 1 / (1 - _BRAKING / 2)
"""c: what makes s reach 1 at u = 1."""


def braked(scaled: Tensor) -> Tensor:
    """The scaled time s at times u = t / tau, same shape: 0 before 0, 1 after 1."""
    u = scaled.clamp(0.0, 1.0)
    x = _braking(u)
    even, brake = u.clamp(max=1 - _BRAKING), _BRAKING * (x - x**3 + x**4 / 2)
    return (_PACE * (even + brake)).clamp(max=1.0)


def braked_rate(scaled: Tensor) -> Tensor:
    """ds/du at times u = t / tau, same shape: c before 0 too, 0 after 1."""
    x = _braking(scaled)
    return _PACE * (1 - x) ** 2 * (1 + 2 * x)


def one_over(rate: Tensor) -> Tensor:
    """1 / rate; 0 where the rate is 0: who stands still has no velocity that could go on."""
    return torch.where(rate > 0, 1 / rate.clamp(min=torch.finfo(rate.dtype).tiny), 0.0)


def _braking(scaled: Tensor) -> Tensor:
    """How much of the braking is over, from 0 to 1."""
    return ((scaled - (1 - _BRAKING)) / _BRAKING).clamp(0.0, 1.0)
