"""Figures from run folders, as PNG and PDF. Nothing here imports matplotlib before it draws."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from top_erl.errors import UserError
from top_erl.report.figures.ablations import ablations
from top_erl.report.figures.overview import overview
from top_erl.report.figures.panels import family_panels, task_panels
from top_erl.report.figures.per_task import per_task
from top_erl.report.figures.profiles import profiles
from top_erl.report.figures.segment_lengths import segment_lengths
from top_erl.report.figures.style import NothingToDraw
from top_erl.report.figures.table1 import table1
from top_erl.report.records import Collection

__all__ = ["FIGURES", "ablations", "draw_all", "overview", "per_task", "profiles", "segment_lengths", "table1"]

FIGURES: dict[str, Callable[[Collection, Path], list[Path]]] = {
    "overview": overview,
    "per_task": per_task,
    "profiles": profiles,
    "ablations": ablations,
    "segment_lengths": segment_lengths,
    "table1": table1,
}
"""What `draw_all` makes, by name, in the order of a report."""


def draw_all(collection: Collection, folder: Path) -> dict[str, list[Path]]:
    """Draw the figures that a collection has runs for.

    Args:
        collection: The runs; whether they may be compared is not checked here (`refuse_mixed`).
        folder: Where the files go; made if it is missing.

    Returns:
        Name of each figure in `FIGURES` and its files: PNG and PDF, or Markdown and LaTeX. What has no runs is left
        out, and so are panels per task where the overview shows every task by itself.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"Cannot make the folder {folder}: {error.strerror or error}.") from None
    pooled = len(family_panels(collection.runs)) < len(task_panels(collection.runs))
    drawn: dict[str, list[Path]] = {}
    for name, draw in FIGURES.items():
        if name != "per_task" or pooled:
            try:
                drawn[name] = draw(collection, folder / name)
            except NothingToDraw:
                continue  # said by its absence
    return drawn
