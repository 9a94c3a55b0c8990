"""How figures look: the paper's colours, names of methods and variants, paper sizes, writing PNG and PDF."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from top_erl.config.files import write_whole
from top_erl.errors import UserError, missing_extra

GREY = "#5f6b73"
"""Of what is said beside the data."""
_RC = {
    **{"font.family": "DejaVu Sans", "font.size": 9, "axes.titlesize": 10, "axes.labelsize": 9},
    **{"xtick.labelsize": 8, "ytick.labelsize": 8, "legend.fontsize": 9, "legend.frameon": False},
    **{"axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": "#9aa5ab", "axes.linewidth": 0.8},
    **{"axes.grid": True, "grid.color": "#e3e8ea", "grid.linewidth": 0.8, "axes.axisbelow": True},
    **{"xtick.color": "#3c464c", "ytick.color": "#3c464c", "xtick.major.size": 2.5, "ytick.major.size": 2.5},
    **{
        "pdf.fonttype": 42,
        "savefig.dpi": 180,
        "text.parse_math": False,
        "lines.solid_capstyle": "round",
        "lines.dash_capstyle": "butt",
    },
}
Dashes = str | tuple[int, tuple[float, ...]]


class NothingToDraw(UserError):  # noqa: N818 - it names what happened
    """The runs have nothing that a figure shows."""


@dataclass(frozen=True)
class Look:
    """How a curve is drawn and what it is called."""

    name: str
    color: str
    dashes: Dashes = "-"
    marker: str = ""
    """A second channel beside the colour; empty: none."""
    width: float = 1.5
    order: int = 2
    """What is drawn later lies above."""


METHODS = {
    "top_erl": Look("TOP-ERL", "#1f77b4", marker="o", width=2.4, order=4),
    "tce": Look("TCE", "#ff7f0e", marker="s"),
    "bbrl_cov": Look("BBRL-Cov", "#17becf", marker="^"),
    "bbrl_std": Look("BBRL-Std", "#17becf", (0, (4.0, 1.3, 1.0, 1.3)), marker="v"),
    "ppo": Look("PPO", "#2ca02c", marker="D"),
    "gtrxl": Look("GTrXL", "#d62728", marker="X"),
    "gsde": Look("gSDE", "#8c564b", marker="P"),
    "sac": Look("SAC", "#9467bd", marker="<"),
    "pink": Look("PINK", "#e377c2", marker=">"),
}
"""Methods in the order of the paper's legend, in its colours."""
_OTHER_COLORS = ("#7f7f7f", "#bcbd22", "#393b79", "#637939", "#843c39", "#7b4173", "#3182bd", "#e6550d")
"""For methods that the paper does not have."""
_VARIANT_DASHES: tuple[Dashes, ...] = ("-", (0, (5.0, 1.6)), (0, (3.0, 1.2, 1.0, 1.2)), (0, (1.6, 1.2)))
_MARKERS = "osD^vP*X<>hd"


def looks(keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Look]:
    """Give every (method, variant) a look: methods differ in colour, variants of a method in dashes and marker.

    Returns:
        In the order of a legend: the paper's methods first, others by name; variants by name.
    """
    keys = set(keys)
    methods = {method for method, _ in keys}
    unknown = sorted(methods - METHODS.keys())
    found: dict[tuple[str, str], Look] = {}
    for method in [*(name for name in METHODS if name in methods), *unknown]:
        variants = sorted(variant for name, variant in keys if name == method)
        own = unknown.index(method) if method in unknown else 0
        base = METHODS.get(method) or Look(method, _OTHER_COLORS[own % len(_OTHER_COLORS)], marker=_MARKERS[own % 12])
        for number, variant in enumerate(variants):
            found[method, variant] = base if len(variants) == 1 and not variant else _of_variant(base, variant, number)
    return found


def _of_variant(base: Look, variant: str, number: int) -> Look:
    name = f"{base.name} · {variant}" if variant else base.name
    dashes = base.dashes if not number else _VARIANT_DASHES[number % len(_VARIANT_DASHES)]
    return Look(name, base.color, dashes, _MARKERS[number % len(_MARKERS)], base.width, base.order)


@contextmanager
def drawing() -> Iterator[None]:
    """The settings under which figures are made and written; says what to install if nothing can be drawn."""
    if importlib.util.find_spec("matplotlib") is None:
        raise missing_extra("matplotlib", "report", "Drawing figures")
    import matplotlib

    with matplotlib.rc_context(_RC):
        yield


def save(figure: Any, output: Path) -> list[Path]:
    """Write a figure as PNG and PDF; the same figure gives the same bytes.

    Args:
        figure: A matplotlib figure.
        output: Where it goes, without an ending.
    """
    if figure.get_layout_engine() is not None:
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # laid out once, for both
    written = []
    for ending, metadata in (("png", {"Software": None}), ("pdf", {"CreationDate": None, "Producer": None})):
        path = output.with_name(f"{output.name}.{ending}")
        drawn = io.BytesIO()
        figure.savefig(drawn, format=ending, metadata=metadata)
        try:
            write_whole(path, drawn.getvalue())
        except OSError as error:
            raise UserError(f"Cannot write {path}: {error.strerror or error}.") from None
        written.append(path)
    return written
