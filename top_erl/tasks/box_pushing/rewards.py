"""What an instant of Box Pushing is worth: measurements, and the two rewards made of them.

Plain numbers instead of arrays: a step has a handful of them, and NumPy would take longer than the arithmetic.
Quaternions are (w, x, y, z).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from top_erl.tasks.box_pushing.arm import POINTING_DOWN, POSITION_MAX, POSITION_MIN, VELOCITY_MAX
from top_erl.tasks.box_pushing.poses import LOW
from top_erl.tasks.box_pushing.relative import with_target
from top_erl.tasks.goals import GoalRule

Array = NDArray[np.float64]

SUCCESS_DISTANCE = 0.05
"""Metres that the box may be away from the target at the end."""
SUCCESS_ROTATION = 0.5
"""Radians that it may be turned away."""
DISTANCE_COST = 3.5
"""What the dense variant takes off at every step for each metre of the box from the target; half a turn costs 1."""
FINAL_DISTANCE_COST, FINAL_ROTATION_COST = 350.0, 100.0
"""What the sparse variant takes off at the last step for each metre, and for half a turn."""
_SMALLEST_YAW = 1e-3
_TILT_ALLOWED = math.pi / 4
_NEAREST_ROD = 0.05
_LIMITS = tuple(zip(POSITION_MIN.tolist(), POSITION_MAX.tolist(), VELOCITY_MAX.tolist(), strict=True))


class Measurements(NamedTuple):
    """What the rewards depend on, after a step."""

    joint_penalty: float
    """Minus what joint positions and speeds exceed their limits by."""
    rod_distance: float
    """Metres from the rod's tip to the middle of the box's floor."""
    box_distance: float
    """Metres from the box to the target."""
    box_rotation: float
    """Angle between box and target, in [0, pi]."""
    energy: float
    """Sum of squared torques, gravity compensation not counted, in (Nm)²."""
    rod_tilt: float
    """Angle between the rod and its upright pose, in [0, pi]."""
    joint_speed: float
    """Norm of the joint velocities in rad/s."""

    @property
    def success(self) -> bool:
        """Whether the box is at the target."""
        return self.box_distance < SUCCESS_DISTANCE and self.box_rotation < SUCCESS_ROTATION


def measure(
    observation: Sequence[float], rod_tip: Sequence[float], rod: Sequence[float], energy: float
) -> Measurements:
    """Measure an instant.

    Args:
        observation: The raw observation, [28].
        rod_tip: Position of the rod's tip, [3].
        rod: Quaternion of the rod, [4].
        energy: Sum of squared torques of the step.
    """
    position, velocity = observation[:7], observation[7:14]
    box, target = observation[14:17], observation[21:24]
    return Measurements(
        joint_penalty=joint_penalty(position, velocity),
        rod_distance=math.dist(box, rod_tip),
        box_distance=math.dist(box, target),
        box_rotation=rotation_distance(observation[17:21], observation[24:28]),
        energy=energy,
        rod_tilt=rotation_distance(rod, POINTING_DOWN),
        joint_speed=math.hypot(*velocity),
    )


def dense_reward(now: Measurements) -> float:
    """Reward of a step of the dense variant."""
    return _always(now) - 0.0005 * now.energy - DISTANCE_COST * now.box_distance - now.box_rotation / math.pi


def sparse_reward(now: Measurements, last: bool) -> float:
    """Reward of a step of the sparse variant, which pays for the box's pose at the last step only."""
    reward = _always(now) - 0.02 * now.energy
    if last:
        pose = FINAL_DISTANCE_COST * now.box_distance + FINAL_ROTATION_COST * now.box_rotation / math.pi
        reward -= pose + 50.0 * now.joint_speed
    return reward


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


def joint_penalty(position: Sequence[float], velocity: Sequence[float]) -> float:
    """Minus what joint positions (rad) and speeds (rad/s), [7] each, exceed their limits by, all joints together."""
    excess = 0.0
    for angle, speed, (low, high, fastest) in zip(position, velocity, _LIMITS, strict=True):
        if angle > high:
            excess += angle - high
        elif angle < low:
            excess += low - angle
        if abs(speed) > fastest:
            excess += abs(speed) - fastest
    return -excess


def rotation_distance(first: Sequence[float], second: Sequence[float]) -> float:
    """Angle in [0, pi] that turns one unit quaternion, [4], into another."""
    a, b, c, d = first
    e, f, g, h = second
    return 2.0 * math.acos(min(abs(a * e + b * f + c * g + d * h), 1.0))


def _always(now: Measurements) -> float:
    """Add up what both variants pay at every step, except for energy."""
    reward = now.joint_penalty - 2.0 * max(now.rod_distance, _NEAREST_ROD)
    if now.rod_tilt > _TILT_ALLOWED:
        reward -= now.rod_tilt / math.pi
    return reward
