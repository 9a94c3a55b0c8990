"""Tasks whose environments misbehave in one episode of twenty, told by its seed. Copied to where a session runs."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np

from top_erl.tasks import GymnasiumTask, PrimitiveConfig, TaskSpec
from top_erl.tasks.contract import Array

HORIZON = 10


class PointEnv(gym.Env[Any, Any]):
    """A point on a line that is pushed towards a goal."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,))
    action_space = gym.spaces.Box(-2.0, 2.0, (1,), dtype=np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Draw a goal."""
        super().reset(seed=seed)
        self.goal = float(self.np_random.uniform(-1, 1))
        self.place, self.count = 0.0, 0
        self.bad = seed is not None and seed % 20 == 0
        return np.array([self.place, self.goal]), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Move."""
        self.place += 0.5 * float(action[0])
        self.count += 1
        missed = abs(self.place - self.goal)
        if self.bad and self.count == 3:
            self.misbehave()
        return np.array([self.place, self.goal]), -missed, False, False, {"missed": missed}

    def misbehave(self) -> None:
        """What happens in the third step of a bad episode."""


class PointTask(GymnasiumTask):
    """The point as a task; its environment is well-behaved."""

    spec = TaskSpec(
        id="faults/Point-v0",
        observation_dim=2,
        num_dof=1,
        horizon=HORIZON,
        dt=0.1,
        metrics=("missed",),
        primitive=PrimitiveConfig(num_basis=2, tau=1.0),
    )
    env: ClassVar[type[PointEnv]] = PointEnv

    def make_env(self) -> gym.Env[Any, Any]:
        """Make the environment."""
        return self.env()

    def position(self, env: gym.Env[Any, Any]) -> Array:
        """Where the point is."""
        return np.array([env.unwrapped.place])  # type: ignore[attr-defined]

    def velocity(self, env: gym.Env[Any, Any]) -> Array:
        """Not measured."""
        return np.zeros(1)

    def control(self, env: gym.Env[Any, Any], desired_position: Array, desired_velocity: Array) -> Any:
        """Push towards the desired position."""
        return (2.0 * (desired_position - self.position(env))).clip(-2.0, 2.0).astype(np.float32)

    def metrics(self, env: gym.Env[Any, Any], info: dict[str, Any]) -> Mapping[str, float]:
        """How far the goal is."""
        return {"missed": info.get("missed", 0.0)}


def _task(name: str, env: type[PointEnv]) -> type[PointTask]:
    """A task with another environment, found by its name in this module."""
    return type(name, (PointTask,), {"env": env, "__module__": __name__})


class _ResetRaises(PointEnv):
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        first = super().reset(seed=seed)
        if self.bad:
            raise RuntimeError("the gripper does not answer")
        return first


class _ResetNan(PointEnv):
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = super().reset(seed=seed)
        return (observation * np.nan if self.bad else observation), info


class _StepRaises(PointEnv):
    def misbehave(self) -> None:
        raise ZeroDivisionError("the motor fell off")


class _StepNan(PointEnv):
    def misbehave(self) -> None:
        self.place = float("nan")


class _Exits(PointEnv):
    def misbehave(self) -> None:
        sys.exit("the simulator says goodbye")


class _ExitsHard(PointEnv):
    def misbehave(self) -> None:
        os._exit(3)


class _Crashes(PointEnv):
    def misbehave(self) -> None:
        os.kill(os.getpid(), signal.SIGSEGV)


class _Hangs(PointEnv):
    def misbehave(self) -> None:
        time.sleep(10_000)


class _EndsEarly(PointEnv):
    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, _, _, info = super().step(action)
        return observation, reward, self.bad and self.count == 3, False, info


class _WrongShape(PointEnv):
    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, *rest = super().step(action)
        return np.concatenate((observation, observation)), *rest  # type: ignore[return-value]


class _WrongReward(PointEnv):
    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, *rest = super().step(action)
        return observation, np.array([reward, reward]), *rest


class _MovesAway(PointEnv):
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        os.makedirs("elsewhere", exist_ok=True)
        os.chdir("elsewhere")  # deeper with every episode
        return super().reset(seed=seed)


ResetRaises = _task("ResetRaises", _ResetRaises)
ResetNan = _task("ResetNan", _ResetNan)
StepRaises = _task("StepRaises", _StepRaises)
StepNan = _task("StepNan", _StepNan)
Exits = _task("Exits", _Exits)
ExitsHard = _task("ExitsHard", _ExitsHard)
Crashes = _task("Crashes", _Crashes)
Hangs = _task("Hangs", _Hangs)
EndsEarly = _task("EndsEarly", _EndsEarly)
WrongShape = _task("WrongShape", _WrongShape)
WrongReward = _task("WrongReward", _WrongReward)
MovesAway = _task("MovesAway", _MovesAway)


class NoHorizon(PointTask):
    """An episode without steps."""

    def __init__(self) -> None:
        """Say so."""
        super().__init__()
        self.spec = replace(PointTask.spec, horizon=0)


class WrongSize(PointTask):
    """Says that there is more to observe than there is."""

    spec = replace(PointTask.spec, observation_dim=7)


class NoSpec(GymnasiumTask):
    """Says nothing of what it must say."""


class SpecIsText(PointTask):
    """Has something else where the facts should be."""

    spec = "a point that moves"


class MissingMetric(PointTask):
    """Names a metric that it does not measure."""

    spec = replace(PointTask.spec, metrics=("missed", "height"))


class CannotBeMade(PointTask):
    """Fails when it is made."""

    def __init__(self) -> None:
        """Fail."""
        raise OSError("no licence for the simulator")


def not_a_task() -> str:
    """Make something else."""
    return "a task"
