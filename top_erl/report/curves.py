"""Learning curves of runs, read from their folders."""

from __future__ import annotations

import importlib.util
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from top_erl.config.serialize import read_yaml
from top_erl.errors import UserError, missing_extra
from top_erl.experiment.metrics_file import Row, read_metrics

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
COLORS = ("#2563eb", "#d9480f", "#2b8a3e", "#862e9c", "#c2255c", "#0b7285", "#5c940d", "#495057")


@dataclass(frozen=True)
class RunGroup:
    """Runs that differ in their seed only."""

    label: str
    method: str
    task: str
    runs: list[list[Row]]


def plotting_available() -> bool:
    """Whether the package that draws is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def plot_runs(
    folders: Sequence[Path],
    output: Path,
    panels: Mapping[str, str] | None = None,
    colors: Mapping[str, str] | None = None,
) -> None:
    """Draw columns against environment steps.

    Args:
        folders: Run folders.
        output: The picture; its ending says the format.
        panels: Columns and their titles; success, return, critic loss and entropy if not given.
        colors: Colours of methods, for several figures with the same methods.
    """
    if not plotting_available():
        raise missing_extra("matplotlib", "report", "Plotting")
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    groups = group_runs(folders)
    drawn = _measured(groups, panels or _PANELS)
    style = {
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.alpha": 0.25,
        "font.size": 10,
    }
    with plt.rc_context(style):
        figure, axes = plt.subplots(1, len(drawn), figsize=(4.0 * len(drawn), 3.3), squeeze=False)
        for axis, (column, title) in zip(axes[0], drawn.items(), strict=True):
            for group, color in zip(groups, COLORS * len(groups), strict=False):
                _draw(axis, group, column, (colors or {}).get(group.method, color))
            _finish(axis, column, title)
        _add_legend(figure, axes[0], {group.task for group in groups})
        try:
            figure.savefig(output, dpi=150)
        except (OSError, ValueError) as error:
            raise UserError(f"Cannot write {output}: {error}") from None
        finally:
            plt.close(figure)


def _measured(groups: Sequence[RunGroup], panels: Mapping[str, str]) -> dict[str, str]:
    """The panels that have something to show; of several methods only what compares."""
    if len({group.method for group in groups}) > 1:
        panels = {column: title for column, title in panels.items() if column in _COMPARED}
    columns = {column for group in groups for run in group.runs for row in run for column in row}
    if not columns & panels.keys():
        raise UserError(f"There is nothing to draw: no run has measured {' or '.join(panels)} yet.")
    return {column: title for column, title in panels.items() if column in columns}


def group_runs(folders: Sequence[Path]) -> list[RunGroup]:
    """Read the runs and put those together that differ in nothing that matters but their seed."""
    groups: dict[str, RunGroup] = {}
    for folder in folders:
        if not (folder / "config.yaml").is_file():
            raise UserError(f"{folder} is not a run folder (it has no config.yaml).")
        path = folder / "metrics.csv"
        rows = read_metrics(path) if path.exists() else []
        if not rows:
            raise UserError(f"{folder} has no numbers yet (metrics.csv is missing or empty).")
        config = read_yaml(folder / "config.yaml")
        if not isinstance(config, dict) or not {"method", "task"} <= config.keys():
            raise UserError(f"{folder / 'config.yaml'} does not say which method and task the run is of.")
        key = json.dumps({name: value for name, value in config.items() if name not in _NO_SETTING}, sort_keys=True)
        label = f"{config['method']} · {str(config['task']).rpartition('/')[2]}"
        if key not in groups and label in [group.label for group in groups.values()]:
            label = f"{label} · {folder.name}"  # another setting of the same task
        groups.setdefault(key, RunGroup(label, str(config["method"]), str(config["task"]), [])).runs.append(rows)
    return [replace(group, label=f"{group.label} ({_seeds(len(group.runs))})") for group in groups.values()]


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


def _add_legend(figure: Any, axes: Sequence[Any], tasks: set[str]) -> None:
    """Name the curves: in the first panel if there is one curve, else below all panels, where it covers nothing."""
    handles, labels = axes[0].get_legend_handles_labels()
    if len(labels) < 2:
        axes[0].legend(frameon=False, fontsize=9)
        figure.tight_layout()
        return
    if len(tasks) == 1:  # said once, above
        (task,) = tasks
        labels = [label.replace(f" · {task.rpartition('/')[2]}", "") for label in labels]
        figure.suptitle(task, fontsize=11, x=0.01, ha="left", weight="bold")
    width = 0.5 + 0.08 * max(map(len, labels))  # inches of the widest entry, about
    columns = max(1, min(len(labels), int(figure.get_figwidth() / width)))
    below = 0.1 + 0.2 * -(-len(labels) // columns)  # inches of the legend
    height = figure.get_figheight() + below
    figure.set_figheight(height)
    figure.legend(handles, labels, frameon=False, fontsize=9, loc="lower center", ncol=columns)
    figure.tight_layout(rect=(0, below / height, 1, 1))


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
