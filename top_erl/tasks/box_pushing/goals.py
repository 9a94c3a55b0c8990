"""The box's target as a goal that can be exchanged: what an episode would have paid for another one.

Axes: `B` episodes, `T` control steps, `...` any batch.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from top_erl.tasks.box_pushing.poses import LOW
from top_erl.tasks.box_pushing.relative import with_target
from top_erl.tasks.box_pushing.rewards import DISTANCE_COST, FINAL_DISTANCE_COST, FINAL_ROTATION_COST
from top_erl.tasks.goals import GoalRule

Array = NDArray[np.float64]

_SMALLEST_YAW = 1e-3
"""A quaternion whose entries for the vertical axis are shorter than this tells no yaw: the box lies on its side."""


class BoxGoals(GoalRule):
    """What is paid for the box's pose; a pose is a position, [3], and a quaternion, [4]."""

    entries = tuple(range(21, 28))

    def __init__(self, sparse: bool) -> None:
        """Pay at every step, or at the last one only."""
        self._sparse = sparse

    def reached(self, observation: Array) -> Array:
        """The box's pose, [..., 7]."""
        return observation[..., 14:21]

    def as_goal(self, reached: Array) -> Array:
        """A target at the box's place and with its yaw, [..., 7]: on the table, with a positive w, as targets are."""
        goal = np.zeros_like(reached)
        goal[..., :2], goal[..., 2] = reached[..., :2], LOW[2]
        w, z = reached[..., 3], reached[..., 6]
        length = np.hypot(w, z)
        upright = length > _SMALLEST_YAW  # of a box on its side there is no yaw
        turn = np.where(w < 0, -1.0, 1.0) / np.where(upright, length, 1.0)
        goal[..., 3], goal[..., 6] = np.where(upright, turn * w, 1.0), np.where(upright, turn * z, 0.0)
        return goal

    def reward(self, reached: Array, goal: Array) -> Array:
        """What the pose pays, [B, T], for poses, [B, T, 7], and targets, [B, 7]."""
        goal = goal[:, None]
        distance = np.linalg.norm(reached[..., :3] - goal[..., :3], axis=-1)
        turned = 2.0 * np.arccos(np.abs((reached[..., 3:] * goal[..., 3:]).sum(-1)).clip(max=1.0))
        if not self._sparse:
            return -DISTANCE_COST * distance - turned / math.pi
        paid = np.zeros_like(distance)
        paid[:, -1] = -FINAL_DISTANCE_COST * distance[:, -1] - FINAL_ROTATION_COST * turned[:, -1] / math.pi
        return paid


class RelativeBoxGoals(BoxGoals):
    """The same where the target is also observed from the box."""

    def with_goal(self, observation: Array, goal: Array) -> Array:
        """Observations, [B, T, 43], if the target, [B, 7], had been another one."""
        return with_target(observation, np.broadcast_to(goal[:, None], (*observation.shape[:2], 7)))
