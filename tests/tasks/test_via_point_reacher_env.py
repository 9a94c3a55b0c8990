"""The step environment agrees with the episodic task and keeps Gymnasium's rules."""

import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from numpy.typing import NDArray

import top_erl.tasks
from top_erl.errors import UserError
from top_erl.tasks.catalogue import register_environments
from top_erl.tasks.via_point_reacher.env import ViaPointReacherEnv
from top_erl.tasks.via_point_reacher.rules import ARM
from top_erl.tasks.via_point_reacher.task import ViaPointReacher

Array = NDArray[np.float64]
ID = "top_erl/ViaPointReacher-v0"


def reference(seed: int) -> Array:
    """A wild reference, [T, 2D]."""
    steps = np.random.default_rng(seed).normal(0.0, 0.1, (50, 10))
    return np.cumsum(steps, axis=0) + np.concatenate([ARM.start, np.zeros(5)])


@pytest.mark.parametrize("seed", [0, 17, 123456])
def test_stepping_with_the_controllers_torques_is_the_episode(seed: int) -> None:
    task, env = ViaPointReacher(), ViaPointReacherEnv()
    task.begin([seed])
    outcomes = task.play(reference(seed)[None])
    observation, _ = env.reset(seed=seed)
    for step, desired in enumerate(reference(seed)):
        assert observation.tobytes() == outcomes.observation[0, step].tobytes()
        action = ARM.control(observation[:5], observation[5:10], desired[:5], desired[5:])
        observation, reward, terminated, truncated, info = env.step(action)
        assert reward == outcomes.reward[0, step]
        assert not terminated
        assert truncated == (step == 49)
        assert ("via_distance" in info) == (step >= 24)
        assert ("is_success" in info) == (step == 49)
    for name, value in outcomes.metrics.items():
        assert info[name] == value[0]
    assert info["is_success"] == bool(outcomes.metrics["success"][0])


def test_gymnasium_checks_pass() -> None:
    check_env(gym.make(ID, render_mode="rgb_array").unwrapped)
    check_env(gym.make(ID).unwrapped)


def test_full_torque_stays_inside_the_observation_space() -> None:
    for torque in (-1.0, 1.0):
        env = ViaPointReacherEnv()
        env.reset(seed=0)
        for _ in range(50):
            observation, *_ = env.step(np.full(5, torque))
        assert env.observation_space.contains(observation)


def test_unseeded_resets_go_on_with_the_generator() -> None:
    first, second = ViaPointReacherEnv(), ViaPointReacherEnv()
    draws = [[env.reset(seed=3)[0], env.reset()[0]] for env in (first, second)]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert (draws[0][0] != draws[0][1]).any()


def test_stepping_beyond_the_end_is_explained() -> None:
    env = ViaPointReacherEnv()
    with pytest.raises(UserError, match="call reset"):
        env.step(np.zeros(5))


def test_rendering() -> None:
    env = ViaPointReacherEnv(render_mode="rgb_array")
    assert env.render() is None
    env.reset(seed=0)
    before = env.render()
    for _ in range(20):
        env.step(np.full(5, 0.2))
    after = env.render()
    assert before is not None
    assert after is not None
    assert before.shape == after.shape == (480, 480, 3)
    assert (before != after).any()
    assert env.metadata["render_fps"] == 50
    with pytest.raises(UserError, match="'human'"):
        ViaPointReacherEnv(render_mode="human")


def test_registering_twice_is_silent() -> None:
    register_environments()
    spec = gym.spec(ID)
    assert spec.max_episode_steps == ViaPointReacher.spec.horizon
    assert top_erl.tasks.task_ids()


def test_gymnasium_finds_the_environment_by_module_and_id_in_a_fresh_process() -> None:
    code = (
        "import sys, gymnasium; "
        f"env = gymnasium.make('top_erl.tasks:{ID}'); "
        "env.reset(seed=0); print('torch' in sys.modules, 'scipy' in sys.modules, 'mujoco' in sys.modules)"
    )
    command = [sys.executable, "-W", "error", "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["False", "False", "False"]
