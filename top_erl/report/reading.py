"""Reading one run folder: quick, and with a reason where a folder cannot be used.

Axes: columns are `[rows]`, one entry per iteration.
"""

from __future__ import annotations

import csv
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from top_erl.experiment.enough import Enough

Array = NDArray[np.float64]

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # much quicker, where libyaml is there
_MARKS = ("config.yaml", "metrics.csv", "fingerprint.json")
"""Files that say that a folder is, or should be, a run."""


class UnusableRun(Exception):  # noqa: N818 - it names what was found
    """A folder that is left out, with the reason."""


@dataclass(frozen=True)
class RunFiles:
    """What a run folder holds, read and checked."""

    config: dict[str, Any]
    fingerprint: dict[str, Any]
    columns: dict[str, Array]
    """Each column of `metrics.csv`, `[rows]`; NaN where nothing was measured."""
    fresh: dict[str, list[float]]
    finished: bool


def looks_like_run(folder: Path) -> bool:
    """Whether a folder is meant to be a run, sound or not."""
    return any((folder / name).exists() for name in _MARKS)


def read_run_files(folder: Path) -> RunFiles:
    """Read a run folder; one that cannot be used raises `UnusableRun` with the reason."""
    try:
        config = _read_config(folder / "config.yaml")
        fingerprint = _read_json(folder / "fingerprint.json")
        columns = read_columns(folder / "metrics.csv")
        fresh = _read_fresh(folder / "evaluation.json")
        status = _status(folder / "status.json")
    except OSError as error:
        raise UnusableRun(f"it cannot be read ({error.strerror})") from None
    finished = status == "finished" if status else _has_ended(config, columns)
    return RunFiles(config, fingerprint, columns, fresh, finished)


def _has_ended(config: dict[str, Any], columns: dict[str, Array]) -> bool:
    """Whether a run's numbers say that it is over: its budget is used up, or it has learned and was to end then."""
    if columns["env_steps"][-1] >= config.get("total_env_steps", math.inf):
        return True
    evaluation = config.get("evaluation", {})
    threshold = evaluation.get("stop_at_success") if isinstance(evaluation, dict) else None
    success = columns.get("evaluation_success", np.array([]))
    enough = Enough(threshold)
    reached = [enough.reached({"evaluation_success": float(value)}) for value in success[~np.isnan(success)]]
    return bool(reached) and reached[-1]


def _status(path: Path) -> str:
    """What `status.json` says a run is doing; empty if there is none, as in older runs, or none that can be read."""
    try:
        return str(_read_json(path).get("state", ""))
    except UnusableRun:
        return ""  # the run's numbers do not depend on it


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UnusableRun(f"it has no {path.name}") from None
    except UnicodeDecodeError:
        raise UnusableRun(f"{path.name} is damaged (it is not UTF-8 text)") from None


def _read_config(path: Path) -> dict[str, Any]:
    """The configuration, which must say method, task and seed."""
    try:
        config = yaml.load(_text(path), Loader=_LOADER)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise UnusableRun("config.yaml is not valid YAML") from None
    if not isinstance(config, dict) or not all(isinstance(config.get(name), str) for name in ("method", "task")):
        raise UnusableRun("config.yaml does not say which method and task the run is of")
    if type(config.get("seed")) is not int:
        raise UnusableRun("config.yaml does not say the run's seed")
    if not isinstance(config.get("algorithm", {}), dict):
        raise UnusableRun("config.yaml: algorithm is not a mapping of settings")
    if not isinstance(config.get("total_env_steps", 1), (int, float)):
        raise UnusableRun("config.yaml: total_env_steps is not a number")
    return config


def _read_json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(_text(path))
    except (ValueError, RecursionError):
        raise UnusableRun(f"{path.name} is damaged (it is not valid JSON)") from None
    if not isinstance(data, dict):
        raise UnusableRun(f"{path.name} is damaged (it is not a mapping)")
    return data


def _read_fresh(path: Path) -> dict[str, list[float]]:
    """Outcomes per episode on fresh contexts; numbers that are none of an episode are left out."""
    if not path.exists():
        return {}
    lists = {name: values for name, values in _read_json(path).items() if isinstance(values, list) and values}
    if not all(_is_finite(value) for values in lists.values() for value in values):
        raise UnusableRun(f"{path.name} is damaged (it holds what is not a number)")
    for name, values in lists.items():
        if name.startswith("success") and not all(0.0 <= value <= 1.0 for value in values):
            raise UnusableRun(f"{path.name} is damaged ({name} is not between 0 and 1)")
    return {name: [float(value) for value in values] for name, values in lists.items()}


def _is_finite(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < math.inf


# ---------------------------------------------------------------------- metrics.csv


def read_columns(path: Path) -> dict[str, Array]:
    """Read a `metrics.csv` by columns, NaN where nothing was measured; a torn last line is ignored."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise UnusableRun("it has no metrics.csv") from None
    try:
        header, *lines = raw[: raw.rfind(b"\n") + 1].decode("utf-8").splitlines() or [""]
    except UnicodeDecodeError:
        raise UnusableRun("metrics.csv is damaged (it is not UTF-8 text)") from None
    names = next(csv.reader([header]), [])
    if not lines:
        raise UnusableRun("it has no numbers yet (metrics.csv has no rows)")
    if not {"iteration", "env_steps"} <= set(names) or len(set(names)) < len(names):
        raise UnusableRun("metrics.csv is damaged in line 1 (its header is not that of a run)")
    table = np.array([_numbers(line, len(names), number) for number, line in enumerate(lines, start=2)])
    columns = {name: np.ascontiguousarray(values) for name, values in zip(names, table.T, strict=True)}
    _check(columns)
    return columns


def _numbers(line: str, count: int, number: int) -> list[float]:
    """The cells of a line."""
    try:
        values = [float(cell) if cell else math.nan for cell in line.split(",")]
    except ValueError:
        values = []
    if len(values) != count:
        raise UnusableRun(f"metrics.csv is damaged in line {number}")
    return values


def _check(columns: dict[str, Array]) -> None:
    """Refuse counters that jump back and scores that cannot be."""
    for name in ("iteration", "env_steps", "episodes", "wall_time"):
        values = columns.get(name, np.zeros(1))
        falls = ~(np.diff(values, prepend=0.0) >= 0.0) | ~np.isfinite(values)  # NaN falls too
        if falls.any():
            raise UnusableRun(
                f"metrics.csv is damaged in line {int(falls.argmax()) + 2} ({name} is {values[falls.argmax()]:g})"
            )
    evaluations = {name: values for name, values in columns.items() if name.startswith("evaluation_")}
    if not evaluations:
        raise UnusableRun("metrics.csv has no column of an evaluation")
    if not any(np.isfinite(values).any() for values in evaluations.values()):
        raise UnusableRun("it has no evaluation yet")
    for name, values in evaluations.items():
        if name.startswith("evaluation_success"):
            outside = (values < 0.0) | (values > 1.0)
            if outside.any():
                raise UnusableRun(
                    f"metrics.csv is damaged in line {int(outside.argmax()) + 2} "
                    f"({name} is {values[outside.argmax()]:g}, not between 0 and 1)"
                )
