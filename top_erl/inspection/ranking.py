"""How well the critic ranks the movements of one context, as a picture; `algorithms/ranking.py` says what that is.

Axes: `C` contexts, `W` movements of a context.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from top_erl.agent import Agent
from top_erl.algorithms.ranking import CriticRanking
from top_erl.errors import UserError
from top_erl.inspection.canvas import FAINT, OLD, add_heading, pyplot, save
from top_erl.inspection.opening import check_has_critic
from top_erl.tasks.contract import Array

_NUMBERED = 20
"""Contexts up to which each has its number below the last panel."""


def movement_ranking(agent: Agent, seed: int = 0, contexts: int = 16) -> CriticRanking:
    """Play movements in the fresh contexts of `Agent.evaluate` and compare the critic's values with their returns."""
    check_has_critic(agent)
    learner = agent.training.learner
    if not learner.ranks_movements:
        raise UserError(f"The critic of {agent.config.method} values no whole movements: it has none to rank.")
    found = learner.rank_movements(contexts, seed=seed, stream="fresh")
    if not found.values:
        raise UserError(f"None of {contexts} contexts of {agent.config.task} could be played to the end.")
    if math.isnan(found.mean):
        raise UserError(
            f"All movements of a context have the same return, in each of {len(found.values)} contexts: there is "
            "nothing to rank."
        )
    return found


def plot_ranking(found: CriticRanking, title: str, output: Path) -> list[Path]:
    """Draw all movements, then what is left of them within their contexts, then each context; PNG and PDF files."""
    with pyplot() as plt:
        figure, axes = plt.subplots(1, 3, figsize=(14.0, 5.0), width_ratios=(1.0, 1.0, 0.9))
        colors = plt.get_cmap("turbo")(np.linspace(0.04, 0.96, len(found.values)))
        _draw_all(axes[0], found, colors)
        _draw_within(axes[1], found, colors)
        _draw_contexts(axes[2], found, colors)
        top = add_heading(figure, title, _explanation(found))
        figure.tight_layout(rect=(0, 0, 1, top), w_pad=2.0)
        return save(figure, output)


def _explanation(found: CriticRanking) -> str:
    most = max(map(len, found.values))
    return (
        f"{len(found.values)} fresh contexts, {most} movements sampled in each: what the critic thinks of a movement "
        "before it is played, and its return. One colour is one context; dashed: both are equal."
    )


def _draw_all(axis: Any, found: CriticRanking, colors: Array) -> None:
    """Values against returns: good contexts lie to the right of bad ones, whatever the movement."""
    for values, returns, color in zip(found.values, found.returns, colors, strict=True):
        axis.scatter(returns, values, s=16, color=color, alpha=0.75, lw=0)
    ends = np.concatenate((*found.values, *found.returns))
    middle = float(ends.mean())
    axis.axline((middle, middle), slope=1.0, color=FAINT, lw=1.0, ls="--", zorder=0)
    axis.set(xlabel="return", ylabel="critic's value", title=f"all movements, correlation {_number(found.overall)}")
    axis.locator_params(nbins=6)


def _draw_within(axis: Any, found: CriticRanking, colors: Array) -> None:
    """The same as differences from the context's mean: what the policy learns from."""
    for values, returns, color in zip(found.values, found.returns, colors, strict=True):
        axis.scatter(returns - returns.mean(), values - values.mean(), s=16, color=color, alpha=0.75, lw=0)
    axis.axhline(0.0, color=FAINT, lw=0.8, zorder=0)
    axis.axvline(0.0, color=FAINT, lw=0.8, zorder=0)
    axis.set(xlabel="return, above the mean of its context", ylabel="critic's value, above the mean of its context")
    axis.set_title(f"within a context, rank correlation {_number(found.mean)} ± {_number(found.error)}")
    axis.locator_params(nbins=6)


def _draw_contexts(axis: Any, found: CriticRanking, colors: Array) -> None:
    """The rank correlation of every context, and their mean with its standard error."""
    numbers = np.arange(1, len(found.values) + 1)
    axis.axhline(0.0, color=OLD, lw=0.8)
    axis.bar(numbers, np.nan_to_num(found.correlations), color=colors, width=0.75)
    if not math.isnan(found.error):
        axis.axhspan(found.mean - found.error, found.mean + found.error, color=FAINT, alpha=0.2, lw=0)
    axis.axhline(found.mean, color=FAINT, lw=1.6)
    axis.set(ylim=(-1.0, 1.0), xlim=(0.3, len(numbers) + 0.7), xlabel="context", ylabel="rank correlation")
    axis.set_title("each context, and the mean ± error")
    axis.grid(visible=False, axis="x")
    if len(numbers) <= _NUMBERED:
        axis.set_xticks(numbers)


def _number(value: float) -> str:
    return "?" if math.isnan(value) else f"{round(value, 2) + 0.0:.2f}"  # no minus before 0.00
