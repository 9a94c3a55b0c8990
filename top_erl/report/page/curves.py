"""Curves for the page: computed here, thinned out so that the page stays small, and written as plain data.

Axes: `[points]` along a curve, `[runs]` the runs that a curve is pooled from.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from top_erl.report.records import Axis, RunRecord
from top_erl.report.statistics import Curve, aggregate_curve, thin
from top_erl.report.summary import ANY_STEP, SCORES

Array = NDArray[np.float64]

MOST_POINTS = 100
FEWEST_POINTS = 30
FEWEST_SEED_POINTS = 12
CURVE_BUDGET = 4_000
"""Points of all pooled curves together; one is about 100 bytes of the page and 2 ms of resampling."""
SEED_BUDGET = 80_000
"""Points of all single runs together; one is about 30 bytes of the page."""
STATISTICS: tuple[Literal["iqm", "mean"], ...] = ("iqm", "mean")
RANKING = "critic_ranking"
"""How well a critic ranks the movements of one context, if the run was asked to measure it."""
_TITLES = {**SCORES, ANY_STEP: "success at any step", RANKING: "critic's ranking of movements"}


@dataclass(frozen=True)
class Group:
    """What can be chosen as a task: one task, or several whose runs are pooled."""

    name: str
    tasks: tuple[str, ...]

    @property
    def pooled(self) -> bool:
        """Whether it is more than one task."""
        return len(self.tasks) > 1


def groups_of(tasks: Sequence[str]) -> list[Group]:
    """All tasks together, those of each namespace together, and each alone."""
    spaces: dict[str, list[str]] = {}
    for task in tasks:
        spaces.setdefault(task.rpartition("/")[0], []).append(task)
    several = {name: members for name, members in spaces.items() if name and len(members) > 1}
    found = [Group(f"all {len(tasks)} tasks", tuple(tasks))] if len(tasks) > 1 else []
    if len(spaces) > 1:
        found += [Group(f"all {len(members)} tasks of {name}", tuple(members)) for name, members in several.items()]
    return found + [Group(task, (task,)) for task in tasks]


def columns_of(runs: Iterable[RunRecord]) -> list[str]:
    """What was measured in evaluations: success first, then return, the tasks' own measures, the critic's ranking."""
    runs = list(runs)
    names = {name for run in runs for name in run.columns if name.startswith("evaluation_")}
    found = sorted(names, key=lambda name: (not is_share(name), name != "evaluation_return", len(name), name))
    return [*found, RANKING] if any(len(run.curve(RANKING)[0]) for run in runs) else found


def is_share(column: str) -> bool:
    """Whether a column is a share of episodes, which compares over tasks."""
    return column.startswith("evaluation_success")


def column_data(column: str) -> dict[str, Any]:
    """How a column is called and shown."""
    name = column.removeprefix("evaluation_").replace("_", " ")
    return {"name": column, "title": _TITLES.get(column, name), "percent": is_share(column)}


def curve_data(runs: Sequence[RunRecord], groups: Sequence[Group], labels: Sequence[str]) -> list[dict[str, Any]]:
    """Pooled curves of every group, column and label, with what they need to be found: numbers `t`, `c`, `l`."""
    columns = columns_of(runs)
    wanted = [
        (t, c, label, members)
        for t, group in enumerate(groups)
        for c, column in enumerate(columns)
        if is_share(column) or not group.pooled  # other measures have another scale in every task
        for label, members in _by_label(runs, group, column, labels)
    ]
    points = min(MOST_POINTS, max(FEWEST_POINTS, CURVE_BUDGET // max(1, len(wanted))))
    return [
        {"t": t, "c": c, "l": label, **curve}
        for t, c, label, members in wanted
        for curve in _curves(members, columns[c], points)
    ]


def _by_label(
    runs: Sequence[RunRecord], group: Group, column: str, labels: Sequence[str]
) -> Iterator[tuple[int, list[RunRecord]]]:
    for number, label in enumerate(labels):
        members = [run for run in runs if run.label == label and run.task in group.tasks and len(run.curve(column)[0])]
        if members:
            yield number, members


def _curves(runs: Sequence[RunRecord], column: str, points: int) -> Iterator[dict[str, Any]]:
    """One entry for steps, with episodes beside them where these follow from steps; one for each other axis."""
    steps = _pooled(runs, column, "env_steps", points)
    axes = {"env_steps": numbers(steps["iqm"].x, 9)}
    if (episodes := _episodes_at(runs, steps["iqm"].x)) is not None:
        axes["episodes"] = numbers(episodes, 9)
    yield {"x": axes, **_values(steps)}
    others: list[Axis] = ["minutes"] if all("wall_time" in run.columns for run in runs) else []
    if episodes is None and all("episodes" in run.columns for run in runs):
        others.append("episodes")
    for axis in others:
        pooled = _pooled(runs, column, axis, points)
        yield {"x": {axis: numbers(pooled["iqm"].x, 6)}, **_values(pooled)}


def _pooled(runs: Sequence[RunRecord], column: str, axis: Axis, points: int) -> dict[str, Curve]:
    return {name: aggregate_curve(runs, column, axis, name, points=points) for name in STATISTICS}


def _values(pooled: dict[str, Curve]) -> dict[str, Any]:
    values: dict[str, Any] = {
        name: [numbers(part) for part in (curve.value, curve.low, curve.high)] for name, curve in pooled.items()
    }
    return {**values, "n": pooled["iqm"].runs_at_each_point.tolist()}


def _episodes_at(runs: Sequence[RunRecord], steps: Array) -> Array | None:
    """Episodes that had been played at some steps; None if that is not the same in all runs."""
    if any("episodes" not in run.columns for run in runs):
        return None
    longest = max(runs, key=lambda run: run.env_steps)
    for run in runs:
        known = np.interp(run.columns["env_steps"], longest.columns["env_steps"], longest.columns["episodes"])
        if not np.allclose(known, run.columns["episodes"], rtol=1e-6, atol=0.5):
            return None
    return np.interp(steps, longest.columns["env_steps"], longest.columns["episodes"])


def seed_data(runs: Sequence[RunRecord], groups: Sequence[Group], labels: Sequence[str]) -> list[dict[str, Any]]:
    """The single runs, thinned out; none if there are so many that little would be left of each."""
    points = min(MOST_POINTS, SEED_BUDGET // max(1, len(runs)))
    if points < FEWEST_SEED_POINTS:
        return []
    columns = columns_of(runs)
    where = {group.name: number for number, group in enumerate(groups)}
    return [
        {"t": where[run.task], "l": labels.index(run.label), "s": run.seed, **_single(run, columns, points)}
        for run in runs
    ]


def _single(run: RunRecord, columns: Sequence[str], points: int) -> dict[str, Any]:
    """One run: axes, and the values of each column by its number."""
    own = [name for name in columns if name in run.columns]
    measured = np.isfinite(np.stack([run.columns[name] for name in own])).any(axis=0)  # [rows]
    rows = np.flatnonzero(measured)
    rows = rows[thin(len(rows), points)]
    axes: dict[str, Any] = {
        name: numbers(run.columns[name][rows], 9) for name in ("env_steps", "episodes") if name in run.columns
    }
    if "wall_time" in run.columns:
        axes["minutes"] = numbers(run.columns["wall_time"][rows] / 60, 5)
    return {"x": axes, "y": {str(columns.index(name)): numbers(run.columns[name][rows]) for name in own}}


def numbers(values: Iterable[float], digits: int = 4) -> list[float | int | None]:
    """Plain numbers with a few significant digits; None where there is none."""
    return [_short(value, digits) for value in values]


def _short(value: float, digits: int) -> float | int | None:
    if not math.isfinite(value):
        return None
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded == int(rounded) else rounded
