"""Tables of plans: several an episode beside one, and beside methods that act at every step."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from pathlib import Path

from results.make.learning import steps
from results.make.markdown import MISSING, number, several, table
from results.make.runs import Run, read_runs

_ORDER = ("every", "one", "sac", "ppo")
"""Beginnings of the folders' names, in the order of the rows."""


def setting(run: Run) -> str:
    """The method, or how often it plans."""
    if run.method != "top_erl":
        return f"`{run.method}`"
    every = run.config["algorithm"]["plan"]["every"]
    return f"`--plan.every {every}`" if every else "one plan"


def plans(results: Path) -> str:
    """The arm whose goal jumps, a row per setting."""
    runs = sorted(read_runs(results / "claims/plans"), key=_place)
    rows = [_row(name, list(group), wanted=0.8) for name, group in groupby(runs, key=setting)]
    header = ("", "seeds", "success on 100 fresh contexts", "minutes", "minutes to 0.8", "control steps at most")
    return table(header, rows)


def plans_metaworld(results: Path) -> str:
    """Meta-World tasks with several plans an episode and with one, a row per task and setting."""
    apart = read_runs(results / "claims/plans_metaworld")
    tasks = sorted({run.task for run in apart})
    campaign = [run for run in read_runs(results / "claims/metaworld") if run.task in tasks]
    rows = []
    for task in tasks:
        runs = sorted(
            (run for run in (*apart, *campaign) if run.task == task), key=lambda run: (setting(run), run.seed)
        )
        for name, group in groupby(runs, key=setting):
            rows.append((f"`{task}`", *_row(name, list(group), wanted=0.9)))
    header = (
        "task",
        "",
        "seeds",
        "success on 100 fresh contexts",
        "minutes",
        "minutes to 0.9",
        "control steps at most",
    )
    return table(header, rows)


def equal_minutes(results: Path) -> str:
    """The last evaluation of each method within the minutes that the run with plans and the same seed took."""
    runs = sorted(read_runs(results / "claims/plans"), key=_place)
    given = {run.seed: run.minutes for run in runs if setting(run).startswith("`--plan")}
    rows = []
    for name, group in groupby(runs, key=setting):
        known = [run for run in group if run.seed in given]
        found = [_within(run, given[run.seed]) for run in known]
        seeds = ", ".join(str(run.seed) for run in known)
        rows.append(
            (name, seeds, several(success for success, _ in found), ", ".join(steps(count) for _, count in found))
        )
    return table(("", "seeds", "success of the last evaluation within these minutes", "control steps until then"), rows)


def _within(run: Run, minutes: float) -> tuple[float | None, float]:
    """Success of the last evaluation within some minutes, and the control steps made until then."""
    rows = [row for row in run.evaluations() if row["wall_time"] <= 60 * minutes]
    return (rows[-1]["evaluation_success"], rows[-1]["env_steps"]) if rows else (None, 0.0)


def _place(run: Run) -> tuple[int, str, int]:
    """Where a run stands; folders of other names come last."""
    places = [number for number, name in enumerate(_ORDER) if run.folder.name.startswith(name)]
    return (*places, len(_ORDER))[0], setting(run), run.seed


def _row(name: str, runs: list[Run], wanted: float) -> tuple[str, ...]:
    reached = [run.minutes_to(wanted) for run in runs]
    return (
        name,
        ", ".join(str(run.seed) for run in runs),
        several(run.fresh_mean("success") for run in runs),
        several((run.minutes for run in runs), 1),
        ", ".join(MISSING if minutes is None else number(minutes, 1) for minutes in reached),
        steps(max(run.env_steps for run in runs)),
    )


PLANS: dict[str, Callable[[Path], str]] = {
    "plans": plans,
    "plans_metaworld": plans_metaworld,
    "plans_minutes": equal_minutes,
}
