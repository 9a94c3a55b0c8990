"""What a set of runs comes to, as plain data: a summary for all tasks that are scored by the same number.

A run's score is its last evaluation, or its mean on fresh contexts if all runs that are compared have played some.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from top_erl.report.bootstrap import Array, Interval
from top_erl.report.records import RunRecord, refuse_mixed
from top_erl.report.statistics import iqm, mean, median, optimality_gap, probability_of_improvement

SCORES = {
    "evaluation_success": "success at the last step",
    "evaluation_max_height": "maximum height in m",
    "evaluation_return": "return",
}
"""What a task is scored by, the first that its runs have measured, and what that is called."""
ANY_STEP = "evaluation_success_any"
_ANY_STEP_WORDS = "success at any step"
LEVELS = (0.5, 0.8, 0.9)
WORST = 10


@dataclass(frozen=True)
class Reached:
    """How many runs ever had an evaluation of at least a level, and the median of when they first had."""

    level: float
    reached: int
    runs: int
    steps: float | None
    """Median over all runs of the environment steps; None if no more than half have reached it."""
    minutes: float | None
    """The same in minutes of training."""


@dataclass(frozen=True)
class TaskScore:
    """A label's score on a task: the mean of its seeds."""

    task: str
    score: float
    seeds: int


@dataclass(frozen=True)
class LabelSummary:
    """One method, or one variant of it."""

    label: str
    runs: int
    unfinished: int
    seeds: tuple[int, int]
    """The fewest and the most seeds of a task."""
    iqm: Interval
    mean: Interval
    median: Interval
    gap: Interval | None
    """Optimality gap; only of success, since other scores have no 1 to reach."""
    improvement: Interval | None
    """Probability that the reference scores higher than this; None for itself and where no task is shared."""
    reached: tuple[Reached, ...]
    """Of success only."""
    tasks: tuple[TaskScore, ...]
    """Worst first."""

    @property
    def worst(self) -> tuple[TaskScore, ...]:
        """The ten worst tasks."""
        return self.tasks[:WORST]


@dataclass(frozen=True)
class Summary:
    """All labels on the tasks that are scored by the same number."""

    column: str
    score: str
    """What the score is called; of success also at which step."""
    source: str
    """What of a run it is: the last evaluation, or the mean on fresh contexts."""
    tasks: tuple[str, ...]
    reference: str
    """The label that the others are compared with."""
    labels: tuple[LabelSummary, ...]
    notes: tuple[str, ...]


def summarize(runs: Sequence[RunRecord], reference: str = "top_erl", seed: int = 0) -> list[Summary]:
    """Summaries of runs, one for each number that tasks are scored by; runs that must not be pooled are refused.

    Args:
        runs: What `collect` has found.
        reference: Label that the others are compared with; if there is none such, the first.
        seed: Of the resampling.
    """
    refuse_mixed(runs)
    return [_summary(column, pool, reference, seed) for column, pool in pools(runs).items()]


def pools(runs: Sequence[RunRecord]) -> dict[str, list[RunRecord]]:
    """Runs whose tasks are scored by the same column; success at any step is a column beside."""
    by_task: dict[str, list[RunRecord]] = {}
    for run in runs:
        by_task.setdefault(run.task, []).append(run)
    columns = {task: score_column(of_task) for task, of_task in by_task.items()}
    found = {column: [run for run in runs if columns[run.task] == column] for column in SCORES}
    found[ANY_STEP] = [run for run in runs if run.last(ANY_STEP) is not None]
    return {column: pool for column, pool in found.items() if pool}


def score_column(runs: Sequence[RunRecord]) -> str:
    """What the runs of a task are scored by."""
    return next((column for column in SCORES if any(run.last(column) is not None for run in runs)), "")


def final_scores(runs: Sequence[RunRecord], column: str) -> tuple[dict[RunRecord, float], str]:
    """Each run's score and where it is from; runs in which the column was never measured are left out."""
    metric = column.removeprefix("evaluation_")
    if all(metric in run.fresh for run in runs):
        counts = sorted({len(run.fresh[metric]) for run in runs})
        episodes = " to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
        return {run: float(np.mean(run.fresh[metric])) for run in runs}, f"mean on {episodes} fresh contexts"
    scores = {run: run.last(column) for run in runs}
    return {run: score for run, score in scores.items() if score is not None}, "last evaluation"


def _summary(column: str, runs: Sequence[RunRecord], reference: str, seed: int) -> Summary:
    scores, source = final_scores(runs, column)
    by_label: dict[str, dict[str, list[float]]] = {}
    for run, score in scores.items():
        by_label.setdefault(run.label, {}).setdefault(run.task, []).append(score)
    reference = reference if reference in by_label else next(iter(by_label))
    ordered = sorted(by_label, key=lambda label: label != reference)  # stable: the reference first, the others as found
    labels = [
        _label_summary(
            [run for run in scores if run.label == label], by_label[label], by_label[reference], column, seed
        )
        for label in ordered
    ]
    tasks = tuple(dict.fromkeys(run.task for run in scores))
    return Summary(
        column=column,
        score=SCORES.get(column, _ANY_STEP_WORDS),
        source=source,
        tasks=tasks,
        reference=reference,
        labels=tuple(labels),
        notes=tuple(_notes(column, len(runs) - len(scores), tasks, by_label)),
    )


def _label_summary(
    runs: Sequence[RunRecord],
    scores: Mapping[str, Sequence[float]],
    reference: Mapping[str, Sequence[float]],
    column: str,
    seed: int,
) -> LabelSummary:
    """Statistics of one label; `scores` and those of the reference are by task."""
    pooled: list[Array] = [np.array(values) for values in scores.values()]
    counts = [len(values) for values in scores.values()]
    shared = [task for task in scores if task in reference] if scores is not reference else []
    improvement = None
    if shared:
        ours = [np.array(reference[task]) for task in shared]
        improvement = probability_of_improvement(ours, [np.array(scores[task]) for task in shared], seed=seed)
    is_success = column.startswith("evaluation_success")
    tasks = [TaskScore(task, float(np.mean(values)), len(values)) for task, values in scores.items()]
    return LabelSummary(
        label=runs[0].label,
        runs=len(runs),
        unfinished=sum(not run.finished for run in runs),
        seeds=(min(counts), max(counts)),
        iqm=iqm(pooled, seed=seed),
        mean=mean(pooled, seed=seed),
        median=median(pooled, seed=seed),
        gap=optimality_gap(pooled, seed=seed) if is_success else None,
        improvement=improvement,
        reached=tuple(reached(runs, level, column) for level in LEVELS) if is_success else (),
        tasks=tuple(sorted(tasks, key=lambda each: (each.score, each.task))),
    )


def reached(runs: Sequence[RunRecord], level: float, column: str = "evaluation_success") -> Reached:
    """When runs first had an evaluation of at least a level; those that never had count as later than all others."""
    rows = [run.first(level, column) for run in runs]
    steps = [math.inf if row is None else row["env_steps"] for row in rows]
    minutes = [math.inf if row is None else row.get("wall_time", math.nan) / 60 for row in rows]
    return Reached(
        level, sum(row is not None for row in rows), len(runs), _finite(np.median(steps)), _finite(np.median(minutes))
    )


def _finite(value: np.floating) -> float | None:
    return float(value) if math.isfinite(value) else None


def _notes(
    column: str, left_out: int, tasks: Sequence[str], by_label: Mapping[str, Mapping[str, Sequence[float]]]
) -> list[str]:
    """What must be known to read the summary."""
    notes = []
    if left_out:
        notes.append(f"{left_out} runs have never measured {column} and are left out.")
    fewer = [f"{label} ({len(scores)})" for label, scores in by_label.items() if len(scores) < len(tasks)]
    if fewer:
        notes.append(
            f"Not every method has runs on all {len(tasks)} tasks: {', '.join(fewer)}. Their scores over tasks do not "
            "compare with the others'; the probability of improvement is over shared tasks."
        )
    if any(len(values) == 1 for scores in by_label.values() for values in scores.values()):
        notes.append(
            "Tasks with a single seed add nothing to the width of an interval; without a second one there is none."
        )
    return notes
