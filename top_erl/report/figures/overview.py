"""The comparison of methods: one panel per family of tasks, as in the paper's Fig. 4."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from top_erl.report.figures.counting import footnote
from top_erl.report.figures.layout import panel_grid
from top_erl.report.figures.panels import family_panels, runs_of
from top_erl.report.figures.style import NothingToDraw, drawing, save
from top_erl.report.figures.variants import kind, styles_of
from top_erl.report.records import Collection, RunRecord

_COLUMNS = 4
_SIZE = (2.75, 2.2)
"""Inches of a panel."""


def overview(runs: Collection | Sequence[RunRecord], output: Path) -> list[Path]:
    """Draw the IQM of every method with its 95 % band, against environment steps.

    Args:
        runs: What is drawn; runs of the paper's ablations have figures of their own.
        output: Where the picture goes, without an ending.

    Returns:
        The files written.
    """
    with drawing():
        return save(overview_figure(runs_of(runs)), output)


def overview_figure(runs: Sequence[RunRecord]) -> Any:
    """The figure, not yet written."""
    panels = family_panels([run for run in runs if not kind(run)])
    if not panels:
        raise NothingToDraw("There is nothing to compare: all runs belong to ablations, or there are none.")
    styles = styles_of([run for panel in panels for run in panel.runs])
    return panel_grid(panels, styles, _COLUMNS, _SIZE, footnote(panels, styles))
