"""References with their spread: what the policy means to do in a context, and how far it explores around it.

Axes: `B` contexts, `N` samples, `T` times, `D` degrees of freedom.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from top_erl.agent import Agent
from top_erl.inspection.canvas import STATE, add_heading, pyplot, save
from top_erl.inspection.opening import (
    control_times,
    episodic_learner,
    fresh_starts,
    heading,
    opened,
    reference_distribution,
)
from top_erl.seeding import torch_generator
from top_erl.tasks.contract import Array

Quantity = Literal["position", "velocity"]
_SAMPLES = 12


@dataclass(frozen=True)
class Spread:
    """References of a policy in some contexts."""

    quantity: Quantity
    time: Array
    """Seconds, [T]."""
    mean: Array
    """[B, T, D]."""
    std: Array
    """[B, T, D]."""
    samples: Array
    """[B, N, T, D]."""


def draw_spread(
    run: Path,
    output: Path,
    seed: int = 0,
    *,
    contexts: int = 3,
    quantity: Quantity = "position",
    task: str | None = None,
) -> list[Path]:
    """Draw the mean reference, a band of two standard deviations and samples, for a few fresh contexts.

    Args:
        run: Run folder of an episodic method.
        output: The picture, without an ending.
        seed: Chooses contexts and samples.
        contexts: How many contexts.
        quantity: Draw positions or velocities.
        task: Names the run's task if it is code, as in `Agent.load`.

    Returns:
        A PNG and a PDF file.
    """
    with opened(run, task) as agent:
        return plot_spread(spread_of(agent, seed, contexts, quantity), heading(agent), output)


@torch.no_grad()
def spread_of(agent: Agent, seed: int = 0, contexts: int = 3, quantity: Quantity = "position") -> Spread:
    """References in fresh contexts with their spread."""
    learner = episodic_learner(agent)
    starts, times = fresh_starts(learner, contexts, seed), control_times(learner)
    distribution = reference_distribution(learner, starts, times)
    is_position = quantity == "position"
    flat = distribution.mean_position if is_position else distribution.mean_velocity  # [B, D * T]
    covariance = distribution.position_covariance if is_position else distribution.velocity_covariance
    mean, variance = (
        torch.unflatten(values, -1, (-1, len(times))).mT  # [..., T, D]
        for values in (flat, covariance.diagonal(dim1=-2, dim2=-1))
    )
    noise = torch.randn(contexts, _SAMPLES, learner.primitive.num_params, generator=torch_generator(seed, "spread", 0))
    gaussian = learner.collector.plan(learner.policy, starts)[2].to(torch.float64)
    samples = learner.primitive.trajectory(
        gaussian.sample_many(noise.to(gaussian.mean)).cpu(),
        times,
        init_time=0.0,
        init_position=torch.from_numpy(starts.position).unsqueeze(1),
        init_velocity=torch.from_numpy(starts.velocity).unsqueeze(1),
    )
    return Spread(
        quantity,
        times.numpy(),
        mean.numpy(),
        variance.sqrt().expand_as(mean).numpy(),
        (samples.position if is_position else samples.velocity).numpy(),
    )


def plot_spread(spread: Spread, title: str, output: Path) -> list[Path]:
    """Draw a row of panels per context, a column per degree of freedom; a PNG and a PDF file."""
    contexts, _, dof = spread.mean.shape
    with pyplot() as plt:
        width, height = max(1.95 * dof + 0.8, 6.5), 1.75 * contexts + 1.1
        figure, axes = plt.subplots(contexts, dof, figsize=(width, height), squeeze=False, sharex=True, sharey="col")
        for row in range(contexts):
            for column in range(dof):
                _draw(axes[row, column], spread, row, column)
            axes[row, 0].set_ylabel(f"context {row + 1}")
        for column in range(dof):
            axes[0, column].set_title(f"DoF {column + 1}")
            axes[-1, column].set_xlabel("time (s)")
        unit = "position" if spread.quantity == "position" else "velocity, per second"
        explanation = f"Reference ({unit}): mean, band of ±2 standard deviations, {spread.samples.shape[1]} samples"
        figure.tight_layout(rect=(0, 0, 1, add_heading(figure, title, explanation)))
        return save(figure, output)


def _draw(axis: Any, spread: Spread, context: int, dof: int) -> None:
    """One degree of freedom in one context."""
    mean, std = spread.mean[context, :, dof], spread.std[context, :, dof]
    axis.fill_between(spread.time, mean - 2 * std, mean + 2 * std, color=STATE, alpha=0.2, lw=0)
    axis.plot(spread.time, spread.samples[context, :, :, dof].T, color=STATE, lw=0.5, alpha=0.55)
    axis.plot(spread.time, mean, color="#0b3a66", lw=2.0)
    axis.margins(x=0)
