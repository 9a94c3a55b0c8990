"""Statistics over tasks and seeds (Agarwal et al. 2021, arXiv 2108.13264), each with a 95 % interval.

The replicate is the run, that is the seed, never the episode. Every run counts once: a task with fewer seeds counts
less in what is pooled. What the interval is, stands in `bootstrap.py`.

Axes: tasks, seeds, runs (the seeds of all tasks, task by task), resamples, thresholds, points (of a curve).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from top_erl.report.bootstrap import (
    RESAMPLES,
    Array,
    Interval,
    Scores,
    Sizes,
    Statistic,
    interval_ends,
    per_task,
    resample_indices,
    sizes_of,
    stratified_bootstrap,
)
from top_erl.report.records import Axis, RunRecord

POINTS = 100
"""Points of a curve of runs that were evaluated at different times."""
LEAST_SHARE = 0.5
"""A curve ends where fewer than this share of its runs go on."""


def iqm(scores: Scores, resamples: int = RESAMPLES, seed: int = 0) -> Interval:
    """Interquartile mean: the mean of the runs without the lowest and the highest quarter, tasks pooled."""
    return stratified_bootstrap(interquartile_mean, scores, resamples, seed)


def mean(scores: Scores, resamples: int = RESAMPLES, seed: int = 0) -> Interval:
    """Mean of all runs."""
    return stratified_bootstrap(pooled_mean, scores, resamples, seed)


def median(scores: Scores, resamples: int = RESAMPLES, seed: int = 0) -> Interval:
    """Median over the tasks of the mean of each task's seeds."""
    return stratified_bootstrap(median_task, scores, resamples, seed)


def optimality_gap(scores: Scores, gamma: float = 1.0, resamples: int = RESAMPLES, seed: int = 0) -> Interval:
    """How much the runs stay below `gamma` on average; what is above it does not make up for others."""

    def gap(pooled: Array, sizes: Sizes) -> Array:
        return pooled_mean(np.maximum(gamma - pooled, 0.0), sizes)

    return stratified_bootstrap(gap, scores, resamples, seed)


def probability_of_improvement(scores: Scores, others: Scores, resamples: int = RESAMPLES, seed: int = 0) -> Interval:
    """How likely a run scores higher than one of the others on the same task, a tie counting half; mean over tasks.

    Both are given for the same tasks in the same order. Seeds of both are resampled, independently.
    """
    ours, theirs = per_task(scores), per_task(others)
    if len(ours) != len(theirs):
        raise ValueError(f"Both need the same tasks, but there are {len(ours)} and {len(theirs)}.")
    generator = np.random.default_rng(seed)
    means, drawn = [], np.zeros(resamples)
    for x, y in zip(ours, theirs, strict=True):
        wins = (x[:, None] > y) + 0.5 * (x[:, None] == y)  # [seeds, seeds of the other]
        rows = generator.integers(len(x), size=(resamples, len(x), 1))
        columns = generator.integers(len(y), size=(resamples, 1, len(y)))
        means.append(wins.mean())
        drawn += wins[rows, columns].mean(axis=(1, 2)) / len(ours)
    return Interval(float(np.mean(means)), *interval_ends(drawn, sizes_of([*ours, *theirs])))


@dataclass(frozen=True)
class Profile:
    """Fraction of runs whose score is above each threshold, with pointwise 95 % intervals; all `[thresholds]`."""

    thresholds: Array
    value: Array
    low: Array
    high: Array


def performance_profile(
    scores: Scores, thresholds: Array | None = None, resamples: int = RESAMPLES, seed: int = 0
) -> Profile:
    """Fraction of runs whose score is above each threshold; 101 of them from 0 to 1 if not given."""
    tasks = per_task(scores)
    sizes, pooled = sizes_of(tasks), np.concatenate(tasks)
    taus = np.linspace(0.0, 1.0, 101) if thresholds is None else np.asarray(thresholds, dtype=np.float64)
    drawn = pooled[resample_indices(sizes, resamples, seed)]  # [resamples, runs]
    ends = np.array([interval_ends((drawn > tau).mean(axis=1), sizes) for tau in taus])  # [thresholds, 2]
    value = (pooled > taus[:, None]).mean(axis=1)
    return Profile(taus, value, ends[:, 0], ends[:, 1])


# ---------------------------------------------------------------------- statistics of pooled scores


def interquartile_mean(pooled: Array, sizes: Sizes = ()) -> Array:
    """The mean without the lowest and the highest quarter, rounded down to whole runs; `[..., runs]` to `[...]`."""
    count = pooled.shape[-1]
    cut = count // 4
    return np.asarray(np.sort(pooled, axis=-1)[..., cut : count - cut].mean(axis=-1))


def pooled_mean(pooled: Array, sizes: Sizes = ()) -> Array:
    """The mean of all runs; `[..., runs]` to `[...]`."""
    return np.asarray(pooled.mean(axis=-1))


def median_task(pooled: Array, sizes: Sizes) -> Array:
    """The median of the tasks' means; `[..., runs]` to `[...]`."""
    starts = np.cumsum((0, *sizes[:-1]))
    return np.asarray(np.median(np.add.reduceat(pooled, starts, axis=-1) / np.array(sizes), axis=-1))


# ---------------------------------------------------------------------- curves


@dataclass(frozen=True)
class Curve:
    """A statistic of runs along an axis with its 95 % band, all `[points]`."""

    x: Array
    value: Array
    low: Array
    """NaN where no task has two seeds."""
    high: Array
    runs_at_each_point: NDArray[np.int64]
    """Runs that go into each point."""
    runs: int
    """Runs in all: where fewer go into a point, the curve is not of all of them and should be drawn thin."""


def aggregate_curve(
    runs: Sequence[RunRecord],
    column: str,
    x: Axis = "env_steps",
    statistic: Literal["iqm", "mean"] = "iqm",
    resamples: int = RESAMPLES,
    seed: int = 0,
    points: int | None = None,
) -> Curve:
    """The learning curve of runs of one method, tasks and seeds pooled.

    Runs that were evaluated at the same times are compared there. Otherwise they are interpolated, linearly between
    evaluations and never beyond the first and the last, but for those that ended because they had learned: their last
    value is kept. The curve begins where all runs have been evaluated. Where some have ended it goes on with the
    others, as long as these are half of all; `runs_at_each_point` says so. Whole
    runs are resampled: the same ones at all points. With `points` there are at most so many of them, chosen evenly.
    """
    ordered = sorted(runs, key=lambda run: run.task)
    drawn = [(run, *run.curve(column, x)) for run in ordered]
    curves = _kept([(run, along, values) for run, along, values in drawn if len(along)])
    if not curves:
        nothing = np.empty(0)
        return Curve(nothing, nothing, nothing, nothing, np.empty(0, dtype=np.int64), 0)
    grid = _grid([along for _, along, _ in curves], points)
    table = np.stack([np.interp(grid, along, values, np.nan, np.nan) for _, along, values in curves])  # [runs, points]
    tasks = np.array([task for task, _, _ in curves])
    function: Statistic = {"iqm": interquartile_mean, "mean": pooled_mean}[statistic]
    each = [_point(function, table[:, point], tasks, resamples, seed) for point in range(len(grid))]
    value, low, high = np.array([(point.value, point.low, point.high) for point in each]).T
    return Curve(grid, value, low, high, np.isfinite(table).sum(axis=0), len(curves))


def _kept(curves: Sequence[tuple[RunRecord, Array, Array]]) -> list[tuple[str, Array, Array]]:
    """Task and curve of each run; those of runs that ended because they had learned go on as level as they ended."""
    longest = max((along for _, along, _ in curves), key=lambda along: float(along[-1]), default=np.empty(0))
    kept = []
    for run, along, values in curves:
        after = longest[longest > along[-1]] if run.ended_by_success else np.empty(0)
        level = np.full(len(after), values[-1])
        kept.append((run.task, np.concatenate((along, after)), np.concatenate((values, level))))
    return kept


def _grid(axes: Sequence[Array], points: int | None) -> Array:
    """Where runs are compared: their own points if all share them, else `POINTS` between."""
    longest = max(axes, key=len)
    last = np.sort([along[-1] for along in axes])[::-1]  # the longest run first
    end = last[math.ceil(LEAST_SHARE * len(axes)) - 1]
    begin = max(along[0] for along in axes)
    if all(np.array_equal(along, longest[: len(along)]) for along in axes):
        shared = longest[longest <= end]
        return shared[thin(len(shared), points or len(shared))]
    return np.linspace(begin, max(begin, end), (points or POINTS) if end > begin else 1)


def thin(count: int, points: int) -> NDArray[np.int64]:
    """At most `points` of `count` places, evenly, with the first and the last."""
    return np.unique(np.linspace(0, count - 1, min(count, points)).round().astype(np.int64))


def _point(function: Statistic, scores: Array, tasks: NDArray[np.str_], resamples: int, seed: int) -> Interval:
    """One point of a curve, of the runs that have one there."""
    there = np.isfinite(scores)
    sizes = tuple(len(list(same)) for _, same in groupby(tasks[there].tolist()))
    pooled = scores[there]
    drawn = function(pooled[resample_indices(sizes, resamples, seed)], sizes)
    return Interval(float(function(pooled, sizes)), *interval_ends(drawn, sizes))
