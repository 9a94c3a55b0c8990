"""A learner with made-up episodes of any shape, so that updates can be timed without a simulator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from benchmarks.sizes import Size
from top_erl.algorithms.setup import Setup
from top_erl.algorithms.top_erl.config import CollectConfig, LearnConfig, TopErlConfig, TrustRegionConfig
from top_erl.algorithms.top_erl.learner import TopErlLearner
from top_erl.algorithms.top_erl.segments import SegmentsConfig
from top_erl.models import CriticConfig, PolicyConfig
from top_erl.primitives import PrimitiveConfig, ProDmp
from top_erl.rollout.collector import EpisodeCollector
from top_erl.rollout.player import LocalPlayer
from top_erl.tasks import EpisodeOutcomes, EpisodeStarts, Task, TaskSpec
from top_erl.tasks.contract import Array


class NoiseTask(Task):
    """Observations and rewards are noise; the reference is tracked perfectly."""

    def __init__(self, size: Size) -> None:
        """Make a task of the given shapes."""
        self.spec = TaskSpec(
            id=f"noise/{size.name}",
            observation_dim=size.observation,
            num_dof=size.dof,
            horizon=size.horizon,
            dt=size.dt,
            metrics=("success",),
        )
        self._generators: list[np.random.Generator] = []

    def begin(self, seeds: Sequence[int]) -> EpisodeStarts:
        """Start episodes at random positions."""
        self._generators = [np.random.default_rng(seed) for seed in seeds]
        state = np.stack([g.normal(size=self.spec.observation_dim + self.spec.num_dof) for g in self._generators])
        observation, position = np.split(state, [self.spec.observation_dim], axis=1)
        return EpisodeStarts(observation, position, np.zeros_like(position))

    def play(self, reference: Array) -> EpisodeOutcomes:
        """Return noise."""
        shape = (self.spec.horizon, self.spec.observation_dim + 1)
        noise = np.stack([generator.normal(size=shape) for generator in self._generators])
        return EpisodeOutcomes(noise[..., :-1], noise[..., -1], {"success": np.zeros(len(noise))})


def make_learner(size: Size, segments: SegmentsConfig | None = None, episodes: int = 0) -> TopErlLearner:
    """A learner of the given size whose replay holds `episodes` (default: as the size says) made-up episodes."""
    count = episodes or size.stored or 2 * size.batch
    task = NoiseTask(size)
    primitive = ProDmp(
        PrimitiveConfig(
            num_basis=size.basis, tau=size.tau, weights_scale=0.3, goal_scale=0.3, relative_goal=size.relative_goal
        ),
        size.dof,
        size.dt,
    )
    config = TopErlConfig(
        collect=CollectConfig(episodes=1, prefill=count, capacity=count),
        policy=PolicyConfig(hidden=size.policy),
        critic=CriticConfig(width=size.width, heads=size.heads, layers=size.layers),
        segments=segments or SegmentsConfig(),
        trust_region=TrustRegionConfig(mean_bound=0.005, covariance_bound=0.0005),
        learn=LearnConfig(batch_size=size.batch, critic_rate=5e-5),
    )
    collector = EpisodeCollector(LocalPlayer(task), task.spec, primitive, seed=0)
    setup = Setup(task, task.spec, 0, 1, torch.device("cpu"), collector, primitive)
    learner = TopErlLearner(config, setup)
    learner.prefill()
    _leave_the_anchor(learner)
    return learner


@torch.no_grad()
def _leave_the_anchor(learner: TopErlLearner) -> None:
    """Move the policy a little, so that the trust region has something to project."""
    generator = torch.Generator().manual_seed(0)
    for parameter in learner.policy.parameters():
        parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))
