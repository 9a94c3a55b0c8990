"""Dictionaries as observations: goal environments without a wrapper of the user's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from top_erl.errors import UserError
from top_erl.tasks import GymnasiumTask, TaskSpec, observation_slices
from top_erl.tasks.contract import Array
from top_erl.tasks.observations import flat_observation
from top_erl.tasks.stepping import StepEnvironment


def _box(size: int) -> gym.spaces.Box:
    return gym.spaces.Box(-np.inf, np.inf, (size,), np.float64)


class GoalEnv(gym.Env[Any, Any]):
    """A point that should be at a goal; it observes as Gymnasium-Robotics' environments do."""

    def __init__(self, forget: bool = False) -> None:
        names = {"observation": 4, "achieved_goal": 2, "desired_goal": 2}
        self.observation_space = gym.spaces.Dict({name: _box(size) for name, size in names.items()})
        self.action_space = gym.spaces.Box(-9.0, 9.0, (2,), np.float64)
        self.forget = forget

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.place, self.speed, self.goal = np.zeros(2), np.zeros(2), self.np_random.normal(size=2)
        return self._seen(), {}

    def step(self, action: Array) -> Any:
        self.speed = np.asarray(action, dtype=np.float64)
        self.place = self.place + 0.1 * self.speed
        return self._seen(), -float(np.linalg.norm(self.place - self.goal)), False, False, {}

    def _seen(self) -> dict[str, Array]:
        seen = {"observation": np.append(self.place, self.speed), "achieved_goal": self.place}
        return seen if self.forget else {**seen, "desired_goal": self.goal}


class GoalTask(GymnasiumTask):
    spec = TaskSpec("tests/Goal", observation_dim=8, num_dof=2, horizon=5, dt=0.1, metrics=("x",))
    forget = False

    def make_env(self) -> GoalEnv:
        return GoalEnv(self.forget)

    def position(self, env: Any) -> Array:
        place: Array = env.place
        return place

    def velocity(self, env: Any) -> Array:
        speed: Array = env.speed
        return speed

    def control(self, env: Any, desired_position: Array, desired_velocity: Array) -> Array:
        action: Array = (desired_position - env.place) / 0.1 + 0 * desired_velocity
        return action

    def metrics(self, env: Any, info: dict[str, Any]) -> Mapping[str, float]:
        return {"x": float(env.place[0])}


def test_a_goal_environment_is_laid_out_in_gymnasiums_order() -> None:
    task = GoalTask()
    starts = task.begin([7])
    env = GoalEnv()
    seen, _ = env.reset(seed=7)
    np.testing.assert_array_equal(starts.observation[0], gym.spaces.utils.flatten(env.observation_space, seen))
    parts = observation_slices(env.observation_space)
    assert parts == {"achieved_goal": slice(0, 2), "desired_goal": slice(2, 4), "observation": slice(4, 8)}
    for name, part in parts.items():
        np.testing.assert_array_equal(starts.observation[0, part], seen[name])
    reference = np.random.default_rng(0).normal(size=(1, 5, 4))
    outcomes = task.play(reference)
    np.testing.assert_allclose(outcomes.observation[0, 1:, parts["achieved_goal"]], reference[0, :-1, :2])


def test_methods_that_act_per_step_see_the_same() -> None:
    task = GoalTask()
    steps = StepEnvironment(task)
    np.testing.assert_array_equal(steps.reset(7), task.begin([7]).observation[0])
    assert steps.step(np.ones(2)).observation.tolist()[4:] == pytest.approx([0.1, 0.1, 1.0, 1.0])


def test_inner_dictionaries_have_names_with_a_slash() -> None:
    inner = gym.spaces.Dict({"angle": _box(3), "speed": gym.spaces.Discrete(2)})
    space = gym.spaces.Dict({"robot": inner, "goal": _box(2)})
    parts = observation_slices(space)
    assert parts == {"goal": slice(0, 2), "robot/angle": slice(2, 5), "robot/speed": slice(5, 7)}
    assert observation_slices(_box(4)) == {"": slice(0, 4)}


def test_a_dictionary_that_its_space_does_not_describe_is_named() -> None:
    task = GoalTask()
    task.forget = True
    with pytest.raises(UserError, match=r"a dict as its observation at the start .* with the same names"):
        task.begin([0])
    plain = (0.0, 1.0)
    assert flat_observation(GoalEnv(), plain) is plain


def test_help_explains_every_field_of_the_facts() -> None:
    text = TaskSpec.__doc__ or ""
    for name in TaskSpec.__dataclass_fields__:
        assert f"\n        {name}: " in text, name
