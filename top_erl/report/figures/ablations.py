"""What TOP-ERL's parts are worth: critic targets (solid) and components (dashed), as in the paper's Fig. 5."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from top_erl.report.figures.axes import Key, draw_panel
from top_erl.report.figures.counting import footnote
from top_erl.report.figures.layout import add_footnote, named_curves
from top_erl.report.figures.panels import family_panels, runs_of
from top_erl.report.figures.style import Look, NothingToDraw, drawing, save
from top_erl.report.figures.variants import COMPONENTS, TARGETS, kind, styles_of
from top_erl.report.records import Collection, RunRecord

_SIZE = (3.1, 2.75)
"""Inches of a panel."""
_LEGEND = 1.95
"""Inches of the legends on the right."""


def ablations(runs: Collection | Sequence[RunRecord], output: Path) -> list[Path]:
    """Draw the IQM of every variant with its 95 % band, one panel per task.

    Args:
        runs: Runs, of which those with a variant of the two ablations are drawn.
        output: Where the picture goes, without an ending.

    Returns:
        The files written.
    """
    with drawing():
        return save(ablations_figure(runs_of(runs)), output)


def ablations_figure(runs: Sequence[RunRecord]) -> Any:
    """The figure, not yet written."""
    from matplotlib.figure import Figure

    panels = family_panels([run for run in runs if kind(run) in ("target", "component")])
    if not panels:
        raise NothingToDraw("There are no runs of the ablations of targets or components to draw.")
    styles = styles_of([run for panel in panels for run in panel.runs])
    ratios = [_SIZE[0]] * len(panels) + [_LEGEND]
    figure = Figure((sum(ratios), _SIZE[1]), layout="constrained")
    *axes, beside = figure.subplots(1, len(ratios), width_ratios=ratios)
    for axis, panel in zip(axes, panels, strict=True):
        draw_panel(axis, panel, styles)
    add_footnote(figure, footnote(panels, styles))
    _add_legends(beside, axes, styles)
    return figure


def _add_legends(beside: Any, axes: Sequence[Any], styles: Mapping[Key, Look]) -> None:
    """Name the curves: one legend for the targets, below it one for the components."""
    from matplotlib.legend import Legend

    beside.axis("off")
    below = 1.0
    for title, variants in {"critic target": TARGETS, "components": COMPONENTS}.items():
        names = [look.name for (_, variant), look in styles.items() if variant in variants]
        if names:
            curves = named_curves(axes, names)
            options: dict[str, Any] = {
                **{"title": title, "loc": "upper left", "bbox_to_anchor": (0.0, below), "borderaxespad": 0.0},
                **{"alignment": "left", "handlelength": 2.6, "borderpad": 0.0, "labelspacing": 0.35},
            }
            legend = Legend(beside, list(curves.values()), list(curves), **options)
            beside.add_artist(legend)
            below -= 0.16 + 0.082 * len(names)
