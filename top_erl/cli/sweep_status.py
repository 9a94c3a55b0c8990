"""The table of `top-erl status`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from top_erl.sweep.folder import CellReport, SweepFolder
from top_erl.sweep.schedule import describe

_STATES = ("finished", "running", "begun", "failed", "missing")
_COLORS = {"finished": "green", "running": "cyan", "begun": "yellow", "failed": "red", "missing": "dim"}
_MOST_FAILURES = 20
"""Sentences that are shown; `--all` shows the rest."""


def print_status(console: Console, folder: SweepFolder, *, every_run: bool) -> None:
    """Say how far a sweep is: numbers of runs, those that are running, those that failed."""
    reports = [folder.look(cell) for cell in folder.cells.values()]
    console.out(f"{folder.sweep.name}: {len(reports)} runs of {len(folder.sweep.tasks)} task(s), in {folder.path}")
    console.print(_counts(reports))
    chosen = reports if every_run else [each for each in reports if each.state == "running"]
    for report in chosen:
        words = ", ".join(filter(None, (describe(report), _left(report)))) or "starting" * (report.state == "running")
        console.print(
            f"[{_COLORS[report.state]}]{report.state:<8}[/] {escape(report.cell.name)}  {words}", highlight=False
        )
    failed = [report for report in reports if report.state == "failed"]
    for report in failed[: None if every_run else _MOST_FAILURES]:
        console.print(f"[red]failed[/]   {escape(report.cell.name)}: {escape(report.sentence)}", highlight=False)
    if len(failed) > _MOST_FAILURES and not every_run:
        console.print(f"… and {len(failed) - _MOST_FAILURES} more failed; --all shows them.", highlight=False)
    console.print(_summary(reports), highlight=False)


def _counts(reports: Sequence[CellReport]) -> Table:
    """Numbers of runs in each state, a row per method and variant."""
    table = Table("method", *_STATES, box=None, header_style="bold", pad_edge=False)
    counts: dict[str, Counter[str]] = {}
    for report in reports:
        label = " · ".join(filter(None, (report.cell.method, report.cell.variant)))
        counts.setdefault(label, Counter())[report.state] += 1
    for label, row in counts.items():
        table.add_row(escape(label), *(f"[{_COLORS[state]}]{row[state] or '·'}[/]" for state in _STATES))
    return table


def _left(report: CellReport) -> str:
    if report.state != "running" or report.status is None or report.status.seconds_left is None:
        return ""
    return f"{report.status.seconds_left / 60:.0f} min left"


def _summary(reports: Sequence[CellReport]) -> str:
    """How much is done, and how long the rest takes at the pace of the runs so far."""
    share = sum(_share(report) for report in reports) / len(reports)
    words = [f"{share:.0%} of all iterations are done"]
    running = sum(report.state == "running" for report in reports)
    left = seconds_left(reports)
    if left is not None and running:
        words.append(f"about {left / running / 3600:.1f} hours are left with {running} run(s) at a time")
    return "; ".join(words) + "."


def seconds_left(reports: Sequence[CellReport]) -> float | None:
    """Seconds of runs that are left: of those begun at their own pace, of the others at that of their method."""
    paces: dict[str, list[float]] = {}
    for report in reports:
        if report.status is not None and report.status.iteration:
            seconds = report.status.seconds / report.status.iteration * report.status.total_iterations
            paces.setdefault(report.cell.method, []).append(seconds)
    if not paces:
        return None
    means = {method: sum(values) / len(values) for method, values in paces.items()}
    overall = sum(means.values()) / len(means)
    todo = [report for report in reports if report.state not in ("finished", "failed")]
    return sum(means.get(report.cell.method, overall) * (1.0 - _share(report)) for report in todo)


def _share(report: CellReport) -> float:
    """Share of a run's iterations that is done."""
    if report.state == "finished":
        return 1.0
    status = report.status
    return status.iteration / status.total_iterations if status is not None and status.total_iterations else 0.0
