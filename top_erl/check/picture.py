"""A picture of references and of what the robot did."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np

from top_erl.check.probe import SMALL, Evidence
from top_erl.errors import UserError, missing_extra

_WANTED, _MEASURED = "#9aa5ab", "#1f77b4"
_MOST = 8
"""Degrees of freedom that are drawn, at most."""


def draw_tracking(played: Evidence, path: Path) -> None:
    """Draw a small and a random movement: what was wanted, and what was measured, by degree of freedom."""
    check_can_draw()
    from matplotlib.figure import Figure

    count = min(played.spec.num_dof, _MOST)
    figure = Figure(figsize=(7.5, 1.2 + 1.25 * count), layout="constrained")
    panels = figure.subplots(count, 2, squeeze=False, sharex=True)
    titles = (f"small: noise {SMALL * played.std:g}", f"random: noise {played.std:g}")
    for column, (trial, title) in enumerate(zip((played.small[0], played.random[0]), titles, strict=True)):
        times = np.arange(1, played.spec.horizon + 1) * played.spec.dt
        panels[0, column].set_title(title, loc="left", fontsize=10)
        panels[-1, column].set_xlabel("seconds")
        for joint in range(count):
            panel = panels[joint, column]
            panel.plot(times, trial.reference[:, joint], color=_WANTED, linewidth=3, label="reference")
            if trial.position is not None:
                measured = trial.position[1:, joint]
                panel.plot(times[: len(measured)], measured, color=_MEASURED, linewidth=1.3, label="measured")
            panel.spines[["top", "right"]].set_visible(False)
            panel.set_ylabel(f"DoF {joint}")
    panels[0, 0].legend(frameon=False, fontsize=8)
    figure.suptitle(f"{played.spec.id}: does the robot follow?", x=0.02, ha="left", fontsize=11)
    try:
        figure.savefig(path, dpi=120)
    except (OSError, ValueError) as problem:
        raise UserError(f"Cannot write {path}: {problem}.") from None


def check_can_draw() -> None:
    """Say what is missing, before the work is done."""
    if importlib.util.find_spec("matplotlib") is None:
        raise missing_extra("matplotlib", "report", "Drawing references")
