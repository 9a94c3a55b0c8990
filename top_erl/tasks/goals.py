"""Goals that can be exchanged afterwards: what an episode would have paid if it had had another one.

Where a goal changes what is paid and nothing of what happens, an episode that was played for one goal teaches about all
others (hindsight experience replay, Andrychowicz et al. 2017). A task that says where its goal is, what of an
observation a goal is compared with, and what is paid for that, lets a learner count its episodes anew.

Axes: `B` episodes, `T` control steps, `S` observation entries, `R` entries of what was reached, `G` entries of a goal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class GoalRule(ABC):
    """What a task's goal is and what it pays. The goal must stay as it is during an episode, and move nothing."""

    entries: tuple[int, ...]
    """Entries of an observation that hold the goal."""

    @abstractmethod
    def reached(self, observation: Array) -> Array:
        """What the goal is compared with, [..., R], read off observations, [..., S]."""

    @abstractmethod
    def as_goal(self, reached: Array) -> Array:
        """The goal, [..., G], that something reached, [..., R], would have fulfilled."""

    def with_goal(self, observation: Array, goal: Array) -> Array:
        """Observations, [B, T, S], if the goal, [B, G], had been another one.

        Override this if other entries than `entries` follow from the goal.
        """
        changed = observation.copy()
        changed[..., list(self.entries)] = goal[:, None]
        return changed

    @abstractmethod
    def reward(self, reached: Array, goal: Array) -> Array:
        """The part of each step's reward that depends on the goal, [B, T].

        Args:
            reached: What was reached after each step, [B, T, R].
            goal: The goal, [B, G].
        """
