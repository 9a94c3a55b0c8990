"""The rules of the via-point reacher: contexts, observations, costs and success.

Axes: `B` episodes, `D` joints, `...` any batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from top_erl.tasks.via_point_reacher.arm import PlanarArm

Array = NDArray[np.float64]

ARM = PlanarArm()
"""The arm of this task."""
HORIZON = 50
"""T: control steps per episode (one second)."""
VIA_STEP = 24
"""Index of the step at whose end the tip should be at the via point: half time."""
GOAL_STEP = HORIZON - 1
"""Index of the step at whose end the tip should be at the goal: the last."""
INNER_RADIUS, OUTER_RADIUS = 0.2 * ARM.reach, 0.95 * ARM.reach
"""Via point and goal lie between these distances from the base, above it."""
SUCCESS_RADIUS = 0.1 * ARM.reach
"""Both distances must be at most this."""
DISTANCE_COST = 10.0
"""Reward lost per metre from the via point at half time, and from the goal at the end."""
FIRST_JUMP, LAST_JUMP = 10, 30
"""Steps before which a goal that jumps may do so, both included: at the latest 0.4 s before the end."""
ACCELERATION_COST = 1e-5
"""Reward lost per (rad/s²)², over all joints, at every step: about 0.15 a good episode, 1 to 2 a wild one."""


@dataclass(frozen=True)
class Context:
    """What differs between episodes."""

    via: Array
    """The via point, [..., 2]."""
    goal: Array
    """The goal, [..., 2]."""


@dataclass(frozen=True)
class Jump:
    """Where and when the goals of episodes jump."""

    goal: Array
    """The goal afterwards, [B, 2]."""
    step: NDArray[np.int64]
    """The first step before which it is seen, [B]."""

    def goals(self, before: Array, steps: NDArray[np.int64]) -> Array:
        """The goals seen before steps, [n], given those at the start, [B, 2]: [B, n, 2]."""
        return np.where(steps[:, None] >= self.step[:, None, None], self.goal[:, None], before[:, None])


def draw_context(generators: Sequence[np.random.Generator]) -> Context:
    """Draw a via point and a goal per generator, uniform over the area of the upper half ring.

    Args:
        generators: One per episode; each gives four numbers.

    Returns:
        Via points and goals, [B, 2] each.
    """
    points = _draw_points(generators, 2)
    return Context(via=points[:, 0], goal=points[:, 1])


def draw_jump(generators: Sequence[np.random.Generator]) -> Jump:
    """Draw a second goal per generator, from the same half ring, and when it takes the place of the first."""
    goal = _draw_points(generators, 1)[:, 0]
    steps = [int(generator.integers(FIRST_JUMP, LAST_JUMP + 1)) for generator in generators]
    return Jump(goal, np.array(steps, dtype=np.int64))


def _draw_points(generators: Sequence[np.random.Generator], count: int) -> Array:
    """Points of the half ring, [B, count, 2]."""
    uniform = np.stack([generator.random((count, 2)) for generator in generators])  # [B, points, radius and angle]
    inner, outer = INNER_RADIUS**2, OUTER_RADIUS**2
    radius = np.sqrt(inner + (outer - inner) * uniform[..., 0])  # the area inside r grows with r squared
    angle = np.pi * uniform[..., 1]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)


def observe(position: Array, velocity: Array, context: Context) -> Array:
    """Build observations, [..., 16], from joint angles and velocities, [..., D], and their contexts."""
    tip = ARM.tip(position)
    via, goal = np.broadcast_to(context.via, tip.shape), np.broadcast_to(context.goal, tip.shape)
    return np.concatenate([position, velocity, tip, via, goal], axis=-1)


def acceleration_cost(velocity: Array, next_velocity: Array) -> Array:
    """Price one step's mean joint accelerations: velocities before and after, [..., D], to [...]."""
    acceleration = (next_velocity - velocity) / ARM.dt
    total = np.zeros(acceleration.shape[:-1])
    for joint in range(acceleration.shape[-1]):  # written out: the order of a sum decides its last digit
        total = total + acceleration[..., joint] * acceleration[..., joint]
    return ACCELERATION_COST * total


def distance(point: Array, target: Array) -> Array:
    """Distance between points, [..., 2] each, to [...]."""
    dx, dy = point[..., 0] - target[..., 0], point[..., 1] - target[..., 1]
    result: Array = np.sqrt(dx * dx + dy * dy)
    return result


def success(via_distance: Array, goal_distance: Array) -> Array:
    """1.0 where both distances are within the success radius, else 0.0."""
    return ((via_distance <= SUCCESS_RADIUS) & (goal_distance <= SUCCESS_RADIUS)).astype(np.float64)
