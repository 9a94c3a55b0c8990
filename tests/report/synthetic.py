"""Run folders with invented learning curves, in the form a training leaves them: for tests and for looking.

`python -m tests.report.synthetic FOLDER` writes the paper's comparison: eight methods, 50 + 3 tasks, three seeds.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from top_erl.experiment.status_file import RunStatus, State

METHODS = ("top_erl", "tce", "bbrl_cov", "ppo", "gtrxl", "gsde", "sac", "pink")
SKILL = {"top_erl": 1.0, "tce": 0.72, "bbrl_cov": 0.6, "bbrl_std": 0.5, "gsde": 0.5, "ppo": 0.45, "gtrxl": 0.4}
"""How far and how quickly a method learns; 0.3 for one that is not named."""
HORIZON = {"metaworld": 500, "hopper": 250, "box": 100}
BOX_DENSE, BOX_SPARSE = "top_erl/BoxPushingDense-v0", "top_erl/BoxPushingSparse-v0"
HOPPER, REACHER = "top_erl/HopperJump-v0", "top_erl/ViaPointReacher-v0"


@dataclass(frozen=True)
class Invented:
    """One run to invent."""

    method: str = "top_erl"
    task: str = BOX_DENSE
    seed: int = 0
    rows: int = 60
    """Rows of metrics.csv that there are."""
    planned: int = 60
    """Rows that a finished run has."""
    every: int = 3
    """Iterations from one evaluation to the next."""
    skill: float | None = None
    """Success towards the end; the method's own if None."""
    seconds: float = 1.5
    """Seconds per iteration."""
    algorithm: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings that differ, as `{"learn": {"target": "q"}}`."""

    @property
    def name(self) -> str:
        """Of its folder; follows from method, task, seed and settings."""
        settings = [f"{key}-{value}" for part in self.algorithm.values() for key, value in part.items()]
        return "-".join([self.method, self.task.rpartition("/")[2], *settings, f"seed{self.seed}"])


def write_run(folder: Path, run: Invented) -> Path:
    """Write config.yaml, fingerprint.json, metrics.csv and status.json of a run into `folder / run.name`."""
    place = folder / run.name
    place.mkdir(parents=True)
    rows = _rows(run)
    algorithm = {"learn": {"target": "v", "ensemble_size": 2}, "segments": {"kind": "random", "count": 8}}
    for part, settings in run.algorithm.items():
        algorithm[part] = {**algorithm.get(part, {}), **settings}
    config = {
        **{"task": run.task, "method": run.method, "scale": "laptop", "seed": run.seed},
        **{"total_env_steps": run.planned * _steps(run), "evaluation": {"interval": run.every, "episodes": 20}},
        **{"hardware": {"device": "cpu", "threads": 1, "workers": 0}, "algorithm": algorithm},
    }
    (place / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    fingerprint = {
        **{"created": "2026-11-16T10:01:09+00:00", "seed": run.seed, "task": run.task, "task_version": "1"},
        **{"success_rule": f"After the last step of {run.task}.", "horizon": _horizon(run), "python": "3.11.7"},
        **{"packages": {"top-erl": "0.1.0", "torch": "2.13.0+cpu", "mujoco": "3.3.0"}, "hardware": {"threads": 1}},
    }
    (place / "fingerprint.json").write_text(json.dumps(fingerprint, indent=2))
    with (place / "metrics.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]) if rows else ["iteration", "env_steps"])
        writer.writeheader()
        writer.writerows(rows)
    state: State = "finished" if run.rows >= run.planned else "stopped"
    status = RunStatus(state, run.rows, run.planned, run.rows * run.seconds, updated="2026-11-16T11:01:09+00:00")
    (place / "status.json").write_text(json.dumps(asdict(status)))
    return place


def write_grid(
    folder: Path, methods: Sequence[str], tasks: Sequence[str], seeds: int, **settings: Any
) -> dict[str, Path]:
    """Write a run for every method, task and seed; `settings` are those of `Invented`."""
    runs = [Invented(method, task, seed, **settings) for method in methods for task in tasks for seed in range(seeds)]
    return {run.name: write_run(folder, run) for run in runs}


def _steps(run: Invented) -> int:
    """Environment steps per iteration: two episodes."""
    return 2 * _horizon(run)


def _horizon(run: Invented) -> int:
    return next((steps for word, steps in HORIZON.items() if word in run.task.lower()), 50)


def _rows(run: Invented) -> list[dict[str, Any]]:
    """A logistic curve whose height and middle follow from method, task and seed; noise on top."""
    skill = SKILL.get(run.method, 0.3) if run.skill is None else run.skill
    task = np.random.default_rng(list(run.task.encode()))
    easiness = task.uniform(-0.5, 0.6)
    rng = np.random.default_rng([run.seed, *run.method.encode(), *run.task.encode(), *run.name.encode()])
    top = float(np.clip(skill + easiness * (1.1 - skill) + rng.normal(0, 0.05), 0.0, 1.0))
    middle = (1.1 - 0.6 * skill - 0.3 * easiness) * run.planned * rng.uniform(0.35, 0.55)
    rows = []
    for iteration in range(1, run.rows + 1):
        success = top / (1 + np.exp(-(iteration - middle) / (0.06 * run.planned)))
        measured = iteration % run.every == 1 or run.every == 1 or iteration == run.planned
        row: dict[str, Any] = {"iteration": iteration, "episodes": 2 * iteration, "env_steps": iteration * _steps(run)}
        row["wall_time"] = round((iteration + rng.uniform(-0.01, 0.01)) * run.seconds + 3, 3)
        value = np.clip(round(20 * (success + rng.normal(0, 0.03))) / 20, 0, 1)
        row["evaluation_return"] = 100 * success - 90 if measured else ""
        if "Hopper" in run.task:
            row["evaluation_max_height"] = 1.45 + 0.6 * value if measured else ""
        else:
            row["evaluation_success"] = value if measured else ""
        rows.append({**row, "critic_loss": float(np.exp(-iteration / 20)), "entropy": 10 - iteration / 10})
    return rows


def main(folder: Path) -> None:
    """Write the paper's comparison, with invented numbers."""
    from top_erl.tasks.metaworld.facts import TASKS, task_id

    tasks = [*map(task_id, TASKS), HOPPER, BOX_DENSE, BOX_SPARSE]
    print(f"{len(write_grid(folder, METHODS, tasks, seeds=3))} runs in {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
