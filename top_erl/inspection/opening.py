"""Trained policies from run folders, and what all figures ask of them.

Axes: `B` episodes or contexts, `T` times, `D` degrees of freedom, `P` primitive parameters.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from top_erl.agent import Agent
from top_erl.algorithms.episodic import EpisodicLearner
from top_erl.errors import UserError
from top_erl.inspection.canvas import method_name, task_name
from top_erl.primitives import TrajectoryDistribution
from top_erl.rollout.player import LocalPlayer
from top_erl.rollout.replanning import ReplanningCollector, plan_every
from top_erl.rollout.tokens import Rollout
from top_erl.seeding import episode_seeds, torch_generator
from top_erl.tasks import EpisodeStarts


@contextmanager
def opened(run: Path, task: str | None = None, **how: Any) -> Iterator[Agent]:
    """The agent of a run's newest checkpoint, closed afterwards.

    Args:
        run: Run folder, or a folder that `Agent.save` has written.
        task: Names a task that is code, as in `Agent.load`.
        how: Other arguments of `Agent.load`, such as `which`.
    """
    agent = Agent.load(run, task=task, **how)
    try:
        learner = agent.training.learner
        if isinstance(learner, EpisodicLearner):
            # a few episodes are played sooner here than worker processes start; the numbers are the same
            learner.collector.player = LocalPlayer(agent.training.task)
        yield agent
    finally:
        agent.close()


def episodic_learner(agent: Agent) -> EpisodicLearner:
    """The learner of a policy over movements; other policies are refused."""
    learner = agent.training.learner
    if isinstance(learner, EpisodicLearner):
        return learner
    raise UserError(
        f"{agent.config.method} chooses an action at every step and has no policy over whole movements; "
        "this figure is made of runs of top_erl, tce, bbrl_cov or bbrl_std."
    )


def check_has_critic(agent: Agent) -> None:
    """Refuse an agent whose critic was not saved with it: what is there in its place knows nothing."""
    if agent.training.plays_only:
        raise UserError("This agent is a policy alone, saved without its critic.")


def check_clock(learner: EpisodicLearner) -> None:
    """Refuse plans whose movements are not those of the whole episode."""
    collector = learner.collector
    if isinstance(collector, ReplanningCollector) and collector.movements.clock != "episode":
        raise UserError(f"Plans on a clock of their own (plan.clock {collector.movements.clock}) are not drawn.")


def heading(agent: Agent, variant: str = "") -> str:
    """What a figure of one run is called."""
    config, steps, learner = agent.config, agent.num_timesteps, agent.training.learner
    every = plan_every(learner.collector) if isinstance(learner, EpisodicLearner) else 0
    plans = f"a plan every {every} steps" if every else ""
    label = " · ".join(filter(None, (method_name(config.method), plans, variant)))
    return f"{label} on {task_name(config.task)}, seed {config.seed}, after {steps:,} steps"


def fresh_starts(learner: EpisodicLearner, count: int, seed: int) -> EpisodeStarts:
    """First instants of episodes that training never sees, [B, ...]: those of `Agent.evaluate`."""
    return learner.collector.good_starts(episode_seeds(seed, "fresh", 0, count))


def fresh_episodes(learner: EpisodicLearner, count: int, seed: int) -> Rollout:
    """Episodes from such starts, played with exploration as in training."""
    noise = torch.randn(count, learner.primitive.num_params, generator=torch_generator(seed, "inspection", 0))
    seeds = episode_seeds(seed, "fresh", 0, count)
    rollout, _ = learner.collector.play(learner.policy, seeds, noise)
    if not len(rollout.reward):
        raise UserError(f"None of the {count} episodes of {learner.collector.spec.id} could be played to the end.")
    return rollout


def control_times(learner: EpisodicLearner) -> Tensor:
    """Seconds from the start of an episode, 0, dt, …, T dt, float64, [T + 1]."""
    spec = learner.collector.spec
    return torch.arange(spec.horizon + 1, dtype=torch.float64) * spec.dt


@torch.no_grad()
def reference_distribution(learner: EpisodicLearner, starts: EpisodeStarts, times: Tensor) -> TrajectoryDistribution:
    """The policy's Gaussians over references at times, [T], in float64; exact, without regularisation.

    Where it replans, they are those of the first plans.
    """
    check_clock(learner)
    _, _, gaussian = learner.collector.plan(learner.policy, starts)
    gaussian = gaussian.to(torch.float64)
    return learner.primitive.distribution(
        gaussian.mean.cpu(),
        gaussian.matrix_factor().cpu(),
        times,
        init_time=0.0,
        init_position=torch.from_numpy(starts.position),
        init_velocity=torch.from_numpy(starts.velocity),
        regularization=0.0,
    )
