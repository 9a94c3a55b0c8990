"""A run read back from its folder, and what tables ask of it."""

from __future__ import annotations

import statistics
from functools import cache
from itertools import pairwise
from pathlib import Path

from top_erl.errors import UserError
from top_erl.experiment.metrics_file import Row
from top_erl.report.reading import UnusableRun, read_run_files
from top_erl.report.records import SUCCESS, RunRecord


class Run(RunRecord):
    """A run with what the tables of `results/` ask beside."""

    @property
    def iterations(self) -> int:
        """Iterations made."""
        return int(self.rows[-1]["iteration"])

    @property
    def iteration_seconds(self) -> float:
        """The time that a tenth of the iterations stayed below: what one takes when nothing disturbs it."""
        times = [row["wall_time"] for row in self.rows]
        return statistics.quantiles((after - before for before, after in pairwise(times)), n=10)[0]

    @property
    def gradient_steps(self) -> float:
        """Gradient steps per 1000 control steps, as configured: of critic and policy, where these are trained apart."""
        collect, learn = self.config["algorithm"]["collect"], self.config["algorithm"]["learn"]
        if "update_every" in learn:  # SAC and PINK
            return 1000 * learn["gradient_steps"] / learn["update_every"]
        if "episodes" not in collect:  # PPO, gSDE and GTrXL: passes over the steps of an iteration
            return 1000 * learn["epochs"] / learn["batch_size"]
        kind = "epochs" if "critic_epochs" in learn else "steps"
        steps = learn[f"critic_{kind}"] + learn[f"policy_{kind}"]
        first, last = self.rows[0], self.rows[-1]
        collected = (last["env_steps"] - first["env_steps"]) / (last["iteration"] - first["iteration"])
        return float(1000 * steps / collected)

    def fresh_mean(self, metric: str) -> float | None:
        """Mean of a metric on fresh contexts, if they were played."""
        return statistics.mean(self.fresh[metric]) if metric in self.fresh else None

    def evaluations(self, column: str = SUCCESS, until: float = float("inf")) -> list[Row]:
        """Rows in which a column was measured, up to a number of environment steps."""
        return [row for row in self.rows if column in row and row["env_steps"] <= until]

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
    try:
        files = read_run_files(folder)
    except UnusableRun as unusable:
        raise UserError(f"{folder} is not a run that tables can be made of: {unusable}.") from None
    what = files.config["method"], files.config["task"], files.config["seed"]
    return Run(folder, *what, variant="", **vars(files))


def read_runs(folder: Path, pattern: str = "**") -> list[Run]:
    """All runs below a folder that match a pattern, in the order of their names."""
    return [read_run(path.parent) for path in sorted(folder.glob(f"{pattern}/metrics.csv"))]
