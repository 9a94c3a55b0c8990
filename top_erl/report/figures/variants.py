"""The paper's ablations of TOP-ERL: which variants they have, what they are called, how they look (Fig. 5 and 6)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from top_erl.config.segments import length_of_fraction
from top_erl.report.figures.style import METHODS, Look, looks
from top_erl.report.records import RunRecord

Kind = Literal["target", "component", "segment", ""]
_OURS = METHODS["top_erl"].color
_DASHED = (0, (4.5, 1.8))
TARGETS = {
    "v": Look("V target", _OURS, marker="o", width=2.2, order=4),
    "q": Look("Q target", "#ff7f0e", marker="s"),
    "ensemble": Look("V ensemble", "#17becf", marker="^"),
    "clipped": Look("V clipped", "#2ca02c", marker="D"),
}
"""Critic targets, solid."""
COMPONENTS = {
    "full": Look("TOP-ERL, whole", _OURS, marker="o", width=2.2, order=4),
    "no-trust-region": Look("no trust region", "#8c564b", _DASHED, "P"),
    "no-initial-condition": Look("no initial condition", "#b8b800", _DASHED, "v"),
    "no-layer-norm": Look("no LayerNorm", "#9467bd", _DASHED, "<"),
    "fixed-segments": Look("25 fixed segments", "#e377c2", _DASHED, ">"),
    "dropout": Look("dropout 0.05", "#d62728", _DASHED, "X"),
}
"""Components, dashed but for the whole algorithm."""
RANDOM = "random"
_SEGMENTS = {
    RANDOM: Look("random lengths", _OURS, marker="o", width=2.4, order=4),
    "100%": Look("100%", "#17becf", marker="s"),
    "50%": Look("50%", "#9467bd", marker="D"),
    "20%": Look("20%", "#d62728", marker="X"),
    "10%": Look("10%", "#ff7f0e", marker="^"),
    "5%": Look("5%", "#e377c2", marker="v"),
}
"""Segment lengths in per cent of an episode."""
_GREYS = ("#7f7f7f", "#525252", "#a3a3a3", "#bcbd22")
"""For lengths that the paper does not have."""


def kind(run: RunRecord) -> Kind:
    """Which ablation a run belongs to; empty if to none."""
    if run.method != "top_erl":
        return ""
    if run.variant in TARGETS:
        return "target"
    if run.variant in COMPONENTS:
        return "component"
    return "segment" if run.variant == RANDOM or length(run.variant) is not None else ""


def comparison(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """The runs that belong to no ablation; all of them if every run does."""
    return [run for run in runs if not kind(run)] or list(runs)


def styles_of(runs: Sequence[RunRecord]) -> dict[tuple[str, str], Look]:
    """How the methods and variants of runs look, in the order of a legend: methods, then ablations."""
    found = looks((run.method, run.variant) for run in runs if not kind(run))
    variants = {run.variant for run in runs if kind(run)}
    named = {**TARGETS, **COMPONENTS}
    lengths = sorted(variants - named.keys(), key=lambda name: -(length(name) or 1000.0))  # random, then the longest
    for name in [*(name for name in named if name in variants), *lengths]:
        found["top_erl", name] = named.get(name) or segment_look(name)
    if {"v", "full"} <= variants:  # the same settings in two ablations
        found["top_erl", "full"] = replace(COMPONENTS["full"], dashes=(0, (6.0, 1.5, 1.0, 1.5)), width=1.5)
    return found


def length(variant: str) -> float | None:
    """Per cent of an episode that a segment lasts; None if the variant is no fixed length."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)%", variant)
    return float(match[1]) if match else None


def actual_length(run: RunRecord) -> float | None:
    """Per cent of an episode that a run's fixed segments last, whole tokens; None if its files do not say."""
    algorithm = run.config.get("algorithm", {})
    try:
        tokens = int(run.fingerprint["horizon"]) // int(algorithm["collect"]["stride"])
        return 100.0 * length_of_fraction(tokens, float(algorithm["segments"]["fraction"])) / tokens
    except (KeyError, TypeError):
        return None  # made by hand, or by a version that recorded less


def segment_look(variant: str) -> Look:
    """How a segment length looks."""
    if variant in _SEGMENTS:
        return _SEGMENTS[variant]
    grey = _GREYS[int(length(variant) or 0) % len(_GREYS)]
    return Look(variant, grey, marker="h")
