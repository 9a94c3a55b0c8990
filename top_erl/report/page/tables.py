"""Tables of the page that say where numbers come from: runs, settings, tasks, machines, and what was left out."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from top_erl.experiment.lock import is_locked
from top_erl.experiment.status_file import read_status
from top_erl.report.page.curves import column_data, columns_of, is_share
from top_erl.report.records import Excluded, RunRecord
from top_erl.report.settings import MISSING, flat, shown
from top_erl.report.variants import flat_settings

_OF_A_TASK = ("task_version", "horizon", "success_rule")
_NO_ORIGIN = ("created", "seed", "task", *_OF_A_TASK)
_MANY_VALUES = 3
TableData = dict[str, Any]


def state_of(run: RunRecord) -> str:
    """What a run is doing, in a word; one whose process has died says that it is running, but holds no lock."""
    if is_locked(run.folder):
        return "running"
    if run.finished:
        return "finished"
    status = read_status(run.folder)
    if status is None:  # as in older runs
        return "unfinished"
    return "stopped" if status.state == "running" else status.state


def number_cell(value: float | None, percent: bool = False) -> dict[str, Any] | None:
    """A number with how it is written."""
    if value is None or value != value:
        return None
    if percent:
        return {"v": value, "t": f"{100 * value:.1f}%"}
    return {"v": value, "t": f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"}


def runs_table(runs: Sequence[RunRecord], names: Mapping[str, str], base: Path) -> TableData:
    """Every run that was used; `names` says what labels are called on the page."""
    columns = [name for name in columns_of(runs) if is_share(name) or name == "evaluation_return"]
    titles = [column_data(name)["title"] for name in columns]
    fresh = any("success" in run.fresh for run in runs)
    rows = []
    order = list(names)
    for run in sorted(runs, key=lambda run: (order.index(run.label), run.task, run.seed)):
        scores = [number_cell(run.last(name), is_share(name)) for name in columns]
        if fresh:
            episodes = run.fresh.get("success")
            scores.append(number_cell(sum(episodes) / len(episodes), True) if episodes else None)
        ends = [number_cell(float(run.env_steps)), number_cell(run.minutes)]
        rows.append([names[run.label], run.task, run.seed, state_of(run), *scores, *ends, _path(run.folder, base)])
    headers = ["method", "task", "seed", "state", *titles, *(["success, fresh contexts"] if fresh else [])]
    return {
        **{"id": "runs", "title": "Runs", "headers": [*headers, "steps", "minutes", "folder"], "rows": rows},
        "note": "Every run of this report, with its last evaluation.",
    }


def settings_table(runs: Sequence[RunRecord], names: Mapping[str, str]) -> TableData | None:
    """Settings that are not the same for all labels."""
    tables = {label: _settings([run for run in runs if run.label == label]) for label in names}
    rows = []
    for entry in dict.fromkeys(entry for table in tables.values() for entry in table):
        values = [table.get(entry, [MISSING]) for table in tables.values()]
        if any(each != values[0] or len(each) > 1 for each in values):
            rows.append([entry, *map(_listed, values)])
    if not rows:
        return None
    return {
        **{"id": "settings", "title": "How configurations differ", "short": "Settings"},
        **{"headers": ["setting", *names.values()], "rows": rows},
        "note": "Settings that are not the same everywhere; several values where they differ from task to task.",
    }


def _settings(runs: Sequence[RunRecord]) -> dict[str, list[str]]:
    """Each setting with its different values over some runs."""
    values: dict[str, set[str]] = {}
    for run in runs:
        for entry, value in flat_settings(run.config).items():
            values.setdefault(entry, set()).add(value)
    return {entry: sorted(found) for entry, found in values.items()}


def _listed(values: Sequence[str]) -> str:
    different = sorted(set(values))
    more = ", …" if len(different) > _MANY_VALUES else ""
    return ", ".join(different[:_MANY_VALUES]) + more


def tasks_table(runs: Sequence[RunRecord]) -> TableData:
    """What each task is: version, length, and when it counts as solved."""
    rows = []
    for task in dict.fromkeys(run.task for run in runs):
        prints = [run.fingerprint for run in runs if run.task == task]
        rows.append([task, *(_listed([shown(each[name]) for each in prints if name in each]) for name in _OF_A_TASK)])
    headers = ["task", "version", "steps per episode", "counts as solved if"]
    return {"id": "tasks", "title": "Tasks", "headers": headers, "rows": rows, "note": ""}


def origins_table(runs: Sequence[RunRecord]) -> TableData:
    """Versions and machines, each with the number of runs."""
    counts: dict[str, Counter[str]] = {}
    for run in runs:
        kept: Mapping[str, Any] = {name: value for name, value in run.fingerprint.items() if name not in _NO_ORIGIN}
        for entry, value in flat(kept).items():
            counts.setdefault(entry, Counter())[shown(value)] += 1
    rows = [[entry, value, count] for entry, found in counts.items() for value, count in found.most_common()]
    return {
        **{
            "id": "origins",
            "title": "Versions and machines",
            "short": "Versions",
            "headers": ["what", "value", "runs"],
        },
        **{"rows": rows, "note": "From the runs' fingerprints."},
    }


def excluded_table(excluded: Sequence[Excluded], base: Path) -> TableData | None:
    """What was left out, and why."""
    if not excluded:
        return None
    rows = [[_path(entry.folder, base), entry.reason] for entry in excluded]
    return {
        **{"id": "excluded", "title": "Failed and left out", "short": "Left out", "headers": ["folder", "reason"]},
        **{"rows": rows, "note": "These are in no curve and in no table above."},
    }


def _path(folder: Path, base: Path) -> str:
    """A folder as it is seen from where the runs lie."""
    relative = os.path.relpath(folder.resolve(), base.resolve())
    return folder.name if relative == "." else relative
