"""Goals that can be exchanged afterwards: what an episode would have paid if it had had another one.

Where a goal changes what is paid and nothing of what happens, an episode that was played for one goal teaches about all
others (hindsight experience replay, Andrychowicz et al. 2017). A task that says where its goal is, what of an
observation a goal is compared with, and what is paid for that, lets a learner count its episodes anew.

An episode must last the whole horizon: what is paid after an early end follows from no goal.

Axes: `B` episodes, `T` control steps, `S` observation entries, `R` entries of what was reached, `G` entries of a goal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from top_erl.errors import UserError

Array = NDArray[np.float64]


class GoalRule(ABC):
    """What a task's goal is and what it pays. The goal must stay as it is during an episode, and move nothing."""

    entries: tuple[int, ...] = ()
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


def check_rule(id: str, rule: object, observation_dim: int) -> None:
    """Refuse what is no goal rule, or names entries that an observation does not have."""
    if not isinstance(rule, GoalRule):
        raise UserError(f"{id} has a goal_rule of type {type(rule).__name__}: give an object of a class of GoalRule.")
    entries = rule.entries
    if not entries or len(set(entries)) < len(entries) or not all(0 <= entry < observation_dim for entry in entries):
        raise UserError(
            f"{id} has a goal_rule with entries {entries}: name the goal's, each once; an observation has 0 to "
            f"{observation_dim - 1}."
        )


def without_goal(id: str, rule: GoalRule, observation: Array, reward: Array) -> Array:
    """What was reached after each step, and what the step paid whatever the goal is, [B, T, R + 1].

    Args:
        id: Names the task where its rule does not fit.
        rule: Its rule.
        observation: Before each step and after the last one, [B, T + 1, S].
        reward: As paid, [B, T].
    """
    entries = list(rule.entries)
    goal = observation[:, 0, entries]
    if (observation[..., entries] != goal[:, None]).any():
        raise UserError(
            f"The goal of {id} (entries {entries} of its observation) changes during an episode, so that it cannot be "
            "exchanged: use --learn.hindsight 0."
        )
    reached = np.asarray(rule.reached(observation[:, 1:]))
    paid = np.asarray(rule.reward(reached, goal))
    for name, answer, shape in (
        ("reached", reached, (*reward.shape, reached.shape[-1])),
        ("reward", paid, reward.shape),
    ):
        if answer.shape != shape or not np.isfinite(answer).all():
            raise UserError(
                f"goal_rule.{name} of {id} answers with shape {answer.shape}, or NaN or infinity; wanted are finite "
                f"numbers of shape {shape}: `top-erl check` says more."
            )
    return np.concatenate((reached, (reward - paid)[..., None]), axis=-1)
