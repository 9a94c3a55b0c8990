"""Small step environments as tasks, and learners of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import torch

from top_erl.algorithms.sb3.config import (
    PpoConfig,
    PpoLearnConfig,
    PpoNetworksConfig,
    SacConfig,
    SacLearnConfig,
    SacNetworksConfig,
)
from top_erl.algorithms.sb3.learner import StepLearner
from top_erl.algorithms.sb3.ppo import PpoLearner
from top_erl.algorithms.sb3.sac import SacLearner
from top_erl.algorithms.setup import Setup
from top_erl.algorithms.stepwise.config import StepCollectConfig
from top_erl.errors import RunStopped
from top_erl.tasks import GymnasiumTask, Task, TaskSpec
from top_erl.tasks.contract import Array

HORIZON = 8


class PointEnv(gym.Env[Any, Any]):
    """A point on a line that is pushed towards a goal. Ends early if told so."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,))
    action_space = gym.spaces.Box(-2.0, 2.0, (1,))

    def __init__(self, ends_at: int = 0) -> None:
        self.render_mode = "rgb_array"  # not an argument, as in many an environment
        self.ends_at = ends_at
        self.count = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.goal = float(self.np_random.uniform(-1, 1))
        self.place, self.count = 0.0, 0
        return np.array([self.place, self.goal]), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        self.place += 0.5 * float(action[0])
        self.count += 1
        missed = abs(self.place - self.goal)
        return np.array([self.place, self.goal]), -missed, self.count == self.ends_at, False, {"missed": missed}

    def render(self) -> Any:
        return np.full((2, 3, 3), self.count, dtype=np.uint8)


class PointTask(GymnasiumTask):
    """`PointEnv` as a task."""

    spec = TaskSpec(id="tests/Point-v0", observation_dim=2, num_dof=1, horizon=HORIZON, dt=0.1, metrics=("missed",))
    env: ClassVar[type[PointEnv]] = PointEnv
    ends_at: ClassVar[int] = 0

    def make_env(self) -> gym.Env[Any, Any]:
        return self.env(self.ends_at)

    def position(self, env: gym.Env[Any, Any]) -> Array:
        return np.array([env.unwrapped.place])  # type: ignore[attr-defined]

    def velocity(self, env: gym.Env[Any, Any]) -> Array:
        return np.zeros(1)

    def control(self, env: gym.Env[Any, Any], desired_position: Array, desired_velocity: Array) -> Array:
        return (2.0 * (desired_position - self.position(env))).clip(-2.0, 2.0).astype(np.float32)

    def metrics(self, env: gym.Env[Any, Any], info: dict[str, Any]) -> Mapping[str, float]:
        return {"missed": info["missed"]}


class ShortTask(PointTask):
    """Ends after five of eight steps."""

    ends_at = 5


class _BrokenEnv(PointEnv):
    """Returns NaN, infinity or nothing at all at the third step of its second episode."""

    broken: ClassVar[str] = "observation"
    resets = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.resets += 1
        return super().reset(seed=seed)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, *rest = super().step(action)
        if self.resets == 2 and self.count == 3:
            if self.broken == "raises":
                raise ZeroDivisionError("the motor fell off")
            if self.broken == "stops":
                raise RunStopped("The simulation exploded.")
            observation = observation * (np.nan if self.broken == "observation" else 1.0)
            reward = np.inf if self.broken == "reward" else reward
        return observation, reward, *rest  # type: ignore[return-value]


def broken_task(how: str) -> PointTask:
    """A task whose environment breaks: `observation`, `reward`, `raises` or `stops`."""
    env = type("BrokenEnv", (_BrokenEnv,), {"broken": how})
    made = type("BrokenTask", (PointTask,), {"env": env})()
    assert isinstance(made, PointTask)
    return made


def ppo_config(sde: bool = False, **learn: Any) -> PpoConfig:
    """Four environments, two episodes each, tiny networks."""
    return PpoConfig(
        collect=StepCollectConfig(environments=4, steps=8 * HORIZON, observe_time=True, bootstrap=False),
        networks=PpoNetworksConfig(
            policy_hidden=(8,), critic_hidden=(8,), initial_std=0.5, use_sde=sde, sde_sample_freq=3
        ),
        learn=PpoLearnConfig(**{"epochs": 2, "batch_size": 16, **learn}),
    )


def sac_config(noise: Any = "white", **learn: Any) -> SacConfig:
    """Four environments, two episodes each, tiny networks."""
    values = {"update_every": 8, "learning_starts": 40, "batch_size": 16, "buffer_size": 100, **learn}
    return SacConfig(
        collect=StepCollectConfig(environments=4, steps=8 * HORIZON, observe_time=True, bootstrap=False),
        networks=SacNetworksConfig(policy_hidden=(8,), critic_hidden=(8,), noise=noise),
        learn=SacLearnConfig(**values),
    )


CONFIGS: dict[str, PpoConfig | SacConfig] = {
    "ppo": ppo_config(critic_rate=1e-3),
    "gsde": ppo_config(sde=True, final_clip=0.0, entropy_weight=0.01),
    "sac": sac_config(),
    "pink": sac_config("pink"),
}
"""A tiny configuration of each method."""


def make_learner(
    config: PpoConfig | SacConfig, task: Task | None = None, *, seed: int = 0, total_iterations: int = 10
) -> StepLearner:
    """A learner of a task, by default of the point's."""
    task = task or PointTask()
    parts = Setup(task, task.spec, seed, total_iterations, torch.device("cpu"))
    return PpoLearner(config, parts) if isinstance(config, PpoConfig) else SacLearner(config, parts)


def with_collect(config: Any, **changes: Any) -> Any:
    """A configuration that collects otherwise."""
    return replace(config, collect=replace(config.collect, **changes))
