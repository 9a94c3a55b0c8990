"""A planned reference, and what a control loop reads off it.

Axes: `B` plans, `T` times, `D` degrees of freedom.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from top_erl.errors import UserError
from top_erl.limits import Exceeded, Limits, exceeded

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PlannedReference:
    """A desired trajectory that begins at a measured state."""

    position: Array
    """Desired positions at dt, 2 dt, …, T dt: [T, D], or [B, T, D]."""
    velocity: Array
    """Desired velocities, likewise."""
    start_position: Array
    """Measured position at time 0, [D] or [B, D]."""
    start_velocity: Array
    """Measured velocity at time 0, likewise."""
    dt: float
    """Seconds between two times."""

    @property
    def duration(self) -> float:
        """Seconds from the start to the last time."""
        return self.position.shape[-2] * self.dt

    def at(self, time: float) -> tuple[Array, Array]:
        """Desired position and velocity at any time, [D] or [B, D] each.

        Between two times the cubic through both positions and velocities, and its derivative. After the end the last
        position, and no velocity.

        Args:
            time: Seconds from the start, not negative.
        """
        if not time >= 0:  # NaN too
            raise UserError(f"A reference begins at time 0; it has nothing at {time}.")
        steps = time / self.dt
        if steps > self.position.shape[-2]:
            return self.position[..., -1, :].copy(), np.zeros_like(self.start_velocity)
        after = max(math.ceil(steps), 1) - 1  # index of the next time
        u = steps - after
        y1, v1 = self.position[..., after, :], self.dt * self.velocity[..., after, :]
        if after:
            y0, v0 = self.position[..., after - 1, :], self.dt * self.velocity[..., after - 1, :]
        else:
            y0, v0 = self.start_position, self.dt * self.start_velocity
        way = y1 - y0
        c2, c3 = 3 * way - 2 * v0 - v1, v0 + v1 - 2 * way
        return y0 + u * (v0 + u * (c2 + u * c3)), (v0 + u * (2 * c2 + 3 * u * c3)) / self.dt

    def exceeds(self, limits: Limits) -> list[Exceeded]:
        """Where it exceeds limits, in order of time; empty if nowhere."""
        return exceeded(limits, self.position, self.velocity, self.dt, start=(self.start_position, self.start_velocity))
