"""All tasks of Meta-World with one preset and one seed: what they come to together, and their curves."""

from __future__ import annotations

import json
import statistics
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
PREFIX = "metaworld/"
LEARNED, MASTERED = 0.1, 0.9
"""Success on fresh contexts from which on a task counts as begun to be learned, and as mastered."""
BEHAVIOUR = "behaviour.json"
"""What the policy of a run does, as `python -m results.make.behaviour` has measured it."""

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
    success, ever = (np.array([run.fresh_mean(name) for run in runs], float) for name in ("success", "success_any"))
    mastered, begun = int((success >= MASTERED).sum()), int((success >= LEARNED).sum())
    header = (
        *("tasks trained", "success at the last step, mean", "IQM", "at any step, mean", "IQM"),
        *(f"mastered (at least {MASTERED})", f"between {LEARNED} and {MASTERED}", f"below {LEARNED}", "minutes in all"),
    )
    values = (number(float(value)) for rate in (success, ever) for value in (rate.mean(), interquartile_mean(rate)))
    row = (
        *(f"{len(runs)} of {TASKS}", *values),
        *(str(mastered), str(begun - mastered), str(len(runs) - begun)),
        number(sum(run.minutes for run in runs), 0),
    )
    return table(header, [row])


def campaign_groups(results: Path) -> str:
    """README: which tasks were learned, by success on fresh contexts."""
    bounds = (MASTERED, 0.5, LEARNED, 0.0)
    names = (f"at least {MASTERED}", f"0.5 to {MASTERED}", f"{LEARNED} to 0.5", f"below {LEARNED}")
    left, rows = campaign_runs(results), []
    for bound, name in zip(bounds, names, strict=True):
        group = [run for run in left if (run.fresh_mean("success") or 0.0) >= bound]
        left = [run for run in left if run not in group]
        if group:
            tasks = ", ".join(run.task.removeprefix(PREFIX).removesuffix("-v3") for run in group)
            minutes = statistics.median(run.minutes for run in group)
            rows.append((name, str(len(group)), tasks, number(minutes, 0)))
    return table(("success on 100 fresh contexts", "tasks", "which", "minutes, median"), rows)


def behaviours(results: Path) -> str:
    """The campaign's tasks that were not mastered, the worst last, and what their policies do."""
    runs = [run for run in campaign_runs(results) if (run.fresh_mean("success") or 0.0) < MASTERED]
    rows = [_row(run) for run in sorted(runs, key=lambda run: -(run.fresh_mean("success") or 0.0))]
    header = (
        *("task", "success on 100 fresh contexts", "at any step", "after 5 s", "hand at the object, at the end"),
        *("grasped at any step", "object to goal: at first, least, at the end", "critic's ranking"),
    )
    return table(header, rows)


def _row(run: Run) -> tuple[str, ...]:
    path = run.folder / BEHAVIOUR
    name = f"`{run.task.removeprefix(PREFIX)}`"
    successes = (number(run.fresh_mean("success")), number(run.fresh_mean("success_any")))
    if not path.exists():
        return (name, *successes, *(MISSING,) * 5)
    does = json.loads(path.read_text(encoding="utf-8"))
    way = ", ".join(number(does[f"distance_{when}"]) for when in ("first", "least", "last"))
    ranking = f"{number(does['ranking'])} ± {number(does['ranking_error'])}"
    shares = (number(does[share]) for share in ("success_tau", "near_last", "grasp_any"))
    return (name, *successes, *shares, f"{way} m", ranking)


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
