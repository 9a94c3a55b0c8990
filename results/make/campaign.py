"""All tasks of Meta-World with one preset and one seed: what they come to together, and their curves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from results.make.markdown import MISSING, number, table
from results.make.runs import Run, read_runs
from top_erl.report.figures.per_task import per_task
from top_erl.report.figures.profiles import profiles
from top_erl.report.records import RunRecord, collect
from top_erl.report.statistics import interquartile_mean

SEED = 5
"""The campaign's; other seeds in the same folder are of tuning, or of runs before it."""
TASKS = 50
LEARNED, MASTERED = 0.1, 0.9
"""Success on fresh contexts from which on a task counts as begun to be learned, and as mastered."""

CAMPAIGN_FIGURES: dict[str, Callable[[Sequence[RunRecord], Path], list[Path]]] = {
    "metaworld_tasks": per_task,
    "metaworld_profile": profiles,
}
"""Name of a figure and who draws it."""


def campaign_runs(results: Path) -> list[Run]:
    """The runs of the campaign that were scored on fresh contexts."""
    return [run for run in read_runs(results / "claims/metaworld") if run.seed == SEED and run.fresh]


def campaign_total(results: Path) -> str:
    """Mean and IQM over the tasks so far, and how many were mastered, begun, and not learned at all."""
    runs = campaign_runs(results)
    if not runs:
        return table(("tasks trained",), [(MISSING,)])
    success = np.array([run.fresh_mean("success") or 0.0 for run in runs])
    mastered, begun = int((success >= MASTERED).sum()), int((success >= LEARNED).sum())
    header = (
        *("tasks trained", "mean success", "IQM", f"mastered (at least {MASTERED})"),
        *(f"between {LEARNED} and {MASTERED}", f"below {LEARNED}", "minutes in all"),
    )
    row = (
        *(f"{len(runs)} of {TASKS}", number(float(success.mean())), number(float(interquartile_mean(success)))),
        *(str(mastered), str(begun - mastered), str(len(runs) - begun)),
        number(sum(run.minutes for run in runs), 0),
    )
    return table(header, [row])


def before_and_now(results: Path) -> str:
    """Tasks that were trained with the preset before and with that of today, with the same seed."""
    now = {run.task: run for run in campaign_runs(results)}
    rows = []
    for run in read_runs(results / "archive/metaworld_before"):
        if run.seed == SEED and run.task in now:
            here = now[run.task]
            values = (of.fresh_mean(metric) for metric in ("success", "success_any", "return") for of in (run, here))
            success, success_now, some, some_now, paid, paid_now = values
            row = (number(success), number(success_now), number(some), number(some_now))
            rows.append((f"`{run.task}`", *row, number(paid, 0), number(paid_now, 0)))
    header = ("task", "success before", "now", "at any step, before", "now", "return before", "now")
    return table(header, rows)


def draw_campaign(results: Path, folder: Path) -> list[Path]:
    """The grid of curves and the profile of successes, as PNG."""
    runs = [run for run in collect([results / "claims/metaworld"]).runs if run.seed == SEED]
    if not runs:
        return []
    drawn = [path for name, draw in CAMPAIGN_FIGURES.items() for path in draw(runs, folder / name)]
    for path in drawn:
        if path.suffix == ".pdf":
            path.unlink()  # vectors of the same picture
    return [path for path in drawn if path.exists()]
