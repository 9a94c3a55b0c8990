"""The report page from runs: its data put together, and written into a folder that may be written to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from top_erl.config.files import refuse_link, write_whole
from top_erl.errors import UserError
from top_erl.report.page.curves import column_data, columns_of, curve_data, groups_of, seed_data
from top_erl.report.page.html import MARK, page_html
from top_erl.report.page.pictures import Figure, figure_data, film_data
from top_erl.report.page.scores import score_tables
from top_erl.report.page.styles import label_styles
from top_erl.report.page.tables import excluded_table, origins_table, runs_table, settings_table, state_of, tasks_table
from top_erl.report.records import Collection, RunRecord

FIGURES = "figures"
"""Folder beside the page for the figures' files."""


@dataclass(frozen=True)
class Page:
    """What goes into a page beside the runs."""

    title: str
    base: Path
    """The folder from which paths are shown."""
    figures: Sequence[Figure] = ()
    live: float = 0.0
    """Seconds after which the page loads itself again; 0: never."""


def check_output(output: Path) -> None:
    """Refuse a folder that holds what this command did not write."""
    page = output / "index.html"
    refuse_link(output / FIGURES)
    if output.exists() and not output.is_dir():
        raise UserError(f"{output} is a file: name a folder for the report with -o.")
    if page.exists():
        if not is_report(output):
            raise UserError(f"{page} was not written by top-erl report: name another folder with -o.")
    elif (output / FIGURES).exists():
        raise UserError(f"{output} has a folder {FIGURES} that is not a report's: name another folder with -o.")


def is_report(folder: Path) -> bool:
    """Whether a folder holds a page that this command has written."""
    try:
        with (folder / "index.html").open(encoding="utf-8", errors="replace") as file:
            return MARK in file.read(2000)
    except OSError:
        return False


def claim_output(output: Path) -> None:
    """Say that a folder is a report's before there is more in it, so that one that was cut short can be made again."""
    page = output / "index.html"
    if not page.exists():
        _write_text(page, f"<!DOCTYPE html>\n{MARK}\n<p>This report is being written.</p>\n")


def write_page(collection: Collection, output: Path, page: Page) -> Path:
    """Write `index.html`; an older one of ours is replaced as a whole."""
    path = output / "index.html"
    _write_text(path, page_html(page_data(collection, output, page)))
    return path


def _write_text(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror}.") from None


def page_data(collection: Collection, output: Path, page: Page) -> dict[str, Any]:
    """Everything the page shows, as plain data."""
    runs = collection.runs
    styles = label_styles(runs)
    labels, names = list(styles), {label: style["name"] for label, style in styles.items()}
    groups = groups_of(list(dict.fromkeys(run.task for run in runs)))
    where = {group.name: number for number, group in enumerate(groups)}
    details = [
        excluded_table(collection.excluded, page.base),
        runs_table(runs, names, page.base) if runs else None,
        settings_table(runs, names),
        tasks_table(runs) if runs else None,
        origins_table(runs) if runs else None,
    ]
    return {
        **{"title": page.title, "subtitle": _subtitle(runs, labels), "badges": _badges(collection, page.live)},
        **{"footer": _footer(), "live": page.live, "notes": collection.notes},
        "labels": list(styles.values()),
        "groups": [
            {"name": group.name, "members": [where[task] for task in group.tasks] if group.pooled else []}
            for group in groups
        ],
        "columns": [column_data(name) for name in columns_of(runs)],
        "curves": curve_data(runs, groups, labels),
        "seeds": seed_data(runs, groups, labels),
        "tables": score_tables(runs, names) if runs else [],
        "details": [table for table in details if table is not None],
        "figures": figure_data(page.figures, output),
        "films": film_data(runs, output),
    }


def _subtitle(runs: Sequence[RunRecord], labels: Sequence[str]) -> str:
    if not runs:
        return "No run can be shown yet."
    parts = [
        _count(len(runs), "run"),
        _count(len(labels), "method"),
        _count(len({run.task for run in runs}), "task"),
        _count(len({run.seed for run in runs}), "seed"),
    ]
    return " · ".join(parts)


def _badges(collection: Collection, live: float) -> list[dict[str, str]]:
    """How many runs are in which state."""
    states = [state_of(run) for run in collection.runs]
    kinds = {"finished": "good", "running": "live warn", "failed": "bad"}
    found = [
        {"text": f"{states.count(state)} {state}", "kind": kinds.get(state, "warn")} for state in dict.fromkeys(states)
    ]
    if collection.excluded:
        found.append({"text": f"{len(collection.excluded)} failed or left out", "kind": "bad"})
    if live:
        found.append({"text": f"renewed every {live:g} s", "kind": "live good"})
    return found


def _footer() -> str:
    now = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
    return f"Written by top-erl report {version('top-erl')} on {now}."


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"
