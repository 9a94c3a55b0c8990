"""Curves with their bands on axes.

A curve is thick where all of its runs have got to, thin and dotted where some have ended.
Axes: `[points]` one entry per point of a curve.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from top_erl.report.figures.panels import Panel
from top_erl.report.figures.style import Look
from top_erl.report.records import SUCCESS, RunRecord
from top_erl.report.statistics import POINTS, Curve, aggregate_curve

Key = tuple[str, str]
_MARKS = 7
"""Markers along a curve, about."""


def steps_unit(runs: Iterable[RunRecord]) -> tuple[float, str]:
    """A unit in which the runs' steps are handy numbers, and its name."""
    longest = max(run.env_steps for run in runs)
    for unit, name in ((1e6, "millions"), (1e3, "thousands")):
        if longest >= unit:
            return unit, f"environment steps ({name})"
    return 1.0, "environment steps"


def draw_panel(axis: Any, panel: Panel, styles: Mapping[Key, Look], small: bool = False) -> None:
    """Draw a curve for every method and variant, and name the axes.

    Args:
        axis: Matplotlib axes.
        panel: What is drawn.
        styles: How every method and variant looks; its order is that of drawing.
        small: The panel is one of many: thin curves without markers.
    """
    unit, steps = steps_unit(panel.runs)
    groups = panel.groups()
    for number, (key, look) in enumerate(styles.items()):
        if key in groups:
            curve = aggregate_curve(groups[key], panel.column, "env_steps", points=POINTS)  # finer than print
            look = replace(look, width=0.6 * look.width, marker="") if small else look
            draw_curve(axis, curve, look, unit, number)
    axis.set_title(panel.title, loc="left")
    axis.set_xlabel(steps)
    axis.set_xlim(left=0)
    axis.locator_params(axis="x", nbins=5)
    name_measure(axis, panel)


def name_measure(axis: Any, panel: Panel) -> None:
    """Name the vertical axis; success has the same range everywhere."""
    axis.set_ylabel(panel.measure)
    if panel.column == SUCCESS:
        axis.set_ylim(-0.02, 1.02)
        axis.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "", "0.5", "", "1"])


def draw_curve(axis: Any, curve: Curve, look: Look, unit: float, stagger: int = 0) -> None:
    """Draw a curve and its band.

    Args:
        axis: Matplotlib axes.
        curve: The statistic at every point.
        look: Colour, dashes, marker and name.
        unit: Steps per unit of the horizontal axis.
        stagger: Number of the curve among its neighbours, which places its markers beside theirs.
    """
    x = curve.x / unit  # [points]
    whole = curve.runs_at_each_point == curve.runs  # [points]
    till = int(whole.sum())
    marks: dict[str, Any] = {}
    if look.marker:
        step = max(1, till // _MARKS)
        marks = {"marker": look.marker, "markevery": (stagger * step // 8 % step, step), "ms": 4.2, "mew": 0.0}
    z = 2.0 + look.order / 10
    style = {"color": look.color, "zorder": z}
    axis.plot(x[:till], curve.value[:till], ls=look.dashes, lw=look.width, label=look.name, **marks, **style)
    _draw_band(axis, curve, slice(0, till), unit, {"color": look.color, "alpha": 0.16, "zorder": z - 1})
    if till < len(x):  # begins where the thick one ends
        tail = slice(max(till - 1, 0), None)
        axis.plot(x[tail], curve.value[tail], ls=(0, (1.0, 1.4)), lw=0.6 * look.width, label="_tail", **style)
        _draw_band(axis, curve, tail, unit, {"color": look.color, "alpha": 0.07, "zorder": z - 1})


def _draw_band(axis: Any, curve: Curve, part: slice, unit: float, style: Mapping[str, Any]) -> None:
    """The band of some points, if there is any width to it."""
    low, high = curve.low[part], curve.high[part]
    if np.any(high > low):
        axis.fill_between(curve.x[part] / unit, low, high, lw=0, **style)
