"""Settings of a run are checked where they are made, and presets fill them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conftest import TOY
from top_erl.algorithms.top_erl import TopErlRun
from top_erl.algorithms.top_erl.config import CollectConfig, LearnConfig, TrustRegionConfig
from top_erl.config.run import (
    CheckpointConfig,
    EvaluationConfig,
    HardwareConfig,
    RunConfig,
)
from top_erl.errors import UserError
from top_erl.experiment.presets import preset
from top_erl.models import CriticConfig, PolicyConfig
from top_erl.primitives import PrimitiveConfig, make_primitive
from top_erl.tasks import make_task

REACHER = "top_erl/ViaPointReacher-v0"


@pytest.mark.parametrize(
    ("make", "option"),
    [
        (lambda: RunConfig(seed=-1), "seed"),
        (lambda: RunConfig(total_env_steps=0), "total_env_steps"),
        (lambda: EvaluationConfig(interval=0), "evaluation.interval"),
        (lambda: EvaluationConfig(episodes=0), "evaluation.episodes"),
        (lambda: CheckpointConfig(interval=0), "checkpoint.interval"),
        (lambda: CheckpointConfig(keep=0), "checkpoint.keep"),
        (lambda: HardwareConfig(threads=-1), "threads must"),
        (lambda: HardwareConfig(workers=-2), "workers at least"),
        (lambda: CollectConfig(episodes=0), "collect.episodes"),
        (lambda: CollectConfig(prefill=-1), "collect.prefill"),
        (lambda: CollectConfig(capacity=10, prefill=11), "collect.capacity"),
        (lambda: CollectConfig(reward_scale=0.0), "collect.reward_scale"),
        (lambda: CollectConfig(reward_scale=float("nan")), "collect.reward_scale"),
        (lambda: LearnConfig(critic_rate=0.0), "learn.critic_rate"),
        (lambda: LearnConfig(batch_size=0), "learn.batch_size"),
        (lambda: LearnConfig(discount=1.1), "learn.discount"),
        (lambda: LearnConfig(target="ensemble", ensemble_size=1), "learn.ensemble_size"),
        (lambda: TrustRegionConfig(mean_bound=0.0), "trust_region.mean_bound"),
        (lambda: TrustRegionConfig(anchor_rate=0.0), "trust_region.anchor_rate"),
        (lambda: TrustRegionConfig(regression_weight=-1.0), "trust_region.regression_weight"),
        (lambda: CriticConfig(width=63), "critic.width"),
        (lambda: CriticConfig(dropout=1.0), "critic.dropout"),
        (lambda: PolicyConfig(hidden=()), "policy.hidden"),
        (lambda: PolicyConfig(initial_std=1e-6), "policy.initial_std"),
    ],
)
def test_bad_values_are_refused_by_name(make: Callable[[], object], option: str) -> None:
    with pytest.raises(UserError) as caught:
        make()
    assert option in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("steps", "iterations"),
    [(1, 1), (50 * 32, 1), (50 * 40, 1), (50 * 40 + 1, 2), (50 * 48, 2), (200_000, 496)],
)
def test_iterations_use_up_the_steps(steps: int, iterations: int) -> None:
    config = TopErlRun(total_env_steps=steps)  # 8 episodes an iteration, 32 before the first
    assert config.total_iterations(horizon=50) == iterations


def test_primitive_has_the_tasks_shape() -> None:
    task = make_task(TOY)
    primitive = make_primitive(PrimitiveConfig(num_basis=3), task.spec.num_dof, task.spec.dt)
    assert (primitive.num_dof, primitive.dt, primitive.num_params) == (2, 0.1, 8)


def test_scales_differ_as_they_should() -> None:
    laptop, paper = (preset("top_erl", REACHER, scale, seed=2) for scale in ("laptop", "paper"))
    for config in (laptop, paper):
        assert (config.task, config.seed, config.method) == (REACHER, 2, "top_erl")
        assert config.primitive == make_task(REACHER).spec.primitive
    assert (laptop.scale, paper.scale) == ("laptop", "paper")
    tokens = 50 // laptop.algorithm.collect.stride
    assert 25 <= tokens <= 50
    assert not laptop.algorithm.collect.overlap
    # The published settings.
    assert paper.algorithm.critic == CriticConfig(width=128, heads=8, layers=2)
    assert paper.algorithm.learn.critic_rate == 5e-5
    assert paper.algorithm.learn.batch_size == 256
    assert paper.algorithm.segments.count == 25
    assert paper.algorithm.trust_region.anchor_rate == 0.005
    assert paper.algorithm.collect.overlap
    assert paper.algorithm.collect.stride == make_task(REACHER).spec.stride


def test_a_short_task_keeps_every_step() -> None:
    assert preset("top_erl", TOY, "laptop").algorithm.collect.stride == 1


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("toperl", REACHER, "laptop"), "Unknown method 'toperl'; did you mean 'top_erl'?"),
        (("top_erl", REACHER, "papr"), "Unknown scale 'papr'; did you mean 'paper'?"),
        (("top_erl", "ViaPointReacher", "paper"), f"Unknown task 'ViaPointReacher'; did you mean '{REACHER}'?"),
        (("top_erl", "nowhere:Task", "paper"), "Cannot import the task 'nowhere:Task'"),
        (("top_erl", "tests.rollout.toy_tasks:Tay", "paper"), "has no class or function 'Tay'"),
    ],
)
def test_unknown_names(names: tuple[str, str, str], message: str) -> None:
    with pytest.raises(UserError) as caught:
        preset(*names)
    assert message in str(caught.value)
