"""What several test files share: a tiny training, and reading what it left behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

from top_erl.algorithms.top_erl import TopErlRun
from top_erl.algorithms.top_erl.config import CollectConfig, LearnConfig, TopErlConfig, TrustRegionConfig
from top_erl.algorithms.top_erl.segments import SegmentsConfig
from top_erl.config.run import CheckpointConfig, EvaluationConfig, HardwareConfig, LogConfig, RunConfig
from top_erl.experiment.training import Training
from top_erl.models import CriticConfig, PolicyConfig
from top_erl.tasks import PrimitiveConfig

TOY = "tests.rollout.toy_tasks:ToyTask"


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Undo what a run sets for the whole process."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def tiny() -> RunConfig:
    """A run of 6 iterations on the toy task that takes a tenth of a second."""
    return TopErlRun(
        task=TOY,
        total_env_steps=6 * (4 + 6 * 3),  # horizon 6, prefill 4, 6 iterations of 3 episodes
        algorithm=TopErlConfig(
            collect=CollectConfig(episodes=3, prefill=4, capacity=10, stride=2),
            policy=PolicyConfig(hidden=(8,)),
            critic=CriticConfig(width=8, heads=2, layers=1, max_positions=8),
            segments=SegmentsConfig(count=2),
            trust_region=TrustRegionConfig(),
            learn=LearnConfig(batch_size=4, critic_steps=2, policy_steps=2),
        ),
        primitive=PrimitiveConfig(num_basis=2, tau=0.6),
        evaluation=EvaluationConfig(interval=4, episodes=3),
        checkpoint=CheckpointConfig(interval=3),
        log=LogConfig(tensorboard=False),
        hardware=HardwareConfig(threads=1, workers=0),
    )


@pytest.fixture
def trainings() -> Iterator[Callable[[RunConfig], Training]]:
    """Make trainings that are closed after the test."""
    made: list[Training] = []

    def make(config: RunConfig) -> Training:
        made.append(Training(config))
        return made[-1]

    yield make
    for training in made:
        training.close()
