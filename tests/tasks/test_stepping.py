"""Tasks one step at a time: the same episodes as those that are played whole."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from tests.algorithms.sb3.step_tasks import HORIZON, PointTask, ShortTask, broken_task
from tests.rollout.toy_tasks import PointTask as UnboundedTask
from tests.rollout.toy_tasks import ToyTask
from top_erl.errors import RunStopped, UserError
from top_erl.tasks import GymnasiumTask, Task, make_task
from top_erl.tasks.contract import Array
from top_erl.tasks.stepping import StepEnvironment
from top_erl.tasks.via_point_reacher.rules import ARM

REACHER = "top_erl/ViaPointReacher-v0"


def _reference(task: Task, seed: int) -> Array:
    """A smooth movement away from the start, [T, 2D]."""
    starts = task.begin([seed])
    spec = task.spec
    time = np.arange(1, spec.horizon + 1)[:, None] / spec.horizon  # [T, 1]
    goal = np.random.default_rng(seed).uniform(-0.3, 0.3, spec.num_dof)
    return np.concatenate([starts.position + time**2 * goal, 2 * time * goal / spec.duration], axis=1)


def _played_step_by_step(task: Task, seed: int, reference: Array) -> tuple[Array, Array, dict[str, float]]:
    """Observations before each step [T, S], rewards [T] and metrics, if the task's controller chooses the actions."""
    environment, dof = StepEnvironment(task), task.spec.num_dof
    observation = environment.reset(seed)
    observations, rewards = [], []
    for row in reference:
        env: Any = environment._env
        if isinstance(task, GymnasiumTask):
            action = task.control(env, row[:dof], row[dof:])
        else:
            action = ARM.control(observation[:dof], observation[dof : 2 * dof], row[:dof], row[dof:])
        assert not environment.over
        observations.append(observation.copy())
        observation, reward, *_ = environment.step(action)
        rewards.append(reward)
    assert environment.over
    metrics = environment.metrics()
    environment.close()
    return np.stack(observations), np.array(rewards), metrics


@pytest.mark.parametrize(
    "id",
    [REACHER, "top_erl/BoxPushingDense-v0", "top_erl/BoxPushingSparse-v0", "top_erl/HopperJump-v0"],
)
def test_same_episode_as_the_whole_one(id: str) -> None:
    """Bit for bit; Hopper Jump pays its rewards at other steps, but the same in sum."""
    task = make_task(id)
    reference = _reference(task, seed=7)
    task.begin([7])
    whole = task.play(reference[None])
    observation, reward, metrics = _played_step_by_step(task, 7, reference)
    assert np.array_equal(observation, whole.observation[0])
    if "Hopper" in id:
        assert reward.sum() == pytest.approx(whole.reward.sum(), rel=1e-12)
    else:
        assert np.array_equal(reward, whole.reward[0])
    assert metrics == {name: values[0] for name, values in whole.metrics.items()}
    task.close()


def test_same_episode_on_metaworld() -> None:
    pytest.importorskip("metaworld")
    test_same_episode_as_the_whole_one("metaworld/reach-v3")


@pytest.mark.parametrize("id", [REACHER, "top_erl/HopperJumpSparse-v0"])
def test_episodes_depend_on_their_seed_alone(id: str) -> None:
    """Whatever was played before in the same environment."""
    environment = StepEnvironment(make_task(id))
    action = np.full(environment.action_space.shape, 0.3, dtype=np.float32)

    def play(seed: int) -> list[Any]:
        return [environment.reset(seed).tolist(), *(environment.step(action).observation.tolist() for _ in range(5))]

    first = play(3)
    assert play(4) != first
    assert play(3) == first
    environment.close()


def test_time_limit_truncates() -> None:
    """An environment that never ends is cut at the horizon."""
    environment = StepEnvironment(PointTask())
    environment.reset(0)
    steps = [environment.step(np.zeros(1, dtype=np.float32)) for _ in range(HORIZON)]
    assert [step.truncated for step in steps] == [False] * (HORIZON - 1) + [True]
    assert not any(step.terminated for step in steps)
    assert environment.steps == HORIZON
    with pytest.raises(UserError, match=r"has no episode to go on with: call reset\(seed\)"):
        environment.step(np.zeros(1, dtype=np.float32))


def test_environment_may_end_early() -> None:
    environment = StepEnvironment(ShortTask())
    environment.reset(0)
    steps = [environment.step(np.ones(1, dtype=np.float32)) for _ in range(5)]
    assert (steps[-1].terminated, steps[-1].truncated, environment.over) == (True, False, True)
    assert environment.metrics() == {"missed": -steps[-1].reward}


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ("observation", "tests/Point-v0 returned NaN in its observation at step 2 of the episode with seed 6."),
        ("reward", "tests/Point-v0 returned infinity in its reward at step 2 of the episode with seed 6."),
        (
            "raises",
            "Task tests/Point-v0 raised ZeroDivisionError at step 2 of the episode with seed 6: the motor fell off",
        ),
        ("stops", "The simulation exploded (at step 2 of the episode with seed 6)."),
    ],
)
def test_what_breaks_is_said_in_a_sentence(how: str, sentence: str) -> None:
    environment = StepEnvironment(broken_task(how))
    action = np.zeros(1, dtype=np.float32)
    environment.reset(5)
    for _ in range(HORIZON):
        environment.step(action)
    environment.reset(6)
    environment.step(action)
    environment.step(action)
    with pytest.raises(RunStopped) as stopped:
        environment.step(action)
    assert str(stopped.value) == sentence


def test_tasks_without_step_environment_or_bounds() -> None:
    with pytest.raises(UserError, match="toy has no step environment: make it a GymnasiumTask, or register"):
        StepEnvironment(ToyTask())
    with pytest.raises(UserError, match="toy/Point cannot be learned step by step: its environment's action space is"):
        StepEnvironment(UnboundedTask())


def test_registered_environment_must_measure() -> None:
    """A task that is no GymnasiumTask has its metrics in the last info."""

    class Other(ToyTask):
        spec = PointTask.spec

    gym.register(PointTask.spec.id, entry_point="tests.algorithms.sb3.step_tasks:PointEnv", disable_env_checker=True)
    try:
        environment = StepEnvironment(Other())
        environment.reset(0)
        with pytest.raises(UserError, match=r"measured \[\] at the end .* its spec names \['missed'\]"):
            environment.metrics()
        step = environment.step(np.ones(1, dtype=np.float32))
        assert environment.metrics() == {"missed": -step.reward}
    finally:
        del gym.registry[PointTask.spec.id]


def test_pictures() -> None:
    environment = StepEnvironment(make_task(REACHER), filmed=True)
    environment.reset(0)
    assert environment.render().shape == (480, 480, 3)
    unfilmed = StepEnvironment(make_task(REACHER))
    unfilmed.reset(0)
    with pytest.raises(UserError, match="cannot be filmed"):
        unfilmed.render()
