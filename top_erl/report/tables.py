"""Summaries as tables: for a page that sorts them by their values, for a terminal, and as Markdown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from top_erl.report.bootstrap import Interval
from top_erl.report.records import Collection
from top_erl.report.settings import MISSING
from top_erl.report.summary import LEVELS, LabelSummary, Reached, Summary


@dataclass(frozen=True)
class TableCell:
    """What a cell shows, and what it is sorted by."""

    text: str
    value: float | str


@dataclass(frozen=True)
class Table:
    """A table with a title, and a sentence that says how to read it."""

    title: str
    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[TableCell, ...], ...]

    def markdown(self) -> str:
        """The table as Markdown, without title and caption."""
        lines = [self.header, ("---",) * len(self.header), *(tuple(cell.text for cell in row) for row in self.rows)]
        return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def summary_tables(summary: Summary) -> list[Table]:
    """All tables of a summary: scores, time to levels of success, and the worst tasks if there are several."""
    tables = [score_table(summary)]
    if any(label.reached for label in summary.labels):
        tables.append(reached_table(summary))
    if len(summary.tasks) > 1:
        tables.append(worst_tasks_table(summary))
    return tables


def score_table(summary: Summary) -> Table:
    """A row per label with its statistics."""
    several = len(summary.tasks) > 1
    gap = any(label.gap for label in summary.labels)
    header = ["method", "runs", "tasks", "seeds", "IQM", "mean"]
    header += ["median task"] * several + ["optimality gap"] * gap + [f"{summary.reference} is better"]
    rows = []
    for label in summary.labels:
        row = [text(label.label), count(label.runs), count(len(label.tasks)), _seeds(label)]
        row += [interval(label.iqm), interval(label.mean)]
        row += [interval(label.median)] * several + [interval(label.gap)] * gap + [interval(label.improvement)]
        rows.append(tuple(row))
    tasks = f"{len(summary.tasks)} tasks" if several else summary.tasks[0]
    return Table(
        f"{summary.score[0].upper()}{summary.score[1:]}: {tasks}",
        f"A run's score is its {summary.source}. In brackets: 95 % intervals, seeds resampled within tasks.",
        tuple(header),
        tuple(rows),
    )


def reached_table(summary: Summary) -> Table:
    """When half of the runs had reached levels of success."""
    header = ["method", *(f"{what} to {100 * level:.0f} %" for level in LEVELS for what in ("steps", "minutes"))]
    rows = [
        (text(label.label), *(cell for each in label.reached for cell in (_steps(each), _minutes(each))))
        for label in summary.labels
    ]
    return Table(
        f"How soon: {summary.score}",
        "The first evaluation of a run that reaches the level; median over runs, of which those that never reach it "
        "count as later than all others. In brackets: how many runs reach it.",
        tuple(header),
        tuple(rows),
    )


def worst_tasks_table(summary: Summary) -> Table:
    """The ten worst tasks of every label."""
    rows = [
        (text(label.label), count(rank), text(task.task), number(task.score), count(task.seeds))
        for label in summary.labels
        for rank, task in enumerate(label.worst, start=1)
    ]
    caption = f"The lowest {summary.score}, mean over seeds."
    return Table("Worst tasks", caption, ("method", "rank", "task", "score", "seeds"), tuple(rows))


def excluded_table(collection: Collection) -> Table:
    """What was left out, and why."""
    rows = tuple((text(str(each.folder)), text(each.reason)) for each in collection.excluded)
    return Table("Left out", "Folders that hold no run that can be used.", ("folder", "reason"), rows)


def interval(value: Interval | None) -> TableCell:
    """A statistic with its interval."""
    if value is None:
        return TableCell(MISSING, -math.inf)
    ends = MISSING if math.isnan(value.low) else f"{value.low:.2f}, {value.high:.2f}"
    return TableCell(f"{value.value:.2f} [{ends}]", value.value)


def number(value: float) -> TableCell:
    """A number with two decimals."""
    return TableCell(f"{value:.2f}", value)


def count(value: int) -> TableCell:
    """A whole number."""
    return TableCell(f"{value:,}", float(value))


def text(value: str) -> TableCell:
    """Words."""
    return TableCell(value, value)


def _seeds(label: LabelSummary) -> TableCell:
    few, many = label.seeds
    return TableCell(str(few) if few == many else f"{few} to {many}", float(few))


def _steps(each: Reached) -> TableCell:
    return _time(each, MISSING if each.steps is None else f"{each.steps:,.0f}", each.steps)


def _minutes(each: Reached) -> TableCell:
    return _time(each, MISSING if each.minutes is None else f"{each.minutes:.1f}", each.minutes)


def _time(each: Reached, shown: str, value: float | None) -> TableCell:
    return TableCell(f"{shown} ({each.reached} of {each.runs})", math.inf if value is None else value)


def plain_lines(tables: Sequence[Table]) -> str:
    """Tables one below the other as Markdown, with titles and captions."""
    return "\n\n".join(f"### {table.title}\n\n{table.caption}\n\n{table.markdown()}" for table in tables)
