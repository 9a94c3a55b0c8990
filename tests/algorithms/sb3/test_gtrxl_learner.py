"""GTrXL's learner: iterations, evaluation, exact resume, divergence."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from top_erl.algorithms.divergence import Diverged
from top_erl.algorithms.sb3.gtrxl import GtrxlLearner
from top_erl.algorithms.sb3.gtrxl_config import GtrxlConfig, GtrxlLearnConfig
from top_erl.algorithms.setup import Setup
from top_erl.algorithms.stepwise.config import StepCollectConfig
from top_erl.errors import UserError
from top_erl.models.gtrxl import GatedTransformerConfig
from top_erl.tasks import make_task


def _learner(seed: int = 3, reward_scale: float = 1.0, **learn: Any) -> GtrxlLearner:
    task = make_task("top_erl/ViaPointReacher-v0")
    config = GtrxlConfig(
        collect=StepCollectConfig(environments=3, steps=300, reward_scale=reward_scale),
        network=GatedTransformerConfig(width=16, heads=2, head_width=8, layers=2, mlp_width=16),
        learn=GtrxlLearnConfig(**{"epochs": 2, "batch_size": 100, **learn}),
    )
    device = torch.device("cpu")
    setup = Setup(task, task.spec, seed=seed, total_iterations=4, device=device)
    return GtrxlLearner(config, setup)


@pytest.fixture
def learners() -> Iterator[Callable[..., GtrxlLearner]]:
    made: list[GtrxlLearner] = []

    def make(**options: Any) -> GtrxlLearner:
        made.append(_learner(**options))
        return made[-1]

    yield make
    for learner in made:
        learner.close()


def test_an_iteration(learners: Callable[..., GtrxlLearner]) -> None:
    learner = learners()
    stats = learner.iterate(1)
    assert learner.env_steps == 300
    assert learner.episodes_collected == 6
    assert len(stats.exploration.returns) == 6
    assert set(stats.numbers) == set(learner.columns)
    assert stats.numbers["entropy"] == pytest.approx(5 * 1.4189, abs=0.1)  # five joints, standard deviation 1
    assert 0.0 <= stats.numbers["clip_fraction"] <= 1.0
    scores = learner.evaluate([5, 6, 7])
    assert scores.returns.shape == (3,)
    assert np.array_equal(scores.returns, learner.evaluate([5, 6, 7]).returns)
    assert learner.evaluate([6]).returns[0] == pytest.approx(scores.returns[1], rel=1e-4)
    assert len(learner.film(5, 25)) == 2


@pytest.mark.parametrize("normalize", [False, True])
def test_resume_is_exact(learners: Callable[..., GtrxlLearner], normalize: bool) -> None:
    """Two iterations in one go, and with a stop between them in which another learner takes over."""
    whole, first, second = (learners(normalize_observations=normalize) for _ in range(3))
    whole.iterate(1)
    whole.evaluate([1, 2])
    expected = whole.iterate(2)

    first.iterate(1)
    second.load_state_dict({name: value.clone() for name, value in first.state_dict().items()})
    second.episodes_collected, second.env_steps = first.episodes_collected, first.env_steps
    torch.manual_seed(99)  # other randomness of the process does not matter
    found = second.iterate(2)

    assert found.numbers == expected.numbers
    assert np.array_equal(found.exploration.returns, expected.exploration.returns)
    for name, value in whole.state_dict().items():
        assert torch.equal(value, second.state_dict()[name]), name


@pytest.mark.parametrize(
    ("clip", "of", "change", "error"),
    [(3.0, "change", 3.0, math.inf), (3.0, "error", None, 3.0), (0.0, "change", None, math.inf)],
)
def test_what_the_critics_clip_bounds(
    learners: Callable[..., GtrxlLearner], clip: float, of: str, change: float | None, error: float
) -> None:
    model = learners(critic_clip=clip, critic_clip_of=of).model
    assert model.policy.error_clip == error
    assert (None if model.clip_range_vf is None else model.clip_range_vf(1.0)) == change


def test_another_seed_is_another_run(learners: Callable[..., GtrxlLearner]) -> None:
    returns = [learners(seed=seed).iterate(1).exploration.returns for seed in (3, 3, 4)]
    assert np.array_equal(returns[0], returns[1])
    assert not np.array_equal(returns[0], returns[2])


def test_a_loss_that_explodes_stops_the_run(learners: Callable[..., GtrxlLearner]) -> None:
    learner = learners(reward_scale=1e9, reward_clip=1e30, rate=3e-4)
    with pytest.raises(Diverged) as caught:
        learner.iterate(1)
    assert caught.value.kind == "critic"
    assert caught.value.remedy == "--learn.rate 0.0001"
    assert caught.value.batch["rewards"].shape == (100, 3)


@pytest.mark.parametrize(
    "wrong",
    [{"epochs": 0}, {"batch_size": 1}, {"rate": 0.0}, {"initial_std": 0.0}, {"critic_clip": -1.0}, {"discount": 1.1}],
)
def test_numbers_that_make_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="learn"):
        GtrxlLearnConfig(**wrong)
