"""What to expect of the laptop presets: from the claims and sweeps, into the package."""

from __future__ import annotations

import json
import statistics
from itertools import groupby
from pathlib import Path

from results.make.runs import Run, read_runs
from results.make.sweeps import sweep_folders

CLAIMS = ("via_point_reacher", "metaworld", "hopper_jump", "box_dense", "box_sparse")
"""Folders of `claims/` with runs of TOP-ERL's laptop presets as they are."""
SWEEPS = ("metaworld50",)
"""Sweeps of the same."""
MEASURES = {"top_erl/HopperJumpSparse-v0": "max_height"}
"""What a task without success is judged by."""


def expected(results: Path) -> str:
    """The content of `expected.json`, an entry per task that was scored on fresh contexts."""
    folders = [results / "claims" / name for name in CLAIMS]
    folders += [folder for folder in sweep_folders(results) if folder.name in SWEEPS]
    runs = [run for folder in folders if folder.is_dir() for run in read_runs(folder)]
    scored = sorted((run for run in runs if run.method == "top_erl" and run.fresh), key=lambda run: run.task)
    return json.dumps({task: _entry(list(group)) for task, group in groupby(scored, lambda run: run.task)}, indent=1)


def _entry(runs: list[Run]) -> dict[str, object]:
    metric = MEASURES.get(runs[0].task, "success")
    return {
        "metric": metric,
        "value": round(statistics.mean(run.fresh_mean(metric) or 0.0 for run in runs), 3),
        "seeds": len(runs),
        "env_steps": int(max(run.env_steps for run in runs)),
        "minutes": round(max(run.minutes for run in runs), 1),
    }
