"""Scores of runs per task: what intervals and profiles are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from top_erl.report.bootstrap import Array
from top_erl.report.records import RunRecord


def scores_by_task(runs: Sequence[RunRecord], scores: Mapping[RunRecord, float]) -> list[Array]:
    """The scores of some runs, an array `[seeds]` per task; a run that was not evaluated has no score.

    A run that broke off counts with what it had reached: leaving it out would favour methods whose bad runs break off.

    Args:
        runs: Runs, of one method.
        scores: Scores of all runs that are compared, as `final_scores` gives them: the same as in the tables.
    """
    by_task: dict[str, list[float]] = {}
    for run in sorted(runs, key=lambda run: run.task):
        if run in scores:
            by_task.setdefault(run.task, []).append(scores[run])
    return [np.array(values) for values in by_task.values()]
