"""The comparison of methods on every task by itself: a grid of small panels, as in the paper's appendix."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from top_erl.report.figures.counting import footnote
from top_erl.report.figures.layout import panel_grid
from top_erl.report.figures.panels import runs_of, task_panels
from top_erl.report.figures.style import NothingToDraw, drawing, save
from top_erl.report.figures.variants import kind, styles_of
from top_erl.report.records import Collection, RunRecord

_MANY = 9
"""From this number of tasks on, panels are small: 50 fill a page."""
_COLUMNS, _SIZE = 4, (2.5, 1.95)
_COLUMNS_SMALL, _SIZE_SMALL = 5, (1.66, 1.1)
"""Panels beside each other, and inches of a panel."""


def per_task(runs: Collection | Sequence[RunRecord], output: Path) -> list[Path]:
    """Draw the IQM of every method over its seeds with its 95 % band, one panel per task.

    Args:
        runs: What is drawn; runs of the paper's ablations have figures of their own.
        output: Where the picture goes, without an ending.

    Returns:
        The files written.
    """
    with drawing():
        return save(per_task_figure(runs_of(runs)), output)


def per_task_figure(runs: Sequence[RunRecord]) -> Any:
    """The figure, not yet written."""
    panels = task_panels([run for run in runs if not kind(run)])
    if not panels:
        raise NothingToDraw("There is no task to draw: all runs belong to ablations, or there are none.")
    styles = styles_of([run for panel in panels for run in panel.runs])
    small = len(panels) >= _MANY
    columns, size = (_COLUMNS_SMALL, _SIZE_SMALL) if small else (_COLUMNS, _SIZE)
    return panel_grid(panels, styles, columns, size, footnote(panels, styles), small)
