"""Two runs side by side: what differs in configuration, versions and numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from top_erl.errors import UserError
from top_erl.report.reading import looks_like_run
from top_erl.report.records import RunRecord, collect
from top_erl.report.settings import differing
from top_erl.report.summary import LEVELS

TIMES = ("wall_time", "steps_per_second")
"""Columns that tell how quick a machine was, and nothing of what was learned."""
Pair = tuple[float | None, float | None]


@dataclass(frozen=True)
class Difference:
    """How the numbers of two runs relate."""

    same_rows: int
    """Iterations, from the first, in which all common columns but times are the same to the last bit."""
    iteration: int | None
    """The first iteration that both have and that differs."""
    columns: tuple[str, ...]
    """Columns that differ there."""
    only_one: tuple[str, ...]
    """Columns that only one of the runs has."""
    rows: tuple[int, int]
    """Iterations of each run."""

    @property
    def same(self) -> bool:
        """Whether all numbers but times agree to the last bit."""
        return self.iteration is None and not self.only_one and self.rows[0] == self.rows[1]

    @property
    def sentence(self) -> str:
        """What there is to say, in a sentence or two."""
        if self.same:
            return f"The same numbers, bit by bit, in all {self.rows[0]} iterations (times aside)."
        said = []
        if self.iteration is not None:
            more = f" and {len(self.columns) - 4} more" if len(self.columns) > 4 else ""
            same = f"are the same for {self.same_rows} iterations and differ" if self.same_rows else "differ"
            said.append(f"They {same} from iteration {self.iteration} on: {', '.join(self.columns[:4])}{more}.")
        else:
            common = min(self.rows)
            said.append(f"The same numbers, bit by bit, in the first {common} iterations, which both have.")
        if self.rows[0] != self.rows[1]:
            said.append(f"A has {self.rows[0]} iterations, B {self.rows[1]}.")
        if self.only_one:
            said.append(f"Only one of the two has: {', '.join(self.only_one)}.")
        return " ".join(said)


@dataclass(frozen=True)
class Comparison:
    """What differs between two runs."""

    folders: tuple[Path, Path]
    settings: dict[str, tuple[str, str]]
    """Entries of the configurations that differ."""
    origins: dict[str, tuple[str, str]]
    """Entries of the fingerprints that differ: versions, machine, threads."""
    scores: dict[str, Pair]
    """Scores by name; None where there is none."""
    difference: Difference

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for a file."""
        difference = self.difference
        return {
            "runs": [str(folder) for folder in self.folders],
            "settings": {name: list(pair) for name, pair in self.settings.items()},
            "fingerprint": {name: list(pair) for name, pair in self.origins.items()},
            "scores": {name: list(pair) for name, pair in self.scores.items()},
            "same": difference.same,
            "first_different_iteration": difference.iteration,
            "different_columns": list(difference.columns),
            "columns_of_one": list(difference.only_one),
            "iterations": list(difference.rows),
            "sentence": difference.sentence,
        }


def compare_runs(first: Path, second: Path) -> Comparison:
    """Compare the runs of two folders."""
    a, b = _one_run(first), _one_run(second)
    return Comparison(
        folders=(first, second),
        settings=_pairs(a.config, b.config),
        origins=_pairs(_origin(a), _origin(b)),
        scores=_scores(a, b),
        difference=_difference(a, b),
    )


def _one_run(folder: Path) -> RunRecord:
    if not folder.is_dir():
        raise UserError(f"There is no folder {folder}.")
    if not looks_like_run(folder):
        raise UserError(f"{folder} is not a run folder: name a folder with a config.yaml and a metrics.csv.")
    found = collect([folder])
    if not found.runs:
        raise UserError(f"{folder} cannot be compared: {found.excluded[0].reason}.")
    return found.runs[0]


def _origin(run: RunRecord) -> dict[str, Any]:
    """The fingerprint without what the configuration says too, and without the date."""
    return {name: value for name, value in run.fingerprint.items() if name not in ("created", "seed", "task")}


def _pairs(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    return {name: (row["a"], row["b"]) for name, row in differing({"a": a, "b": b}).items()}


def _difference(a: RunRecord, b: RunRecord) -> Difference:
    """Compare the columns of metrics.csv row by row."""
    ours, theirs = set(a.columns) - set(TIMES), set(b.columns) - set(TIMES)
    names = [name for name in a.columns if name in ours & theirs]
    rows = len(a.columns["iteration"]), len(b.columns["iteration"])
    common = min(rows)
    unlike = np.stack(
        [_unlike(a.columns[name][:common], b.columns[name][:common]) for name in names]
    )  # [columns, rows]
    differs = unlike.any(axis=0)  # [columns, rows] to [rows]
    at = int(differs.argmax()) if differs.any() else None
    return Difference(
        same_rows=common if at is None else at,
        iteration=None if at is None else int(a.columns["iteration"][at]),
        columns=() if at is None else tuple(name for name, where in zip(names, unlike[:, at], strict=True) if where),
        only_one=tuple(sorted(ours ^ theirs)),
        rows=rows,
    )


def _unlike(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Where two columns differ; what neither has measured is the same. [rows]."""
    return (a != b) & ~(np.isnan(a) & np.isnan(b))


def _scores(a: RunRecord, b: RunRecord) -> dict[str, Pair]:
    """The numbers one looks at first."""
    tables = [_own_scores(run) for run in (a, b)]
    names = list(dict.fromkeys(name for table in tables for name in table))
    return {name: (tables[0].get(name), tables[1].get(name)) for name in names}


def _own_scores(run: RunRecord) -> dict[str, float | None]:
    found: dict[str, float | None] = {
        "iterations": float(run.columns["iteration"][-1]),
        "environment steps": float(run.env_steps),
        "minutes": run.minutes if math.isfinite(run.minutes) else None,
    }
    for column in (name for name in run.columns if name.startswith("evaluation_")):
        values = run.curve(column)[1]
        if not len(values):
            continue
        name = column.removeprefix("evaluation_")
        found[f"{name}, last evaluation"] = float(values[-1])
        if name == "return" or name.startswith("success"):  # of others it is not known whether more is better
            found[f"{name}, best evaluation"] = float(values.max())
    for metric, episodes in run.fresh.items():
        found[f"{metric}, fresh contexts"] = float(np.mean(episodes))
    for threshold in LEVELS if "evaluation_success" in run.columns else ():
        row = run.first(threshold)
        found[f"steps to {threshold:.0%} success"] = row["env_steps"] if row else None
        found[f"minutes to {threshold:.0%} success"] = row["wall_time"] / 60 if row and "wall_time" in row else None
    return found
