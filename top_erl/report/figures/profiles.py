"""Success over all tasks: performance profiles, and four statistics with their intervals (Agarwal et al. 2021)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from top_erl.report.bootstrap import Array, Interval
from top_erl.report.figures.axes import Key
from top_erl.report.figures.counting import counted, unfinished_sentence
from top_erl.report.figures.layout import frame
from top_erl.report.figures.panels import runs_of
from top_erl.report.figures.scores import scores_by_task
from top_erl.report.figures.style import Look, NothingToDraw, drawing, save
from top_erl.report.figures.variants import comparison, styles_of
from top_erl.report.records import SUCCESS, Collection, RunRecord
from top_erl.report.statistics import iqm, mean, median, optimality_gap, performance_profile
from top_erl.report.summary import final_scores

_STATISTICS: dict[str, Callable[[Sequence[Array]], Interval]] = {
    "median": median,
    "IQM": iqm,
    "mean": mean,
    "optimality gap": optimality_gap,
}
_PROFILE, _BARS = 3.6, 1.55
"""Inches of the profile and of each panel beside it."""


def profiles(runs: Collection | Sequence[RunRecord], output: Path) -> list[Path]:
    """Draw which fraction of runs has more than some success, and median, IQM, mean and optimality gap.

    Args:
        runs: Runs; of those with success, the tasks that all methods and variants have are pooled.
        output: Where the picture goes, without an ending.

    Returns:
        The files written.
    """
    with drawing():
        return save(profiles_figure(runs_of(runs)), output)


def profiles_figure(runs: Sequence[RunRecord]) -> Any:
    """The figure, not yet written."""
    from matplotlib.figure import Figure

    scored = comparison([run for run in runs if run.last(SUCCESS) is not None])
    shared = _shared_tasks(scored)
    if not shared:
        raise NothingToDraw("There are no profiles to draw: no task with success has runs of every method.")
    pooled = [run for run in scored if run.task in shared]
    styles = styles_of(pooled)
    finals, source = final_scores(pooled, SUCCESS)
    groups = {key: [run for run in pooled if (run.method, run.variant) == key] for key in styles}
    scores = {key: scores_by_task(group, finals) for key, group in groups.items()}
    ratios = [_PROFILE] + [_BARS] * len(_STATISTICS)
    figure = Figure((sum(ratios), max(2.4, 0.6 + 0.24 * len(styles))), layout="constrained")
    profile, *bars = figure.subplots(1, len(ratios), width_ratios=ratios)
    _draw_profiles(profile, scores, styles)
    for axis, (name, statistic) in zip(bars, _STATISTICS.items(), strict=True):
        _draw_intervals(axis, name, {key: statistic(values) for key, values in scores.items()}, styles)
    bars[0].set_yticks(range(len(styles)), [look.name for look in styles.values()])
    frame(figure, styles, _sentences(pooled, source, shared, {run.task for run in scored}))
    return figure


def _shared_tasks(runs: Sequence[RunRecord]) -> set[str]:
    """Tasks that every method and variant has runs of."""
    tasks: dict[Key, set[str]] = {}
    for run in runs:
        tasks.setdefault((run.method, run.variant), set()).add(run.task)
    return set.intersection(*tasks.values()) if tasks else set()


def _draw_profiles(axis: Any, scores: Mapping[Key, list[Array]], styles: Mapping[Key, Look]) -> None:
    """Fraction of runs above each success; a run is a step."""
    for key, look in styles.items():
        profile = performance_profile(scores[key])
        z = 2.0 + look.order / 10
        axis.plot(
            *(profile.thresholds, profile.value),
            **{"color": look.color, "ls": look.dashes, "lw": look.width, "label": look.name, "zorder": z},
            drawstyle="steps-post",
        )
        axis.fill_between(
            *(profile.thresholds, profile.low, profile.high),
            **{"step": "post", "color": look.color, "alpha": 0.13, "lw": 0, "zorder": z - 1},
        )
    axis.set_title("Performance profile", loc="left")
    axis.set_xlabel("success rate τ")
    axis.set_ylabel("fraction of runs with more than τ")
    axis.set(xlim=(0, 1), ylim=(-0.02, 1.02))


def _draw_intervals(axis: Any, name: str, found: Mapping[Key, Interval], styles: Mapping[Key, Look]) -> None:
    """A row per method: the interval as a bar, the value as a line in it; the first method on top."""
    for row, (key, look) in enumerate(styles.items()):
        interval = found[key]
        if interval.high > interval.low:
            axis.barh(row, interval.high - interval.low, 0.62, interval.low, color=look.color, alpha=0.45, lw=0)
        axis.plot([interval.value] * 2, [row - 0.36, row + 0.36], color="#20292e", lw=1.6, solid_capstyle="butt")
    axis.set_title(name, loc="left")
    axis.set_xlabel("lower is better" if name == "optimality gap" else "success rate")
    axis.set_yticks(range(len(styles)), [""] * len(styles))
    axis.set_ylim(len(styles) - 0.4, -0.6)
    axis.use_sticky_edges = False
    axis.margins(x=0.08)
    axis.tick_params(axis="y", length=0)
    axis.grid(axis="y", visible=False)
    axis.locator_params(axis="x", nbins=4)


def _sentences(runs: Sequence[RunRecord], source: str, shared: set[str], tasks: set[str]) -> list[str]:
    """What is pooled, and what is left out."""
    seeds = len({run.seed for run in runs})
    sentences = [
        f"The {source} of every run; success counts after the last step.",
        f"{counted(len(runs), 'run')}: {counted(len(shared), 'task')}, {counted(seeds, 'seed')}.",
        "Bands and bars: 95 % stratified bootstrap intervals over seeds. Median: of the tasks' means.",
    ]
    if tasks - shared:
        sentences.append(f"Left out: {counted(len(tasks - shared), 'task')} that not every method has runs of.")
    return sentences + unfinished_sentence(runs, "of these the last evaluation counts")
