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
"""What rounding may make of a number that should stay as it is."""
_FOLLOWS = 0.9
"""Correlation from which on the rest of a reward is said to follow the goal's part."""
_SMALL_REST = 0.05
"""Spread of the rest, as a share of that of the goal's part, below which it does not matter."""


def look(played: Evidence) -> list[Finding]:
    """Look at the rule on random episodes; a task without one has nothing to look at."""
    rule = played.spec.goal_rule
    if rule is None:
        return []
    count = len(played.random)
    told = [trial.last for trial in played.random if trial.last is not None]
    if len(told) < count:
        return [
            error(
                "goal rule",
                f"{played.spec.id} has a goal_rule, and {count - len(told)} of {count} random episodes have no last "
                "observation: return it (EpisodeOutcomes.last), and let every episode last the whole horizon.",
            )
        ]
    before = np.stack([trial.observation for trial in played.random])
    observation = np.concatenate((before, np.stack(told)[:, None]), axis=1)  # [B, T + 1, S]
    reward = np.stack([trial.reward for trial in played.random])  # [B, T]
    return (
        list(_moving(rule, observation))
        or list(_shapes(rule, observation))
        or [*_sense(rule, observation), *_rest(rule, observation, reward)]
    )


def _moving(rule: GoalRule, observation: Array) -> Iterator[Finding]:
    """Whether the goal stays what it is."""
    goal = observation[..., list(rule.entries)]
    moving = np.array(rule.entries)[(np.ptp(goal, axis=1) > 0).any(0)]
    if len(moving):
        yield error(
            "goal rule",
            f"Entries {moving.tolist()} of the observation, which goal_rule.entries names, change during an episode: "
            "only a goal that stays can be exchanged. Name the goal's entries alone, or leave goal_rule out.",
        )


def _shapes(rule: GoalRule, observation: Array) -> Iterator[Finding]:
    """Whether what the rule answers has the right shape, and is finite."""
    episodes, steps = len(observation), observation.shape[1] - 1
    goal = observation[:, 0, list(rule.entries)]  # [B, G]
    reached = np.asarray(rule.reached(observation[:, 1:]))  # [B, T, R]
    if reached.ndim != 3:
        yield error("goal rule", f"goal_rule.reached answers with shape {reached.shape}, not [B, T, R].")
        return
    wanted = {
        "as_goal": (rule.as_goal(reached[:, -1]), goal.shape),
        "reward": (rule.reward(reached, goal), (episodes, steps)),
        "with_goal": (rule.with_goal(observation, goal), observation.shape),
    }
    for name, (answer, shape) in wanted.items():
        if np.shape(answer) != shape:
            yield error("goal rule", f"goal_rule.{name} answers with shape {np.shape(answer)}, not {shape}.")
        elif not np.isfinite(answer).all():
            yield error("goal rule", f"goal_rule.{name} answers with NaN or infinity; every number must be finite.")


def _sense(rule: GoalRule, observation: Array) -> Iterator[Finding]:
    """Whether goals are shown as they are, and the one that was reached pays best."""
    entries = list(rule.entries)
    goal = observation[:, 0, entries]
    differs = np.flatnonzero((np.abs(rule.with_goal(observation, goal) - observation) > _SAME).any((0, 1)))
    if len(differs):
        yield error(
            "goal rule",
            f"goal_rule.with_goal with the goal that an episode has changes entries {differs.tolist()} of its "
            "observations: they must stay as they are.",
        )
    others = np.roll(goal, 1, axis=0)
    if np.abs(rule.with_goal(observation, others)[..., entries] - others[:, None]).max() > _SAME:
        yield error("goal rule", "goal_rule.with_goal does not show another goal in the entries that it belongs to.")
    reached = rule.reached(observation[:, 1:])
    best, own = rule.reward(reached, rule.as_goal(reached[:, -1])), rule.reward(reached, goal)  # [B, T]
    if (best[:, -1] < own[:, -1] - _SAME).any():
        yield warning(
            "goal rule",
            "goal_rule.reward pays less for the goal that goal_rule.as_goal makes of what an episode has reached than "
            "for the goal that it had: as_goal must answer the goal that was fulfilled.",
        )


def _rest(rule: GoalRule, observation: Array, reward: Array) -> Iterator[Finding]:
    """Whether what the rule leaves of the rewards still follows the goal."""
    paid = rule.reward(rule.reached(observation[:, 1:]), observation[:, 0, list(rule.entries)])
    rest = reward - paid
    if paid.std() == 0.0 or rest.std() < _SMALL_REST * paid.std():
        return
    follows = float(np.corrcoef(rest.ravel(), paid.ravel())[0, 1])
    if abs(follows) > _FOLLOWS:
        yield warning(
            "goal rule",
            f"What goal_rule.reward leaves of the task's rewards follows what it says (correlation {follows:.2f}): it "
            "may say them in another unit, with another sign, or one step off. It must say what the task pays.",
        )
