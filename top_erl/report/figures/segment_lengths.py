"""Fixed segment lengths against random ones: learning curves, and success over the length, as in the paper's Fig. 6."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from top_erl.report.figures.axes import draw_panel, name_measure
from top_erl.report.figures.counting import footnote
from top_erl.report.figures.layout import frame
from top_erl.report.figures.panels import Panel, family_panels, runs_of
from top_erl.report.figures.scores import scores_by_task
from top_erl.report.figures.style import NothingToDraw, drawing, save
from top_erl.report.figures.variants import RANDOM, actual_length, kind, length, segment_look, styles_of
from top_erl.report.records import Collection, RunRecord
from top_erl.report.statistics import iqm
from top_erl.report.summary import final_scores

_SIZE = (6.6, 2.6)
"""Inches of the two panels of a task."""


def segment_lengths(runs: Collection | Sequence[RunRecord], output: Path) -> list[Path]:
    """Draw, for every task, the curves of all segment lengths, and the last evaluation against the length.

    Args:
        runs: Runs, of which those with a variant `random` or of a length such as `20%` are drawn.
        output: Where the picture goes, without an ending.

    Returns:
        The files written.
    """
    with drawing():
        return save(segment_lengths_figure(runs_of(runs)), output)


def segment_lengths_figure(runs: Sequence[RunRecord]) -> Any:
    """The figure, not yet written."""
    from matplotlib.figure import Figure

    panels = family_panels([run for run in runs if kind(run) == "segment"])
    variants = {run.variant for panel in panels for run in panel.runs}
    if not variants - {RANDOM}:
        raise NothingToDraw("There are no runs of the ablation of segment lengths to draw.")
    styles = styles_of([run for panel in panels for run in panel.runs])
    figure = Figure((_SIZE[0], _SIZE[1] * len(panels)), layout="constrained")
    for (left, right), panel in zip(figure.subplots(len(panels), 2, squeeze=False), panels, strict=True):
        draw_panel(left, panel, styles)
        _draw_lengths(right, panel)
    sources = dict.fromkeys(final_scores(panel.runs, panel.column)[1] for panel in panels)
    notes = [*footnote(panels, styles), f"Right: the {' or '.join(sources)} of every run."]
    frame(figure, styles, notes + _rounded(panels))
    return figure


def _rounded(panels: Sequence[Panel]) -> list[str]:
    """A sentence on lengths that are not what their name says, since segments are whole tokens; none if all are."""
    found: dict[str, None] = {}
    for run in sorted((run for panel in panels for run in panel.runs), key=lambda run: length(run.variant) or 0.0):
        asked, actual = length(run.variant), actual_length(run)
        if asked is not None and actual is not None and f"{asked:.3g}" != f"{actual:.3g}":
            found[f"{asked:.3g}% is {actual:.3g}%"] = None
    return [f"Segments are whole tokens: {', '.join(found)}."] if found else []


def _draw_lengths(axis: Any, panel: Panel) -> None:
    """The final score against the length, and that of random lengths as a band across."""
    scores, _ = final_scores(panel.runs, panel.column)
    groups = {variant: iqm(scores_by_task(runs, scores)) for (_, variant), runs in panel.groups().items()}
    lengths = sorted((name for name in groups if name != RANDOM), key=lambda name: length(name) or 0.0)
    if RANDOM in groups:
        look, score = segment_look(RANDOM), groups[RANDOM]
        axis.axhspan(score.low, score.high, color=look.color, alpha=0.16, lw=0, zorder=1)
        axis.axhline(score.value, color=look.color, lw=2.0, zorder=2, label="_random")
    axis.plot(range(len(lengths)), [groups[name].value for name in lengths], color="#9aa5ab", lw=1.0, zorder=2)
    for place, name in enumerate(lengths):
        look, score = segment_look(name), groups[name]
        axis.plot([place, place], [score.low, score.high], color=look.color, lw=2.2, zorder=3)
        axis.plot([place], [score.value], color=look.color, marker=look.marker, ms=7, mec="white", zorder=4)
    axis.set_xticks(range(len(lengths)), [segment_look(name).name for name in lengths])
    axis.set_xlim(-0.4, len(lengths) - 0.6)
    axis.grid(axis="x", visible=False)
    axis.set_title("after training", loc="left")
    axis.set_xlabel("segment length, share of the episode")
    name_measure(axis, panel)
