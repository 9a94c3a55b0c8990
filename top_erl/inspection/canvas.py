"""How these figures look and where they are written: PNG for the screen, PDF for print."""

from __future__ import annotations

import importlib.util
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from top_erl.errors import UserError, missing_extra
from top_erl.report.figures.style import METHODS
from top_erl.report.figures.style import save as write_figure

OLD, NEW, STATE, PREFIX, FAINT = "#212529", "#e03131", "#1f77b4", "#d9480f", "#5c6670"
SEGMENTS = ("#1f77b4", "#2b8a3e", "#9c36b5", "#d9480f", "#0b7285")

_STYLE = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "grid.alpha": 0.25,
    "font.size": 10,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # text stays text
    "savefig.dpi": 160,
}


def method_name(method: str) -> str:
    """A method's name, as in the report's figures."""
    return METHODS[method].name if method in METHODS else method


def task_name(task: str) -> str:
    """A task's name without its namespace or module."""
    return task.rpartition("/")[2].rpartition(":")[2]


@contextmanager
def pyplot() -> Iterator[Any]:
    """Matplotlib's pyplot in the style of these figures; those made in the block are closed after it."""
    if importlib.util.find_spec("matplotlib") is None:
        raise missing_extra("matplotlib", "report", "Drawing figures")
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    before = set(plt.get_fignums())
    with plt.rc_context(_STYLE):
        try:
            yield plt
        finally:
            for number in set(plt.get_fignums()) - before:
                plt.close(number)


def add_heading(figure: Any, title: str, explanation: str) -> float:
    """A title at the left above all panels, and smaller below it what is to be seen.

    Returns:
        Where the panels may begin, as a fraction of the figure's height.
    """
    width, height = figure.get_size_inches()
    wrap = textwrap.TextWrapper(int((width - 0.2) / 0.08), break_on_hyphens=False)
    lines = [line for part in explanation.split("\n") for line in wrap.wrap(part)]
    size = min(13.0, 13.0 * (width - 0.2) / (0.125 * len(title)))  # inches per letter, about
    figure.text(0.12 / width, 1 - 0.1 / height, title, va="top", weight="bold", fontsize=size)
    figure.text(0.12 / width, 1 - 0.38 / height, "\n".join(lines), va="top", fontsize=10, color=FAINT)
    below = 0.38 + 0.19 * len(lines) + 0.08  # inches
    return 1.0 - below / float(height)


def save(figure: Any, output: Path) -> list[Path]:
    """Write `output` with the endings `.png` and `.pdf`; its folder is made if it is missing."""
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"Cannot write {output}: {error}.") from None
    return write_figure(figure, output)
