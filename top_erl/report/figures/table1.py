"""What targets and methods cost and reach, as in the paper's Table 1: critics, seconds per iteration, success."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from top_erl.errors import UserError
from top_erl.report.bootstrap import Interval
from top_erl.report.figures.counting import counted, unfinished_sentence
from top_erl.report.figures.panels import HEIGHT, Panel, family_panels, runs_of
from top_erl.report.figures.scores import scores_by_task
from top_erl.report.figures.style import NothingToDraw
from top_erl.report.figures.variants import styles_of
from top_erl.report.records import SUCCESS, Collection, RunRecord
from top_erl.report.statistics import iqm
from top_erl.report.summary import final_scores
from top_erl.report.variants import flat_settings

_NONE = "-"
"""Where there is no number."""
_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_LATEX |= {letter: f"\\{letter}" for letter in "&%$#_{}"} | {"±": r"$\pm$", "·": r"$\cdot$"}


@dataclass(frozen=True)
class Table:
    """Cells as text; a first column of names."""

    header: list[str]
    rows: list[list[str]]
    notes: list[str]


def table1(runs: Collection | Sequence[RunRecord], output: Path) -> list[Path]:
    """Write the table as Markdown and as LaTeX (with `booktabs`).

    Args:
        runs: Runs; every method and variant is a row.
        output: Where the table goes, without an ending.

    Returns:
        The files written.
    """
    table = make_table(runs_of(runs))
    written = []
    for ending, text in (("md", _markdown(table)), ("tex", _latex(table))):
        path = output.with_name(f"{output.name}.{ending}")
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UserError(f"Cannot write {path}: {error.strerror or error}.") from None
        written.append(path)
    return written


def make_table(runs: Sequence[RunRecord]) -> Table:
    """The table as text."""
    panels = family_panels(runs)
    if not panels:
        raise NothingToDraw("There is no table to write: no run has evaluated its policy yet.")
    rows = []
    for key, look in styles_of(runs).items():
        own = [run for run in runs if (run.method, run.variant) == key]
        cells = [cell for panel in panels for cell in _cells(panel, panel.groups().get(key, []))]
        rows.append([look.name, _critics(own), *cells])
    header = ["", "critics"]
    for panel in panels:
        measure = "success in %" if panel.column == SUCCESS else panel.measure
        header += [f"{panel.title}: seconds / iteration", f"{panel.title}: {measure}"]
    seeds = len({run.seed for run in runs})
    sources = dict.fromkeys(final_scores(panel.runs, panel.column)[1] for panel in panels)
    notes = [
        f"IQM of the {' or '.join(sources)} ± half of its 95 % interval (stratified bootstrap over seeds).",
        f"{counted(len(runs), 'run')}, {counted(seeds, 'seed')}. Seconds: median over iterations, then over runs;",
        "an iteration is more work for some methods than for others.",
    ]
    return Table(header, rows, notes + unfinished_sentence(runs, "of these the last evaluation counts"))


def seconds_per_iteration(runs: Sequence[RunRecord]) -> float:
    """Median over each run's iterations, then over runs; NaN if no run has two rows with a time."""
    medians = []
    for run in runs:
        iterations, seconds = run.columns["iteration"], run.columns.get("wall_time")
        if seconds is not None and len(iterations) > 1:
            medians.append(float(np.median(np.diff(seconds) / np.maximum(np.diff(iterations), 1.0))))
    return float(np.median(medians)) if medians else math.nan


def _critics(runs: Sequence[RunRecord]) -> str:
    """Critics of TOP-ERL by its target; a sign for none where it is not known."""
    settings = flat_settings(runs[0].config)
    if runs[0].method != "top_erl":
        return _NONE
    counts = {"v": "1", "q": "1", "clipped": "2", "ensemble": settings.get("learn.ensemble_size", "2")}
    return counts.get(settings.get("learn.target", ""), _NONE)


def _cells(panel: Panel, runs: Sequence[RunRecord]) -> list[str]:
    """Seconds per iteration and what was reached."""
    if not runs:
        return [_NONE, _NONE]
    scores, _ = final_scores(panel.runs, panel.column)
    seconds, score = seconds_per_iteration(runs), iqm(scores_by_task(runs, scores))
    time = _NONE if math.isnan(seconds) else f"{seconds:.2f}"
    if panel.column == SUCCESS:
        return [time, _with_half(Interval(100 * score.value, 100 * score.low, 100 * score.high), 1)]
    return [time, _with_half(score, 3 if panel.column == HEIGHT else 1)]


def _with_half(interval: Interval, digits: int) -> str:
    """A value with half the width of its interval, if there is one."""
    half = (interval.high - interval.low) / 2
    value = f"{interval.value:.{digits}f}"
    return value if math.isnan(half) else f"{value} ± {half:.{digits}f}"


def _markdown(table: Table) -> str:
    lines = [table.header, ["---", *["---:"] * (len(table.header) - 1)], *table.rows]
    text = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
    return "\n".join([*text, "", " ".join(table.notes), ""])


def _latex(table: Table) -> str:
    def line(cells: Sequence[str]) -> str:
        return " & ".join(_escape(cell) for cell in cells) + r" \\"

    return "\n".join(
        [
            f"% {' '.join(table.notes)}",
            rf"\begin{{tabular}}{{l{'r' * (len(table.header) - 1)}}}",
            *(r"\toprule", line(table.header), r"\midrule"),
            *(line(row) for row in table.rows),
            *(r"\bottomrule", r"\end{tabular}", ""),
        ]
    )


def _escape(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)
