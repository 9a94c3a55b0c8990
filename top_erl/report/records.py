"""Runs read back for reports: what each is of, its numbers, and what was left out and why.

Axes: `[rows]` one entry per iteration of a run, `[points]` one per evaluation.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from top_erl.errors import UserError
from top_erl.experiment.metrics_file import Row
from top_erl.report.finding import Found, find_runs
from top_erl.report.reading import Array, UnusableRun, read_run_files
from top_erl.report.variants import difference_note, flat_settings, name_variants
from top_erl.sweep.definition import Cell, Sweep

Axis = Literal["env_steps", "episodes", "minutes"]
SUCCESS = "evaluation_success"
_PER_TASK = {"success_rule": "success rule", "task_version": "version", "horizon": "horizon"}
"""Entries of a fingerprint that runs of a task must share."""
_PACKAGES = ("top-erl", "torch", "numpy", "gymnasium", "mujoco", "metaworld", "stable-baselines3", "pink-noise-rl")
"""Packages that decide numbers, some of them those of a few runs only."""
_LISTED = 6
"""Runs or tasks that a note names."""


@dataclass(frozen=True, eq=False)
class RunRecord:
    """A run that can be used. Its numbers are kept by columns: a sweep of thousands of runs fits into memory."""

    folder: Path
    method: str
    task: str
    seed: int
    variant: str
    """What distinguishes it beside method, task and seed; empty if nothing does."""
    config: dict[str, Any]
    fingerprint: dict[str, Any]
    columns: dict[str, Array]
    """Columns of `metrics.csv`, `[rows]`; NaN where nothing was measured."""
    fresh: dict[str, list[float]]
    """Each metric's value per episode on contexts that training never saw; empty if none were played."""
    finished: bool

    @property
    def ended_by_success(self) -> bool:
        """Whether it ended before its budget did, because it had learned (`evaluation.stop_at_success`)."""
        evaluation = self.config.get("evaluation")
        asked = isinstance(evaluation, dict) and evaluation.get("stop_at_success") is not None
        return asked and self.finished and self.env_steps < self.config.get("total_env_steps", 0)

    @property
    def label(self) -> str:
        """What a curve of it is called."""
        return f"{self.method} · {self.variant}" if self.variant else self.method

    @cached_property
    def rows(self) -> list[Row]:
        """The rows of `metrics.csv`; numbers that were not measured are missing from a row."""
        table = np.stack(list(self.columns.values()), axis=1).tolist()  # [rows, columns]
        return [
            {name: value for name, value in zip(self.columns, line, strict=True) if value == value} for line in table
        ]

    @property
    def env_steps(self) -> int:
        """Control steps of the environment so far."""
        return int(self.columns["env_steps"][-1])

    @property
    def minutes(self) -> float:
        """Time of training so far, evaluations included; NaN if it was not recorded."""
        return float(self.columns["wall_time"][-1]) / 60 if "wall_time" in self.columns else float("nan")

    def curve(self, column: str, x: Axis = "env_steps") -> tuple[Array, Array]:
        """Steps, episodes or minutes and the values of a column where it was measured, both `[points]`."""
        along = self.columns.get("wall_time" if x == "minutes" else x)
        values = self.columns.get(column)
        if along is None or values is None:
            return np.empty(0), np.empty(0)
        there = np.isfinite(values)
        return along[there] / (60.0 if x == "minutes" else 1.0), values[there]

    def first(self, value: float, column: str = SUCCESS) -> Row | None:
        """The first row in which a column was at least `value`."""
        reached = self.columns.get(column, np.empty(0)) >= value
        if not reached.any():
            return None
        row = {name: float(values[reached.argmax()]) for name, values in self.columns.items()}
        return {name: number for name, number in row.items() if not math.isnan(number)}

    def last(self, column: str = SUCCESS) -> float | None:
        """The last evaluation."""
        values = self.curve(column)[1]
        return float(values[-1]) if len(values) else None


@dataclass(frozen=True)
class Excluded:
    """A folder that was left out."""

    folder: Path
    reason: str


@dataclass(frozen=True)
class Collection:
    """What was found."""

    runs: list[RunRecord]
    excluded: list[Excluded]
    notes: list[str]
    """What a reader must know of the runs, in sentences: unfinished ones, missing seeds, unequal lengths."""
    sweep: Sweep | None


def collect(paths: Sequence[Path]) -> Collection:
    """Read runs; what cannot be used is named with a reason, and never stops the others.

    Args:
        paths: Each a sweep folder, a run folder, or a folder of run folders.
    """
    search = find_runs(list(paths))
    read = [_read(found) for found in search.found]
    runs = [run for run in read if isinstance(run, RunRecord)]
    excluded = [run for run in read if isinstance(run, Excluded)]
    runs, notes = _with_variants(runs)
    runs, doubles = _without_doubles(runs)
    notes += [*_missing_cells(search.missing), *_notes(runs)]
    sweep = search.sweeps[0][1] if len(search.sweeps) == 1 else None
    return Collection(runs, [*excluded, *doubles], notes, sweep)


def _read(found: Found) -> RunRecord | Excluded:
    """A run, or why it is left out."""
    folder, cell = found.folder, found.cell
    if found.reason:
        return Excluded(folder, found.reason)
    try:
        files = read_run_files(folder)
    except UnusableRun as unusable:
        return Excluded(folder, str(unusable))
    config = files.config
    what = config["method"], config["task"], config["seed"]
    if cell and what != (cell.method, cell.task, cell.seed):
        return Excluded(folder, f"its config.yaml is of {what[0]} on {what[1]} with seed {what[2]}, not of this cell")
    return RunRecord(
        folder=folder,
        method=what[0],
        task=what[1],
        seed=what[2],
        variant=cell.variant if cell else "",
        config=config,
        fingerprint=files.fingerprint,
        columns=files.columns,
        fresh=files.fresh,
        finished=files.finished,
    )


def _with_variants(runs: Sequence[RunRecord]) -> tuple[list[RunRecord], list[str]]:
    """Tell apart runs of the same label and task whose settings differ."""
    notes, named = [], {}
    for label in dict.fromkeys(run.label for run in runs):
        group = [run for run in runs if run.label == label]
        names, differing = name_variants([run.task for run in group], [flat_settings(run.config) for run in group])
        for run, name in zip(group, names, strict=True):
            named[run.folder] = replace(run, variant=", ".join(filter(None, (run.variant, name))))
        if differing:
            notes.append(difference_note(label, differing))
    return [named[run.folder] for run in runs], notes


def _without_doubles(runs: Sequence[RunRecord]) -> tuple[list[RunRecord], list[Excluded]]:
    """Keep one run of each label, task and seed, the longest: the same seed twice is no second replicate."""
    kept: dict[tuple[str, str, int], RunRecord] = {}
    for run in runs:
        key = (run.label, run.task, run.seed)
        if key not in kept or run.env_steps > kept[key].env_steps:
            kept[key] = run
    chosen = {run.folder: run for run in kept.values()}
    doubles = [
        Excluded(run.folder, f"it is the same method, setting, task and seed as {other.folder}")
        for run in runs
        if run.folder not in chosen
        for other in [kept[run.label, run.task, run.seed]]
    ]
    return list(chosen.values()), doubles


def refuse_mixed(runs: Sequence[RunRecord]) -> None:
    """Refuse to pool runs with another success rule, task version, horizon (per task) or package version (all)."""
    for name, words in _PER_TASK.items():
        for task in dict.fromkeys(run.task for run in runs):
            of_task = [run for run in runs if run.task == task]
            _refuse(f"{words} of {task}", [(run, run.fingerprint.get(name)) for run in of_task])
    for package in _PACKAGES:
        using = [run for run in runs if _uses(run, package)]
        _refuse(f"version of {package}", [(run, _version(run, package)) for run in using])


def _uses(run: RunRecord, package: str) -> bool:
    """Whether a package decides a run's numbers."""
    if package == "metaworld":
        return run.task.startswith("metaworld/")
    if package == "pink-noise-rl":
        return run.method == "pink"
    own = "primitive" in run.config or run.method == "t_sac"  # of the step-based methods, which have none, only one is
    return package != "stable-baselines3" or not own


def _version(run: RunRecord, package: str) -> Any:
    packages = run.fingerprint.get("packages")
    return packages.get(package) if isinstance(packages, dict) else None


def _refuse(what: str, values: Sequence[tuple[RunRecord, Any]]) -> None:
    """Refuse more than one value."""
    examples: dict[str, Path] = {}
    for run, value in values:
        examples.setdefault("not recorded" if value is None else str(value), run.folder)
    if len(examples) > 1:
        (one, here), (other, there), *_ = examples.items()
        raise UserError(
            f"These runs are not comparable: the {what} is {one!r} in {here}, but {other!r} in {there}. Report them "
            "one group at a time, or train one group again."
        )


# ---------------------------------------------------------------------- notes


def _notes(runs: Sequence[RunRecord]) -> list[str]:
    """What a reader must know of the runs."""
    return [*_unfinished(runs), *_learned(runs), *_lengths(runs), *_missing_seeds(runs)]


def _unfinished(runs: Sequence[RunRecord]) -> list[str]:
    going = [run for run in runs if not run.finished]
    if not going:
        return []
    shown = [f"{run.folder.name} ({run.env_steps:,} steps)" for run in going]
    return [f"{len(going)} of {len(runs)} runs are not finished and are shown as far as they are: {_few(shown)}."]


def _learned(runs: Sequence[RunRecord]) -> list[str]:
    count = sum(run.ended_by_success for run in runs)
    if not count:
        return []
    return [f"{count} of {len(runs)} runs ended when they had learned; curves of several keep their last evaluation."]


def _lengths(runs: Sequence[RunRecord]) -> list[str]:
    """Runs of a label and task that were given different numbers of steps."""
    given: dict[tuple[str, str], set[int]] = {}
    for run in runs:
        given.setdefault((run.label, run.task), set()).add(int(run.config.get("total_env_steps", run.env_steps)))
    shown = [
        f"{label} on {task} ({', '.join(f'{steps:,}' for steps in sorted(several))} steps)"
        for (label, task), several in given.items()
        if len(several) > 1
    ]
    return [f"Runs of unequal length are pooled, each with its own last evaluation: {_few(shown)}."] if shown else []


def _missing_seeds(runs: Sequence[RunRecord]) -> list[str]:
    """Tasks for which a label has fewer seeds than elsewhere."""
    seeds = sorted({run.seed for run in runs})
    tasks = list(dict.fromkeys(run.task for run in runs))
    there = {(run.label, run.task, run.seed) for run in runs}
    labels: dict[str, list[str]] = {}
    for label in dict.fromkeys(run.label for run in runs):
        gaps = {task: [seed for seed in seeds if (label, task, seed) not in there] for task in tasks}
        shown = [
            task if missing == seeds else f"{task} with seed {', '.join(map(str, missing))}"
            for task, missing in gaps.items()
            if missing
        ]
        if shown:
            labels.setdefault(_few(shown), []).append(label)
    return [f"There are no runs of {', '.join(names)} on {where}." for where, names in labels.items()]


def _missing_cells(cells: Sequence[Cell]) -> list[str]:
    """Which cells of a sweep have not begun, counted by method and task."""
    if not cells:
        return []
    counts = Counter(
        f"{cell.method} · {cell.variant} on {cell.task}" if cell.variant else f"{cell.method} on {cell.task}"
        for cell in cells
    )
    return [f"{len(cells)} runs of the sweep have not begun: {_few([f'{what} ({n})' for what, n in counts.items()])}."]


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more
