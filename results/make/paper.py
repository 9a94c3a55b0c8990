"""What the paper reports for TOP-ERL, and what was run here."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from results.make.campaign import TASKS, campaign_runs
from results.make.markdown import MISSING, number, table
from results.make.runs import Run, read_runs
from top_erl.report.statistics import interquartile_mean

PAPER = {
    "Meta-World, 50 tasks: success, IQM": ("0.98", "10 M"),
    "Hopper Jump: height": ("1.91 m", "1.2 M"),
    "Box Pushing, dense rewards: success, IQM": ("0.80", "10 M"),
    "Box Pushing, sparse rewards: success, IQM": ("0.70", "14 M"),
}
"""What is measured; the paper's value and after how many control steps, from its text (Hopper: read off its Fig. 4)."""


def paper_claims(results: Path) -> str:
    """A row per experiment of the paper; dashes where nothing was run here to its end."""
    claims, campaign = results / "claims", campaign_runs(results)
    ours = [
        _metaworld(campaign),
        _mean(read_runs(claims / "hopper_jump"), "max_height", " m"),
        _mean(read_runs(claims / "box_dense"), "success"),
        _mean(read_runs(claims / "box_sparse"), "success"),
    ]
    rows = [(what, *theirs, *here) for (what, theirs), here in zip(PAPER.items(), ours, strict=True)]
    return table(("", "paper", "steps", "here", "steps", "seeds", "minutes a run, at most"), rows)


def _metaworld(runs: list[Run]) -> tuple[str, ...]:
    if not runs:
        return (MISSING,) * 4
    success = np.array([run.fresh_mean("success") or 0.0 for run in runs])
    value = f"{len(runs)} of {TASKS} tasks so far"  # those that were trained first are no sample of all
    if len(runs) == TASKS:
        value = f"{number(float(interquartile_mean(success)))} (mean {number(float(success.mean()))})"
    return value, *_made(runs)


def _mean(runs: list[Run], metric: str, unit: str = "") -> tuple[str, ...]:
    if not runs:
        return (MISSING,) * 4
    mean = float(np.mean([run.fresh_mean(metric) or 0.0 for run in runs]))
    (task,) = {run.task for run in runs}  # another observation is another row
    return f"{number(mean)}{unit}{' (v1)' if task.endswith('-v1') else ''}", *_made(runs)


def _made(runs: list[Run]) -> tuple[str, str, str]:
    """Steps, seeds and minutes."""
    steps, seeds = max(run.env_steps for run in runs) / 1e6, sorted({run.seed for run in runs})
    return f"{steps:.2g} M", str(len(seeds)), number(max(run.minutes for run in runs), 0)
