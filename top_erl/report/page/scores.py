"""Tables of the page with scores: those of the summary, and one with all tasks beside each other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from top_erl.report.page.tables import TableData, number_cell
from top_erl.report.records import RunRecord
from top_erl.report.summary import WORST, Summary, summarize
from top_erl.report.tables import Table, TableCell, summary_tables


def score_tables(runs: Sequence[RunRecord], names: Mapping[str, str]) -> list[TableData]:
    """All tables with scores; runs that must not be pooled are refused.

    Args:
        runs: Runs.
        names: What each label is called on the page.
    """
    found: list[TableData] = []
    for summary in (_ordered(summary, names) for summary in summarize(runs)):
        prefix = summary.column.removeprefix("evaluation_").replace("_", "-")
        tables = summary_tables(summary)
        if 1 < len(summary.tasks) <= WORST:
            tables.pop()  # the worst ones: all are in the table of tasks
        own = [_table(table, names, f"{prefix}-{number}") for number, table in enumerate(tables)]
        own[0] |= {"short": "Scores" if not found else summary.score.capitalize()}
        own[0]["note"] = " ".join([own[0]["note"], *summary.notes])
        if len(summary.tasks) > 1:
            own.insert(1, _each_task(summary, names, f"{prefix}-tasks"))
        if found:  # a second score is one entry of the navigation, or the same words would stand there twice
            own[1:] = [table | {"short": ""} for table in own[1:]]
        found += own
    return found


def _ordered(summary: Summary, names: Mapping[str, str]) -> Summary:
    """The labels in the order of the legend."""
    order = list(names)
    return replace(summary, labels=tuple(sorted(summary.labels, key=lambda each: order.index(each.label))))


def _table(table: Table, names: Mapping[str, str], id: str) -> TableData:
    """A table of the summary with names in place of labels."""
    headers = [_renamed(header, names) for header in table.header]
    rows = [
        [_cell(cell, names if header == "method" else {}) for header, cell in zip(table.header, row, strict=True)]
        for row in table.rows
    ]
    short = table.title.partition(":")[0]
    return {"id": id, "title": table.title, "short": short, "headers": headers, "rows": rows, "note": table.caption}


def _renamed(header: str, names: Mapping[str, str]) -> str:
    label = header.removesuffix(" is better")
    return f"{names[label]} is better" if label != header and label in names else header


def _cell(cell: TableCell, names: Mapping[str, str]) -> Any:
    if isinstance(cell.value, str):
        return names.get(cell.text, cell.text)
    return {"v": cell.value if math.isfinite(cell.value) else None, "t": cell.text}


def _each_task(summary: Summary, names: Mapping[str, str], id: str) -> TableData:
    """A row per task, a column per label; the best of a row is marked."""
    share = summary.column.startswith("evaluation_success")
    scores = {(label.label, task.task): task for label in summary.labels for task in label.tasks}
    rows = []
    for task in summary.tasks:
        row: list[Any] = [task]
        there = [scores[label.label, task].score for label in summary.labels if (label.label, task) in scores]
        for label in summary.labels:
            score = scores.get((label.label, task))
            cell = None if score is None else number_cell(score.score, share)
            row.append(cell and {**cell, "best": len(there) > 1 and cell["v"] == max(there)})
        rows.append(row)
    return {
        **{
            "id": id,
            "title": f"Each task: {summary.score}",
            "short": "Each task" if share else f"Each: {summary.score}",
        },
        **{"headers": ["task", *(names[label.label] for label in summary.labels)], "rows": rows},
        "note": f"Mean over seeds, from each run's {summary.source}. The highest of a task is bold.",
    }
