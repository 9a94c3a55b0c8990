"""How long a sweep takes: a few iterations of one run per method, family of tasks and variant, measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from top_erl.config.run import RunConfig
from top_erl.experiment.training import Training
from top_erl.sweep.cell import cell_config
from top_erl.sweep.definition import Cell
from top_erl.tasks import make_task

_LEAST_ITERATIONS, _MOST_ITERATIONS, _SECONDS = 2, 20, 4.0
"""Iterations that are measured: until this time is over, but not fewer or more than these."""


@dataclass(frozen=True)
class Pace:
    """Measured speed of one kind of run."""

    first: float
    """Seconds until the end of the first iteration: what is collected before it, and an evaluation."""
    iteration: float
    """Seconds of each further iteration."""
    evaluation: float
    """Seconds of an evaluation."""

    def of_run(self, config: RunConfig, horizon: int) -> float:
        """Seconds that a run takes."""
        iterations = config.total_iterations(horizon)
        evaluations = iterations // config.evaluation.interval
        return self.first + (iterations - 1) * self.iteration + evaluations * self.evaluation


@dataclass(frozen=True)
class Estimate:
    """Hours of one kind of run."""

    label: str
    """Method, family of tasks and variant."""
    runs: int
    hours: float
    """Of one run."""


def estimate(cells: Iterable[Cell], threads: int, tell: Callable[[str], None]) -> list[Estimate]:
    """Measure one run of each kind; runs of tasks of one family count as equally fast."""
    kinds: dict[tuple[str, str, str], list[Cell]] = {}
    families: dict[str, str] = {}
    for cell in cells:
        if cell.task not in families:
            families[cell.task] = make_task(cell.task).spec.family or cell.task
        kinds.setdefault((cell.method, families[cell.task], cell.variant), []).append(cell)
    found = []
    for kind, alike in kinds.items():
        label = " · ".join(filter(None, kind))
        tell(f"measuring {label} …")
        found.append(Estimate(label, len(alike), _hours(alike[0], threads)))
    return found


def _hours(cell: Cell, threads: int) -> float:
    config = cell_config(cell, threads)
    training = Training(replace(config, evaluation=replace(config.evaluation, interval=10**9)))
    try:
        return measure(training).of_run(config, training.spec.horizon) / 3600
    finally:
        training.close()


def measure(training: Training) -> Pace:
    """Time a few iterations and an evaluation of a training that has just been made; warming up counts as first."""
    began = time.perf_counter()
    training.advance()
    first = time.perf_counter() - began
    began, count = time.perf_counter(), 0
    while count < _MOST_ITERATIONS and (count < _LEAST_ITERATIONS or time.perf_counter() < began + _SECONDS):
        training.advance()
        count += 1
    iteration = (time.perf_counter() - began) / count
    began = time.perf_counter()
    training.evaluate()
    return Pace(first, iteration, time.perf_counter() - began)
