"""Correlation maps (App. D): how the positions of a movement vary together, over degrees of freedom and time.

The policy is a Gaussian over parameters, so that its references are Gaussian too. The map shows the correlations of all
their positions, degree of freedom by degree of freedom.

Axes: `D` degrees of freedom, `T` times. Positions are flat and DoF-major: all times of the first degree of freedom,
then all of the second, and so on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from top_erl.agent import Agent
from top_erl.algorithms.episodic import EpisodicLearner
from top_erl.algorithms.tce.learner import TceLearner
from top_erl.algorithms.top_erl.learner import TopErlLearner
from top_erl.errors import UserError
from top_erl.inspection.canvas import add_heading, method_name, pyplot, save, task_name
from top_erl.inspection.opening import control_times, episodic_learner, fresh_starts, opened, reference_distribution
from top_erl.tasks.contract import Array

_MOST_STEPS = 100
"""Times per degree of freedom, as in the paper; longer episodes are shown at every second time, every third, …"""
_SMALLEST_STD = 1e-9
"""Spread below which a position counts as certain, as a fraction of the largest: it is correlated with nothing."""
_ORDER = ("bbrl_std", "bbrl_cov", "top_erl", "tce")


@dataclass(frozen=True)
class CorrelationMap:
    """Correlations of the positions of one policy's references in one context."""

    method: str
    task: str
    env_steps: int
    """Control steps of training."""
    cut: str
    """How the method cuts episodes."""
    correlation: Array
    """[D * T, D * T]; NaN where a position is certain."""
    num_dof: int
    """D."""
    contextual: bool
    """Whether other contexts have other correlations."""
    variant: str = ""
    """What tells it from others of the same method and task."""


def draw_correlations(runs: Sequence[Path], output: Path, seed: int = 0, *, task: str | None = None) -> list[Path]:
    """Draw the correlation maps of runs on one task side by side.

    Args:
        runs: Run folders of episodic methods.
        output: The picture, without an ending.
        seed: Chooses the context.
        task: Names the runs' task if it is code, as in `Agent.load`.

    Returns:
        A PNG and a PDF file.
    """
    maps = []
    for run in runs:
        with opened(run, task) as agent:
            maps.append(correlation_map(agent, seed))
    return plot_correlations(maps, output)


def correlation_map(agent: Agent, seed: int = 0) -> CorrelationMap:
    """The correlations of a policy's references in a fresh context."""
    learner = episodic_learner(agent)
    distribution = reference_distribution(learner, fresh_starts(learner, 1, seed), shown_times(learner))
    return CorrelationMap(
        method=agent.config.method,
        task=agent.config.task,
        env_steps=agent.num_timesteps,
        cut=_cut(learner),
        correlation=correlations(distribution.position_covariance).numpy().reshape(2 * (distribution.mean.shape[-1],)),
        num_dof=learner.primitive.num_dof,
        contextual=learner.policy.contextual,
    )


def _cut(learner: EpisodicLearner) -> str:
    """How a method cuts episodes when it learns; this leaves its traces in the map."""
    if isinstance(learner, TopErlLearner):
        cuts = {"random": "random segments", "rests": "segments to the end"}
        return cuts.get(learner.config.segments.kind, "fixed segments")
    return "fixed segments" if isinstance(learner, TceLearner) else "whole episodes"


def shown_times(learner: EpisodicLearner) -> Tensor:
    """Seconds of the times in a map, [T]; the start is left out, where nothing varies."""
    times = control_times(learner)[1:]
    return times[:: -(-len(times) // _MOST_STEPS)]


def correlations(covariance: Tensor) -> Tensor:
    """Correlations of covariances, [..., N, N]; NaN where there is no spread."""
    std = covariance.diagonal(dim1=-2, dim2=-1).sqrt()  # [..., N]
    std = torch.where(std > _SMALLEST_STD * std.amax(-1, keepdim=True), std, torch.nan)
    return (covariance / (std.unsqueeze(-1) * std.unsqueeze(-2))).clamp(-1.0, 1.0)


def plot_correlations(maps: Sequence[CorrelationMap], output: Path) -> list[Path]:
    """Draw maps of one task side by side, in the paper's order, with one colour bar; a PNG and a PDF file."""
    tasks = sorted({found.task for found in maps})
    if len(tasks) != 1:
        what = "no run was given" if not tasks else f"these are of {', '.join(tasks)}"
        raise UserError(f"Correlation maps are drawn of runs on one task; {what}.")
    order = [*_ORDER, *sorted({found.method for found in maps} - {*_ORDER})]
    maps = sorted(maps, key=lambda found: order.index(found.method))
    with pyplot() as plt:
        width = max(3.3 * len(maps) + 1.1, 5.4)
        figure, axes = plt.subplots(1, len(maps), figsize=(width, 4.3), squeeze=False)
        figure.subplots_adjust(left=0.55 / width, right=1 - 1.15 / width, top=0.77, bottom=0.11, wspace=0.14)
        for axis, found in zip(axes[0], maps, strict=True):
            image = _draw(axis, found)
        axes[0, 0].set_ylabel("degree of freedom, time within each")
        box = axes[0, -1].get_position()
        bar = figure.colorbar(image, cax=figure.add_axes((box.x1 + 0.18 / width, box.y0, 0.15 / width, box.height)))
        bar.set_label("correlation")
        bar.outline.set_visible(False)
        bar.ax.grid(visible=False)
        add_heading(figure, f"Correlations of positions on {task_name(tasks[0])}", _explanation(maps))
        return save(figure, output)


def _explanation(maps: Sequence[CorrelationMap]) -> str:
    dof, size = maps[0].num_dof, len(maps[0].correlation)
    where = "in one context" if any(found.contextual for found in maps) else "the same in every context"
    return f"{dof} degrees of freedom at {size // dof} times, {where}"


def _draw(axis: Any, found: CorrelationMap) -> Any:
    """One map, with the blocks of degrees of freedom marked."""
    size, dof = len(found.correlation), found.num_dof
    steps = size // dof
    axis.set_facecolor("#ced4da")  # certain positions
    image = axis.imshow(found.correlation, cmap="RdBu_r", vmin=-1.0, vmax=1.0, interpolation="nearest")
    axis.grid(visible=False)
    for edge in range(steps, size, steps):
        axis.axhline(edge - 0.5, color="black", lw=0.5, alpha=0.55)
        axis.axvline(edge - 0.5, color="black", lw=0.5, alpha=0.55)
    middles, names = np.arange(dof) * steps + (steps - 1) / 2, [str(number + 1) for number in range(dof)]
    axis.set_xticks(middles, names)
    axis.set_yticks(middles, names)
    axis.tick_params(length=0)
    axis.spines[:].set_visible(True)
    axis.set_title(f"{method_name(found.method)}, {found.variant or found.cut}")
    axis.set_xlabel(f"after {found.env_steps:,} steps")
    return image
