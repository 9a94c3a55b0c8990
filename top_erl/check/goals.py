"""Whether a task's goal rule fits its episodes: only then may they be counted for other goals (`--learn.hindsight`).

Axes: `B` episodes, `T` control steps, `S` observation entries, `R` entries of what is reached, `G` entries of a goal.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from top_erl.check.findings import Finding, error, warning
from top_erl.check.probe import Evidence
from top_erl.tasks import GoalRule
from top_erl.tasks.contract import Array

_SAME = 1e-9


def look(played: Evidence) -> list[Finding]:
    """Look at the rule on random episodes; a task without one has nothing to look at."""
    rule = played.spec.goal_rule
    if rule is None:
        return []
    observation = np.stack([trial.observation for trial in played.random])  # [B, T, S]
    return list(_entries(rule, observation)) or list(_answers(rule, observation))


def _entries(rule: GoalRule, observation: Array) -> Iterator[Finding]:
    """Whether the entries are there, and stay what they are."""
    size = observation.shape[-1]
    wrong = [entry for entry in rule.entries if not 0 <= entry < size]
    if wrong:
        yield error("goal rule", f"goal_rule.entries names {wrong}; an observation has 0 to {size - 1}.")
        return
    goal = observation[..., list(rule.entries)]
    moving = np.array(rule.entries)[(np.ptp(goal, axis=1) > 0).any(0)]
    if len(moving):
        yield error(
            "goal rule",
            f"Entries {moving.tolist()} of the observation, which goal_rule.entries names, change during an episode: "
            "only a goal that stays can be exchanged. Name the goal's entries alone, or leave goal_rule out.",
        )


def _answers(rule: GoalRule, observation: Array) -> Iterator[Finding]:
    """Whether what the rule answers has the right shape, and makes sense."""
    episodes, steps, _ = observation.shape
    goal = observation[:, 0, list(rule.entries)]  # [B, G]
    reached = rule.reached(observation)  # [B, T, R]
    fulfilled = rule.as_goal(reached[:, -1])  # [B, G]
    own, best = rule.reward(reached, goal), rule.reward(reached, fulfilled)  # [B, T]
    shown = rule.with_goal(observation, goal)
    wanted = {
        "as_goal": (fulfilled, goal.shape),
        "reward": (own, (episodes, steps)),
        "with_goal": (shown, observation.shape),
    }
    for name, (answer, shape) in wanted.items():
        if np.shape(answer) != shape:
            yield error("goal rule", f"goal_rule.{name} answers with shape {np.shape(answer)}, not {shape}.")
            return
    differs = np.flatnonzero((np.abs(shown - observation) > _SAME).any((0, 1)))
    if len(differs):
        yield error(
            "goal rule",
            f"goal_rule.with_goal with the goal that an episode has changes entries {differs.tolist()} of its "
            "observations: they must stay as they are.",
        )
    if (best[:, -1] < own[:, -1] - _SAME).any():
        yield warning(
            "goal rule",
            "goal_rule.reward pays less for the goal that goal_rule.as_goal makes of what an episode has reached than "
            "for the goal that it had: as_goal must answer the goal that was fulfilled.",
        )
