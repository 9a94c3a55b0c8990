"""Learning curves of the claims, drawn anew from their `metrics.csv`."""

from __future__ import annotations

from pathlib import Path

from results.make.learning import METHODS
from top_erl.report.curves import COLORS, plot_runs

_SUCCESS = {"evaluation_success": "success", "evaluation_return": "return"}
_JUMP = {
    "evaluation_max_height": "greatest height (m)",
    "evaluation_goal_dist": "distance to the goal (m)",
    "evaluation_return": "return",
}

_BOX = {
    "evaluation_success": "success",
    "evaluation_box_goal_pos_dist": "box to its target (m)",
    "evaluation_box_goal_rot_dist": "angle to its target (rad)",
}
_METHOD_COLORS = dict(zip(METHODS, COLORS, strict=False))

FIGURES = {
    "via_point_reacher": ("via_point_reacher", "seed*", _SUCCESS),
    "hopper_jump": ("hopper_jump", "seed*", _JUMP),
    "box_pushing": ("", "box_*/seed*", _BOX),
    "fetch_push": ("fetch_push", "seed*", _SUCCESS),
    "comparison_via_point_reacher": ("comparison/via_point_reacher", "*-seed*", _SUCCESS),
    "comparison_reach": ("comparison/reach", "*-seed*", _SUCCESS),
}
"""Name of a figure: folder of claims, which of its runs, columns and what they are called."""


def draw(name: str, results: Path, output: Path) -> None:
    """Draw one figure."""
    folder, pattern, panels = FIGURES[name]
    colors = _METHOD_COLORS if folder.startswith("comparison/") else None
    plot_runs(sorted((results / "claims" / folder).glob(pattern), key=_order), output, panels, colors)


def _order(run: Path) -> tuple[int, str]:
    """Methods in the order of the tables."""
    method = run.name.rpartition("-seed")[0]
    return (METHODS.index(method) if method in METHODS else 0, run.name)
