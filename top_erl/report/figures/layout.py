"""Panels on paper: a grid of them, one legend above, a footnote below."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from top_erl.report.figures.axes import Key, draw_panel, steps_unit
from top_erl.report.figures.panels import HEIGHT, RETURN, Panel
from top_erl.report.figures.style import GREY, Look

_LETTERS = 19.0
"""Letters of a footnote per inch."""


def panel_grid(
    panels: Sequence[Panel],
    styles: Mapping[Key, Look],
    columns: int,
    panel_size: tuple[float, float],
    sentences: Sequence[str],
    small: bool = False,
) -> Any:
    """A figure with a panel per task or family, in rows.

    Args:
        panels: What the panels show.
        styles: How every method and variant looks.
        columns: Panels beside each other, at most.
        panel_size: Inches of a panel.
        sentences: The footnote.
        small: Whether panels are many: thin curves, and axes are named at the edge only.
    """
    from matplotlib.figure import Figure

    rows = -(-len(panels) // columns)
    columns = -(-len(panels) // rows)  # rows of about equal length
    figure = Figure((max(panel_size[0] * columns, 4.6), panel_size[1] * rows), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axis, panel in zip(axes, panels, strict=False):
        draw_panel(axis, panel, styles, small)
    for axis in axes[len(panels) :]:
        axis.remove()
    if small:
        _name_once(figure.axes, panels, columns)
    frame(figure, styles, sentences)
    return figure


def _name_once(axes: Sequence[Any], panels: Sequence[Panel], columns: int) -> None:
    """Name the axes at the grid's edge and units beside their numbers, so that small panels keep their space."""
    common = Counter(panel.measure for panel in panels).most_common(1)[0][0]
    for number, (axis, panel) in enumerate(zip(axes, panels, strict=True)):
        other = panel.column == RETURN and panel.measure != common
        axis.set_title(f"{panel.title} ({panel.measure})" if other else panel.title, loc="left", size=7.5, pad=3)
        axis.tick_params(labelsize=6.5, pad=1.5, length=2)
        letter = {1e6: "M", 1e3: "k"}.get(steps_unit(panel.runs)[0], "")
        axis.xaxis.set_major_formatter(lambda x, _, letter=letter: f"{x:g}{letter}" if x else "0")
        if panel.column == HEIGHT:
            axis.yaxis.set_major_formatter("{x:g} m")
        left = number % columns == 0 and panel.measure == common
        axis.set_ylabel(common if left else "", size=7)
        axis.set_xlabel("environment steps" if number >= len(axes) - columns else "", size=7)


def frame(figure: Any, styles: Mapping[Key, Look], sentences: Sequence[str]) -> None:
    """Put the legend above the panels and a footnote below."""
    add_footnote(figure, sentences)
    names = named_curves(figure.axes, [look.name for look in styles.values()])
    rows = _legend_rows(names, figure.get_figwidth())
    _grow(figure, above=0.13 + 0.19 * rows)
    legend = figure.legend(
        *(list(names.values()), list(names)),
        **{"loc": "upper center", "bbox_to_anchor": (0.5, 1 - 0.06 / figure.get_figheight()), "borderaxespad": 0.0},
        **{"ncols": -(-len(names) // rows), "handlelength": 2.6, "columnspacing": 1.4, "handletextpad": 0.5},
        borderpad=0.0,
    )
    for handle in legend.legend_handles:
        handle.set_linewidth(1.9)


def _legend_rows(names: Collection[str], width: float) -> int:
    """Rows that a legend needs in a figure of some inches: one if its entries fit, else columns of equal width."""
    widths = [0.62 + 0.068 * len(name) for name in names]  # inches, about
    return 1 if sum(widths) <= width else -(-len(names) // max(1, int(width / max(widths))))


def add_footnote(figure: Any, sentences: Sequence[str]) -> None:
    """Write sentences below the panels; the figure grows by what they need."""
    lines = textwrap.wrap(" ".join(sentences), int(figure.get_figwidth() * _LETTERS))
    _grow(figure, below=0.08 + 0.125 * len(lines))
    figure.text(
        *(0.08 / figure.get_figwidth(), 0.05 / figure.get_figheight(), "\n".join(lines)),
        **{"size": 7, "color": GREY, "va": "bottom", "linespacing": 1.25},
    )


def _grow(figure: Any, above: float = 0.0, below: float = 0.0) -> None:
    """Make a figure higher, in inches, and keep the panels out of what is new."""
    engine, height = figure.get_layout_engine(), figure.get_figheight()
    _, bottom, _, share = engine.get()["rect"]
    grown = height + above + below
    figure.set_figheight(grown)
    engine.set(rect=(0, (bottom * height + below) / grown, 1, share * height / grown))


def named_curves(axes: Iterable[Any], names: Sequence[str]) -> dict[str, Any]:
    """Curves by their names, those of the names that are drawn anywhere."""
    handles: dict[str, Any] = {}
    for axis in axes:
        handles.update({label: handle for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)})
    return {name: handles[name] for name in names if name in handles}
