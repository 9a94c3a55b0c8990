"""What an instant of Box Pushing is worth: measurements, and the two rewards made of them.

Plain numbers instead of arrays: a step has a handful of them, and NumPy would take longer than the arithmetic.
Quaternions are (w, x, y, z).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from top_erl.tasks.box_pushing.arm import POINTING_DOWN, POSITION_MAX, POSITION_MIN, VELOCITY_MAX

SUCCESS_DISTANCE = 0.05
"""Metres that the box may be away from the target at the end."""
SUCCESS_ROTATION = 0.5
"""Radians that it may be turned away."""
DISTANCE_COST = 3.5
"""What the dense variant takes off at every step for each metre of the box from the target; half a turn costs 1."""
FINAL_DISTANCE_COST, FINAL_ROTATION_COST = 350.0, 100.0
"""What the sparse variant takes off at the last step for each metre, and for half a turn."""
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
