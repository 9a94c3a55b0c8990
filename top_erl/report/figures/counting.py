"""How many runs stand behind a figure, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from top_erl.report.figures.panels import Panel
from top_erl.report.figures.style import Look
from top_erl.report.records import SUCCESS, RunRecord

Key = tuple[str, str]
_NAMED = 4
"""Exceptions that are named one by one; more are counted."""


def footnote(panels: Sequence[Panel], styles: Mapping[Key, Look], statistic: str = "IQM") -> list[str]:
    """What is drawn, of how many runs, and which of them are not whole."""
    sentences = [f"{statistic} with 95 % stratified bootstrap intervals over seeds."]
    if any(panel.column == SUCCESS for panel in panels):
        sentences.append("Success counts after the last step.")
    counts = {panel.title: _counts(panel, styles) for panel in panels}
    sentences.append(f"Runs per curve: {_joined(counts)}.")
    words = "dotted, thin: some runs of a curve do not reach so far"
    return sentences + unfinished_sentence([run for panel in panels for run in panel.runs], words)


def unfinished_sentence(runs: Sequence[RunRecord], words: str) -> list[str]:
    """A sentence about runs that have not ended, and what becomes of them; none if all have."""
    count = sum(not run.finished for run in runs)
    if not count:
        return []
    verb = "is" if count == 1 else "are"
    return [f"{count} of {len(runs)} runs {verb} unfinished; {words}."]


def counted(number: int, noun: str) -> str:
    """As `1 seed`, `3 seeds`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _joined(counts: Mapping[str, str]) -> str:
    """Panels and their numbers; what most of them have is said once."""
    common, times = Counter(counts.values()).most_common(1)[0]
    if times == len(counts):
        return common
    others = "; ".join(f"{title}: {count}" for title, count in counts.items() if count != common or times == 1)
    return others if times == 1 else f"{others}; other panels: {common}"


def _counts(panel: Panel, styles: Mapping[Key, Look]) -> str:
    """As `3 seeds`, `50 tasks, 3 seeds each`, or `8 seeds (PPO 5)`: the most common number, and who has another."""
    groups = panel.groups()
    sizes = {key: _size(groups[key]) for key in styles if key in groups}
    common = Counter(sizes.values()).most_common(1)[0][0]
    others = [f"{styles[key].name} {size}" for key, size in sizes.items() if size != common]
    if len(others) > _NAMED:
        others = [f"{len(others)} curves have other numbers"]
    return f"{common} ({', '.join(others)})" if others else common


def _size(runs: Iterable[RunRecord]) -> str:
    seeds = Counter(run.task for run in runs)  # runs of each task
    few, many = min(seeds.values()), max(seeds.values())
    text = counted(many, "seed") if few == many else f"{few} to {many} seeds"
    return text if len(seeds) == 1 else f"{len(seeds)} tasks, {text} each"
