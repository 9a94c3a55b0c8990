"""Noticing that a run does not get better, while there is still something to be saved.

A run stands still if its evaluations of the last third of the whole budget are no better than those before. What has
been solved is left alone. All of it follows from the rows of `metrics.csv`, so a run that is resumed knows what it has
said already.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, pstdev

from top_erl.experiment.metrics_file import Row

_PART = 1 / 3
"""Part of the budget for which nothing may have got better."""
_FEWEST = 4
"""Evaluations that this part must have, and as many must have come before."""
_BETTER = 0.02
"""What counts as better, as a part of the range of a run's evaluations,"""
_AT_LEAST = 0.002
"""and as a part of the number itself: a run that is flat has hardly any range."""
_SOLVED = 0.9
"""Success from which on a run may stand still."""
_LEARNED = 4.0
"""A run without success has learned if it gained this many times the noise of its evaluations."""

SENTENCE = (
    "Evaluations have not got better for a third of this run's budget. Is the task as it should be (top-erl check "
    "{task})? Is there still exploration (`entropy` in metrics.csv; --policy.initial-std, scales of the primitive)? "
    "Does the critic know its task (critic_loss; top-erl inspect RUN)? The run goes on; Ctrl-C stops and saves it."
)


class Standstill:
    """Says once in a run that it stands still."""

    def __init__(self, total_iterations: int, rows: Sequence[Row] = ()) -> None:
        """Begin, or go on after the rows of earlier sessions."""
        self._total = total_iterations
        self._evaluated: list[Row] = []
        self._said = False
        for row in rows:
            self.begins(row)

    def begins(self, row: Row) -> bool:
        """Take the row of an iteration; whether this is the first one at which the run stands still."""
        if self._said or "evaluation_return" not in row:
            return False
        self._evaluated.append(row)
        self._said = stands_still(self._evaluated, self._total)
        return self._said


def stands_still(evaluated: Sequence[Row], total_iterations: int) -> bool:
    """Whether the last third of the budget brought nothing.

    Args:
        evaluated: Rows with an evaluation, oldest first.
        total_iterations: The whole budget.
    """
    since = evaluated[-1]["iteration"] - _PART * total_iterations
    before = [row for row in evaluated if row["iteration"] <= since]
    recent = [row for row in evaluated if row["iteration"] > since]
    if min(len(before), len(recent)) < _FEWEST:
        return False
    if _is_done(before, recent):
        return False
    return not any(_got_better(before, recent, name) for name in ("evaluation_return", "evaluation_success"))


def _is_done(before: Sequence[Row], recent: Sequence[Row]) -> bool:
    """Whether the task has been solved; or, where nobody can say so, at least learned."""
    success = _values([*before, *recent], "evaluation_success")
    if success:
        return max(success) >= _SOLVED
    now = _values(recent, "evaluation_return")
    return fmean(now) - before[0]["evaluation_return"] > _LEARNED * pstdev(now)


def _got_better(before: Sequence[Row], recent: Sequence[Row], name: str) -> bool:
    """Whether a number is better than it was, at its best or in the mean, by more than a trifle."""
    old, new = _values(before, name), _values(recent, name)
    if not old or not new:
        return False
    trifle = max(_BETTER * (max(*old, *new) - min(*old, *new)), _AT_LEAST * max(map(abs, (*old, *new))))
    return max(new) > max(old) + trifle or fmean(new) > fmean(old[-len(new) :]) + trifle


def _values(rows: Sequence[Row], name: str) -> list[float]:
    return [row[name] for row in rows if name in row]
