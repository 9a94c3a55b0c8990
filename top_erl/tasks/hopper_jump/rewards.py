"""Reward of the hopper: height, landing place, uprightness and effort.

The sparse reward (the paper's) pays for all but the effort at the last step only, and for the greatest height of the
episode. The dense one pays at every step, and for the height at that step. Neither is Markovian: the greatest height
and the landing place are no part of the observation. `top_erl.tasks.markov` helps learners with that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

NO_LANDING_DISTANCE = 5.0
"""Stands for the distance of the landing from the goal as long as there has been none."""
MIN_HEIGHT = 0.5
"""A healthy robot's root is higher than this, in metres."""
STATE_LIMIT = 100.0
"""A healthy robot's pitch, joint angles and velocities are smaller than this."""


@dataclass(frozen=True)
class RewardWeights:
    """What each part of the reward weighs."""

    healthy: float
    """Paid for being upright."""
    landing: float
    """Cost of a metre between goal and foot when it came down."""
    height: float
    """Paid for a metre of height: the greatest so far if sparse, else the present one."""
    goal: float
    """Cost of a metre between goal and foot."""
    control: float
    """Cost of the sum of squared actions, at every step."""
    sparse: bool
    """Whether all but the control cost is paid at the last step only."""


SPARSE = RewardWeights(healthy=2.0, landing=2.0, height=10.0, goal=3.0, control=1e-3, sparse=True)
"""The paper's reward."""
DENSE = RewardWeights(healthy=1.0, landing=0.0, height=3.0, goal=3.0, control=1e-3, sparse=False)
"""The reward of the dense variant."""


@dataclass(frozen=True)
class StepMeasures:
    """What a reward is made of, measured at the end of a control step."""

    height: float
    """Height of the torso."""
    max_height: float
    """The greatest height so far, at ends of control steps."""
    goal_distance: float
    """Distance of the foot to the goal."""
    landing_distance: float | None
    """The same when the foot came down after the jump; None before."""
    healthy: bool
    """Whether the robot is upright and its numbers are sane."""


def step_reward(weights: RewardWeights, measures: StepMeasures, action: Array, is_last: bool) -> float:
    """Compute the reward of one control step, whose action, [D], counts as it was given, not as it was clipped."""
    cost = weights.control * float(action @ action)
    if weights.sparse and not is_last:
        return -cost
    height = measures.max_height if weights.sparse else measures.height
    landing = measures.landing_distance or NO_LANDING_DISTANCE  # a distance of exactly zero counts as none, too
    return (
        weights.healthy * measures.healthy
        - weights.goal * measures.goal_distance
        + weights.height * height
        - weights.landing * landing
        - cost
    )


def is_healthy(position: Array, velocity: Array) -> bool:
    """Whether the robot has not fallen: positions (x, z, pitch, three joints) and velocities, [6] each."""
    _, height, *angles = position.tolist()
    return height > MIN_HEIGHT and all(-STATE_LIMIT < value < STATE_LIMIT for value in angles + velocity.tolist())
