"""The 95 % interval of a statistic over tasks and seeds.

It is a stratified bootstrap: seeds are drawn with replacement within each task, as many as the task has, and the
statistic is computed for each resample. Quantiles of these at 2.5 % and 97.5 % would be too narrow, since the variance
among n draws from n seeds is (n - 1)/n of an unbiased estimate: with 8 seeds they cover the truth in 93 % of cases.
So the quantiles are taken a little further out, at Phi(-t sqrt(N / (N - T))), where N is the number of runs, T that of
tasks, and t the 97.5 % quantile of Student's t with N - T degrees of freedom (the expanded percentile interval;
Hesterberg 2015, "What teachers should know about the bootstrap"). For 10 tasks of 8 seeds this is 1.65 %; for very many
seeds it becomes 2.5 %. As a percentile interval it never leaves the range that the statistic can have. Tasks with a
single seed add nothing to it, nor to N and T; if all tasks have one seed, there is no interval (NaN).

Scores are given per task: an array `[tasks, seeds]`, or a list with an array `[seeds]` per task if tasks have different
numbers of seeds. Pooled, they are `[runs]`, task by task. Further axes: resamples.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Scores = Array | Sequence[Array]
Sizes = tuple[int, ...]
"""Number of seeds of each task."""
Statistic = Callable[[Array, Sizes], Array]
"""Pooled scores `[..., runs]` to values `[...]`."""

RESAMPLES = 2000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """A statistic of the scores and its 95 % interval; the ends are NaN if no task has two seeds."""

    value: float
    low: float
    high: float


def stratified_bootstrap(statistic: Statistic, scores: Scores, resamples: int = RESAMPLES, seed: int = 0) -> Interval:
    """A statistic of the scores and its 95 % interval; the same seed gives the same bits."""
    tasks = per_task(scores)
    sizes, pooled = sizes_of(tasks), np.concatenate(tasks)
    drawn = statistic(pooled[resample_indices(sizes, resamples, seed)], sizes)  # [resamples]
    return Interval(float(statistic(pooled, sizes)), *interval_ends(drawn, sizes))


@lru_cache(maxsize=8)
def resample_indices(sizes: Sizes, resamples: int = RESAMPLES, seed: int = 0) -> NDArray[np.int64]:
    """Which runs each resample consists of, `[resamples, runs]`; a task's seeds give way to seeds of the same task.

    Args:
        sizes: Number of seeds of each task.
        resamples: How many resamples.
        seed: Of the generator.
    """
    generator = np.random.default_rng(seed)
    starts = np.cumsum((0, *sizes[:-1]))
    indices = np.concatenate(
        [start + generator.integers(size, size=(resamples, size)) for start, size in zip(starts, sizes, strict=True)],
        axis=1,
    )
    indices.setflags(write=False)  # it is remembered
    return indices


def interval_ends(drawn: Array, sizes: Sizes) -> tuple[float, float]:
    """The interval's ends from the statistic of each resample, `[resamples]`."""
    level = interval_level(sizes)
    if math.isnan(level):
        return math.nan, math.nan
    low, high = np.quantile(drawn, (level, 1.0 - level))
    return float(low), float(high)


@cache
def interval_level(sizes: Sizes) -> float:
    """Which quantile of the resamples is the interval's lower end; NaN if no task has two seeds."""
    several = [size for size in sizes if size > 1]
    if not several:
        return math.nan
    freedom = sum(several) - len(several)
    t = student_quantile(0.5 + CONFIDENCE / 2, freedom)
    return statistics.NormalDist().cdf(-t * math.sqrt(sum(several) / freedom))


@cache
def student_quantile(probability: float, freedom: int) -> float:
    """Quantile of Student's t above its median, by bisection of its distribution function."""
    low, high = 0.0, 1.0
    while student_cdf(high, freedom) < probability:
        high *= 2.0
    while low < (middle := (low + high) / 2.0) < high:
        low, high = (middle, high) if student_cdf(middle, freedom) < probability else (low, middle)
    return high


def student_cdf(t: float, freedom: int) -> float:
    """Distribution function of Student's t; a finite sum (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(freedom))
    cosine_squared = math.cos(angle) ** 2
    odd = freedom % 2
    term = math.cos(angle) if odd else 1.0
    total = term if freedom > 1 else 0.0
    for k in range(2 + odd, freedom - 1, 2):
        term *= cosine_squared * (k - 1) / k
        total += term
    inside = 2.0 / math.pi * (angle + math.sin(angle) * total) if odd else math.sin(angle) * total
    return 0.5 + inside / 2.0


def per_task(scores: Scores) -> list[Array]:
    """One array `[seeds]` per task; no tasks, tasks without scores, and scores that are no numbers are refused."""
    tasks = [np.asarray(task, dtype=np.float64).reshape(-1) for task in scores]
    if not tasks or not all(len(task) and np.isfinite(task).all() for task in tasks):
        raise ValueError("Statistics need at least one task, a score of each, and finite ones only.")
    return tasks


def sizes_of(tasks: Sequence[Array]) -> Sizes:
    """Number of seeds of each task."""
    return tuple(len(task) for task in tasks)
