"""How methods and variants are called and drawn on the page: as in the figures, with dashes in the library's words."""

from __future__ import annotations

from collections.abc import Sequence

from top_erl.report.figures.style import Look, looks
from top_erl.report.figures.variants import COMPONENTS, TARGETS, kind, segment_look
from top_erl.report.records import RunRecord

_PALETTE = (
    "#1f77b4",
    "#ff7f0e",
    "#2ca02c",
    "#d62728",
    "#9467bd",
    "#8c564b",
    "#e377c2",
    "#17becf",
    "#bcbd22",
    "#7f7f7f",
)


def label_styles(runs: Sequence[RunRecord]) -> dict[str, dict[str, str]]:
    """Name, colour and dashes of every label, in the order of a legend."""
    found = looks({(run.method, run.variant) for run in runs})
    first = {(run.method, run.variant): run for run in reversed(runs)}
    several_variants = len({method for method, _ in found}) == 1 and len(found) > 1
    styles = {}
    for number, (key, look) in enumerate(found.items()):
        color, dash = look.color, _dash(look)
        if several_variants:  # of one method: colours tell them apart better than dashes
            own = _ablation(first[key])
            color, dash = (own.color, _dash(own)) if own else (_PALETTE[number % len(_PALETTE)], "solid")
        styles[first[key].label] = {"name": look.name, "color": color, "dash": dash}
    return styles


def _ablation(run: RunRecord) -> Look | None:
    """How one of the paper's ablations looks."""
    which = kind(run)
    if which == "segment":
        return segment_look(run.variant)
    return (TARGETS | COMPONENTS).get(run.variant) if which else None


def _dash(look: Look) -> str:
    """Dashes as the plotting library calls them."""
    if look.dashes == "-":
        return "solid"
    lengths = look.dashes[1] if isinstance(look.dashes, tuple) else ()
    return "dashdot" if len(lengths) > 2 else "dot" if lengths and lengths[0] < 2 else "dash"
