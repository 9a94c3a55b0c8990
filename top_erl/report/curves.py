"""Learning curves of runs, read from their folders."""

from __future__ import annotations

import importlib.util
import io
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from top_erl.config.files import write_whole
from top_erl.config.serialize import read_yaml
from top_erl.errors import UserError, missing_extra
from top_erl.experiment.metrics_file import Row, read_metrics
from top_erl.report.reading import UnusableRun

Array = NDArray[np.float64]

_PANELS = {
    "evaluation_success": "success rate (evaluation)",
    "evaluation_return": "return (evaluation)",
    "critic_loss": "critic loss",
    "entropy": "policy entropy",
}
_COMPARED = ("evaluation_success", "evaluation_return")
"""Columns that mean the same for all methods; their losses do not compare."""
_NO_SETTING = ("seed", "total_env_steps", "checkpoint", "log", "hardware")
"""Parts of a configuration that do not make it another setting."""
_STYLE = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "font.size": 10,
}
COLORS = ("#2563eb", "#d9480f", "#2b8a3e", "#862e9c", "#c2255c", "#0b7285", "#5c940d", "#495057")


@dataclass(frozen=True)
class RunGroup:
    """Runs that differ in their seed only."""

    label: str
    """Of their curve, with the number of seeds."""
    method: str
    task: str
    runs: list[list[Row]]

    @property
    def setting(self) -> str:
        """Their method and, where there are several of it, which one; the same on all tasks."""
        return self.label.rpartition(" (")[0]


def plotting_available() -> bool:
    """Whether the package that draws is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def plot_runs(
    folders: Sequence[Path],
    output: Path,
    panels: Mapping[str, str] | None = None,
    colors: Mapping[str, str] | None = None,
) -> dict[Path, str]:
    """Draw columns against environment steps, a row of panels per task.

    Args:
        folders: Run folders.
        output: The picture; its ending says the format.
        panels: Columns and their titles; success, return, critic loss and entropy if not given.
        colors: Colours of methods, for several figures with the same methods.

    Returns:
        Runs that were left out, each with the reason.
    """
    if not plotting_available():
        raise missing_extra("matplotlib", "report", "Plotting")
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    groups, skipped = group_runs(folders)
    if not groups:
        raise UserError("There is nothing to draw. " + " ".join(f"{path} {why}." for path, why in skipped.items()))
    rows = {task: [group for group in groups if group.task == task] for task in dict.fromkeys(g.task for g in groups)}
    drawn = _measured(groups, panels or _PANELS)
    with plt.rc_context(_STYLE):
        figure = plt.figure(figsize=(4.0 * len(drawn), sum(map(_height, rows.values()))), layout="constrained")
        parts = figure.subfigures(len(rows), 1, squeeze=False, height_ratios=[_height(row) for row in rows.values()])
        for part, (task, row) in zip(parts[:, 0], rows.items(), strict=True):
            _draw_task(part, task, row, drawn, _colors(groups, colors or {}))
        figure.supxlabel(_caption(groups), fontsize=8, color="#495057")
        try:
            picture = io.BytesIO()
            figure.savefig(picture, format=output.suffix[1:] or "png", dpi=150)
            write_whole(output, picture.getvalue())
        except (OSError, ValueError) as error:
            raise UserError(f"Cannot write {output}: {error}") from None
        finally:
            plt.close(figure)
    return skipped


def _height(groups: Sequence[RunGroup]) -> float:
    """Inches of a task's row: its panels, and a line of the legend for every third curve."""
    return 3.5 + 0.2 * ((len(groups) - 1) // 3)


def _caption(groups: Sequence[RunGroup]) -> str:
    """What line, shading and dashes are; empty if every curve is of one run."""
    if all(len(group.runs) == 1 for group in groups):
        return ""
    return (
        "line: mean of the seeds · shading: from the lowest to the highest · dashes: single seeds, after others ended"
    )


def _colors(groups: Sequence[RunGroup], of_methods: Mapping[str, str]) -> dict[str, str]:
    """A colour per setting, the same for all tasks."""
    settings = dict.fromkeys(group.setting for group in groups)
    chosen = dict(zip(settings, COLORS * len(settings), strict=False))
    return {group.setting: of_methods.get(group.method, chosen[group.setting]) for group in groups}


def _draw_task(
    part: Any, task: str, groups: Sequence[RunGroup], panels: Mapping[str, str], colors: Mapping[str, str]
) -> None:
    """The panels of one task, with its name above and its curves' names below, where they cover nothing."""
    axes = part.subplots(1, len(panels), squeeze=False)[0]
    names: dict[str, Any] = {}
    for axis, (column, title) in zip(axes, panels.items(), strict=True):
        for group in groups:
            _draw(axis, group, column, colors[group.setting])
        handles, labels = axis.get_legend_handles_labels()
        names |= dict(zip(labels, handles, strict=True))
        _finish(axis, column, title)
        if not labels:
            axis.set_visible(False)  # this task does not measure it
    part.suptitle(task, fontsize=11, x=0.01, ha="left", weight="bold")
    columns = max(1, min(len(names), 3 if len(panels) > 1 else 1))
    part.legend(names.values(), names, frameon=False, fontsize=9, loc="outside lower center", ncols=columns)


def _measured(groups: Sequence[RunGroup], panels: Mapping[str, str]) -> dict[str, str]:
    """The panels that have something to show; of several methods only what compares."""
    if len({group.method for group in groups}) > 1:
        panels = {column: title for column, title in panels.items() if column in _COMPARED}
    columns = {column for group in groups for run in group.runs for row in run for column in row}
    if not columns & panels.keys():
        raise UserError(f"There is nothing to draw: no run has measured {' or '.join(panels)} yet.")
    return {column: title for column, title in panels.items() if column in columns}


def group_runs(folders: Sequence[Path]) -> tuple[list[RunGroup], dict[Path, str]]:
    """Read the runs and put those together that differ in nothing that matters but their seed.

    A run that is named twice counts once. Those that cannot be drawn are returned with the reason.
    """
    groups: dict[str, RunGroup] = {}
    skipped: dict[Path, str] = {}
    labels: dict[tuple[str, str], str] = {}
    for folder in {os.path.realpath(folder): folder for folder in folders}.values():
        try:
            config, rows = _read(folder)
        except UnusableRun as error:
            skipped[folder] = str(error)
            continue
        method, task = str(config["method"]), str(config["task"])
        setting = {name: value for name, value in config.items() if name not in (*_NO_SETTING, "task")}
        key = json.dumps([task, setting], sort_keys=True, default=str)
        taken = labels.setdefault((task, method), key) != key  # another setting of the same task and method
        group = RunGroup(f"{method} · {folder.name}" if taken else method, method, task, [])
        groups.setdefault(key, group).runs.append(rows)
    return [replace(group, label=f"{group.label} ({_seeds(len(group.runs))})") for group in groups.values()], skipped


def _read(folder: Path) -> tuple[dict[str, Any], list[Row]]:
    """The configuration and the numbers of a run; `UnusableRun` says why there are none."""
    try:
        if not (folder / "config.yaml").is_file():
            raise UnusableRun("is not a run folder (it has no config.yaml)")
        path = folder / "metrics.csv"
        rows = read_metrics(path) if path.is_file() else []
        config = read_yaml(folder / "config.yaml")
    except UserError as error:
        raise UnusableRun(f"cannot be read: {str(error).rstrip('.')}") from None
    except OSError as error:
        raise UnusableRun(f"cannot be read ({error.strerror})") from None
    if not rows:
        raise UnusableRun("has no numbers yet (metrics.csv is missing or empty)")
    if not isinstance(config, dict) or not {"method", "task"} <= config.keys():
        raise UnusableRun("has a config.yaml that does not say which method and task the run is of")
    return config, rows


def curve(run: Sequence[Row], column: str) -> tuple[Array, Array]:
    """Environment steps and values of a column, where it was measured and finite."""
    points = [(row["env_steps"], row[column]) for row in run if math.isfinite(row.get(column, math.nan))]
    steps, values = np.array(points, dtype=np.float64).reshape(-1, 2).T
    return steps, values


def _draw(axis: Any, group: RunGroup, column: str, color: str) -> None:
    """One curve, or the mean of several with their range; where some have ended, the others one by one."""
    curves = [curve(run, column) for run in group.runs]
    curves = [(steps, values) for steps, values in curves if len(steps)]
    if not curves:
        return
    grid = max((steps for steps, _ in curves), key=len)
    table = np.stack([np.interp(grid, steps, values, right=np.nan) for steps, values in curves])  # [runs, points]
    marker = "o" if len(grid) < 60 else None
    axis.plot(grid / 1000, table.mean(axis=0), color=color, lw=2.0, marker=marker, ms=2.5, label=group.label)
    if len(curves) > 1:
        axis.fill_between(grid / 1000, table.min(axis=0), table.max(axis=0), color=color, alpha=0.18, lw=0)
        ended = np.isnan(table.mean(axis=0))  # a mean of fewer runs would jump
        ended[:-1] |= ended[1:]  # begin where the mean ends
        for values in table:
            axis.plot(grid / 1000, np.where(ended, values, np.nan), color=color, lw=0.8, ls="--")


def _finish(axis: Any, column: str, title: str) -> None:
    axis.set_title(title, fontsize=11, loc="left")
    axis.set_xlabel("environment steps (thousands)")
    axis.set_xlim(left=0)
    if column == "evaluation_success":
        axis.set_ylim(-0.02, 1.02)
    if column == "critic_loss":
        axis.set_yscale("log")


def _seeds(count: int) -> str:
    return "1 seed" if count == 1 else f"{count} seeds"
