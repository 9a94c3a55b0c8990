"""Sweeps in `results/sweeps/`: taking one over from where it ran, its table, its figures."""

from __future__ import annotations

import shutil
from pathlib import Path

from results.make.markdown import MISSING, number, table
from top_erl.errors import UserError
from top_erl.report.bootstrap import Interval
from top_erl.report.figures import draw_all
from top_erl.report.records import collect
from top_erl.report.summary import LabelSummary, summarize
from top_erl.sweep.definition import FILE
from top_erl.sweep.folder import open_folder

RAW = ("config.yaml", "fingerprint.json", "metrics.csv", "evaluation.json", "status.json")
"""What is kept of a run."""


def sweep_folders(results: Path) -> list[Path]:
    """All sweeps that are kept."""
    return sorted(path.parent for path in (results / "sweeps").glob(f"*/{FILE}"))


def take(sweep: Path, results: Path) -> Path:
    """Copy the raw files of a sweep; returns where they are."""
    folder, into = open_folder(sweep), results / "sweeps" / sweep.name
    for cell in folder.cells.values():
        if folder.look(cell).state != "finished":
            raise UserError(f"{sweep} has unfinished runs, such as {cell.name}: finish it with top-erl sweep {sweep}.")
    for name in folder.cells:
        (into / name).mkdir(parents=True, exist_ok=True)
        for file in RAW:
            if (sweep / name / file).exists():
                shutil.copy(sweep / name / file, into / name / file)
    shutil.copy(sweep / FILE, into / FILE)
    return into


def sweep_table(folder: Path) -> str:
    """A row per method and variant: scores with their 95 % intervals, and how long success took."""
    rows = [
        (f"`{label.label}`", summary.score, str(label.runs), *_numbers(label))
        for summary in summarize(collect([folder]).runs)
        for label in summary.labels
    ]
    header = ("", "score", "runs", "IQM (95 %)", "mean (95 %)", "thousand steps to 0.5", "minutes to 0.5")
    return table(header, rows)


def _numbers(label: LabelSummary) -> tuple[str, ...]:
    half = label.reached[0] if label.reached else None
    return (
        _interval(label.iqm),
        _interval(label.mean),
        MISSING if half is None or half.steps is None else f"{half.steps / 1000:.0f}",
        number(None if half is None else half.minutes, 1),
    )


def _interval(value: Interval) -> str:
    return f"{number(value.value)} ({number(value.low)} to {number(value.high)})"


def draw_sweep(folder: Path, figures: Path) -> list[Path]:
    """All figures that a sweep has runs for, as PNG."""
    into = figures / folder.name
    into.mkdir(parents=True, exist_ok=True)
    drawn = [path for paths in draw_all(collect([folder]), into).values() for path in paths]
    for path in drawn:
        if path.suffix == ".pdf":
            path.unlink()  # vectors of the same picture, larger than all raw files
    return [path for path in drawn if path.exists()]
