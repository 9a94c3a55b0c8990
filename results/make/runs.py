"""A run read back from its folder, and what tables ask of it."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from top_erl.config.serialize import read_yaml
from top_erl.experiment.metrics_file import Row, read_metrics

SUCCESS = "evaluation_success"


@dataclass(frozen=True)
class Run:
    """What a run folder holds. `fresh`: each metric's value per episode on contexts that training never saw."""

    folder: Path
    config: dict[str, Any]
    fingerprint: dict[str, Any]
    rows: list[Row]
    fresh: dict[str, list[float]]

    @property
    def seed(self) -> int:
        """The run's seed."""
        return int(self.config["seed"])

    @property
    def method(self) -> str:
        """Name of the method."""
        return str(self.config["method"])

    @property
    def task(self) -> str:
        """Name of the task."""
        return str(self.config["task"])

    @property
    def iterations(self) -> int:
        """Iterations made."""
        return int(self.rows[-1]["iteration"])

    @property
    def env_steps(self) -> int:
        """Control steps of the environment."""
        return int(self.rows[-1]["env_steps"])

    @property
    def minutes(self) -> float:
        """Time of training, evaluations included."""
        return self.rows[-1]["wall_time"] / 60

    @property
    def iteration_seconds(self) -> float:
        """The time that a tenth of the iterations stayed below: what one takes when nothing disturbs it."""
        times = [row["wall_time"] for row in self.rows]
        return statistics.quantiles((after - before for before, after in pairwise(times)), n=10)[0]

    def fresh_mean(self, metric: str) -> float | None:
        """Mean of a metric on fresh contexts, if they were played."""
        return statistics.mean(self.fresh[metric]) if metric in self.fresh else None

    def evaluations(self, column: str = SUCCESS, until: float = float("inf")) -> list[Row]:
        """Rows in which a column was measured, up to a number of environment steps."""
        return [row for row in self.rows if column in row and row["env_steps"] <= until]

    def first(self, value: float, column: str = SUCCESS) -> Row | None:
        """The first evaluation of at least `value`."""
        return next((row for row in self.evaluations(column) if row[column] >= value), None)

    def minutes_to(self, value: float, column: str = SUCCESS) -> float | None:
        """Minutes until an evaluation first reached `value`."""
        row = self.first(value, column)
        return None if row is None else row["wall_time"] / 60

    def last(self, column: str = SUCCESS, until: float = float("inf")) -> float | None:
        """The last evaluation, or the last one up to a number of environment steps."""
        rows = self.evaluations(column, until)
        return rows[-1][column] if rows else None

    def best(self, column: str = SUCCESS) -> float | None:
        """The best evaluation."""
        return max((row[column] for row in self.evaluations(column)), default=None)

    def mean_over_steps(self, until: float, column: str = SUCCESS) -> float:
        """Area under the curve of a column over the steps it spans (trapezoids)."""
        points = [(row["env_steps"], row[column]) for row in self.evaluations(column, until)]
        area = sum((b - a) * (u + v) / 2 for (a, u), (b, v) in pairwise(points))
        return area / (points[-1][0] - points[0][0])


@cache
def read_run(folder: Path) -> Run:
    """Read a run folder."""
    evaluation = folder / "evaluation.json"
    fresh = json.loads(evaluation.read_text(encoding="utf-8")) if evaluation.exists() else {}
    return Run(
        folder,
        read_yaml(folder / "config.yaml"),
        json.loads((folder / "fingerprint.json").read_text(encoding="utf-8")),
        read_metrics(folder / "metrics.csv"),
        {name: values for name, values in fresh.items() if isinstance(values, list)},
    )


def read_runs(folder: Path, pattern: str = "**") -> list[Run]:
    """All runs below a folder that match a pattern, in the order of their names."""
    return [read_run(path.parent) for path in sorted(folder.glob(f"{pattern}/metrics.csv"))]
