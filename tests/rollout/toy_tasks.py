"""Small tasks that worker processes can import. Kept free of torch, so that a worker's modules can be looked at."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np

from top_erl.errors import UserError
from top_erl.tasks import EpisodeOutcomes, EpisodeStarts, GoalRule, GymnasiumTask, PrimitiveConfig, Task, TaskSpec
from top_erl.tasks.contract import Array

SPEC = TaskSpec(
    id="toy",
    observation_dim=3,
    num_dof=2,
    horizon=6,
    dt=0.1,
    metrics=("success", "last"),
    primitive=PrimitiveConfig(num_basis=2, tau=0.6),
)


class ToyTask(Task):
    """Two degrees of freedom that follow the reference exactly.

    Observation: a number drawn from the seed, then the position before the step. Reward of step i: 2^i plus the
    seed's number, so that sums of blocks can be told apart.
    """

    spec = SPEC

    def __init__(self) -> None:
        self.seeds: list[int] = []

    def begin(self, seeds: Sequence[int]) -> EpisodeStarts:
        self.seeds = list(seeds)
        position = np.tile([0.5, -0.5], (len(seeds), 1))
        velocity = np.tile([0.1, 0.2], (len(seeds), 1))
        return EpisodeStarts(np.concatenate((self.context(), position), axis=1), position, velocity)

    def play(self, reference: Array) -> EpisodeOutcomes:
        count = len(self.seeds)
        assert reference.shape == (count, 6, 4), "the reference belongs to other episodes"
        start = np.tile([0.5, -0.5], (count, 1, 1))
        position = np.concatenate((start, reference[:, :-1, :2]), axis=1)  # before each step
        observation = np.concatenate((np.repeat(self.context()[:, None], 6, axis=1), position), axis=2)
        reward = 2.0 ** np.arange(6) + self.context()
        last = reference[:, -1, 0].copy()
        return EpisodeOutcomes(observation, reward, {"success": (last > 0).astype(float), "last": last})

    def context(self) -> Array:
        """A number per episode, [B, 1]."""
        return np.array([[np.random.default_rng(seed).uniform()] for seed in self.seeds])


class FailsAtSeed13(ToyTask):
    """Raises when an episode with seed 13 begins, or when one with seed 31 is played."""

    def begin(self, seeds: Sequence[int]) -> EpisodeStarts:
        if 13 in seeds:
            raise ZeroDivisionError("the motor fell off")
        return super().begin(seeds)

    def play(self, reference: Array) -> EpisodeOutcomes:
        if 31 in self.seeds:
            raise LookupError("the tool is lost")
        return super().play(reference)


class Complains(ToyTask):
    """Has something to say to the user."""

    def begin(self, seeds: Sequence[int]) -> EpisodeStarts:
        raise UserError("Plug in the robot.")


class ComplainsAtSeed77(ToyTask):
    """Has something to say to the user, in one of its episodes."""

    def begin(self, seeds: Sequence[int]) -> EpisodeStarts:
        if 77 in seeds:
            raise UserError("Plug in the robot.")
        return super().begin(seeds)


class Dies(ToyTask):
    """Is killed when seed 13 begins or seed 31 is played, as the system does when memory runs out."""

    def begin(self, seeds: Sequence[int]) -> EpisodeStarts:
        if 13 in seeds:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().begin(seeds)

    def play(self, reference: Array) -> EpisodeOutcomes:
        if 31 in self.seeds:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().play(reference)


class Introspective(ToyTask):
    """Measures the process it runs in."""

    spec = replace(SPEC, metrics=("torch", "pid", "interrupts_ignored", "threads"))

    def play(self, reference: Array) -> EpisodeOutcomes:
        outcomes = super().play(reference)
        facts = {
            "torch": "torch" in sys.modules,
            "pid": os.getpid(),
            "interrupts_ignored": signal.getsignal(signal.SIGINT) is signal.SIG_IGN,
            "threads": int(os.environ["OMP_NUM_THREADS"]),
        }
        metrics = {name: np.full(len(reference), float(value)) for name, value in facts.items()}
        return EpisodeOutcomes(outcomes.observation, outcomes.reward, metrics)


class NanReward(ToyTask):
    """Rewards infinity at step 4 of every second episode of a batch."""

    spec = replace(SPEC, id="toy/NanReward")
    bad = np.inf

    def play(self, reference: Array) -> EpisodeOutcomes:
        outcomes = super().play(reference)
        outcomes.reward[1::2, 4] = self.bad
        return outcomes


class NanObservation(ToyTask):
    """Observes NaN at step 2 of every second episode of a batch."""

    spec = replace(SPEC, id="toy/NanObservation")

    def play(self, reference: Array) -> EpisodeOutcomes:
        outcomes = super().play(reference)
        outcomes.observation[1::2, 2, 1] = np.nan
        return outcomes


class SlowTask(ToyTask):
    """Takes its time, so that workers pay."""

    def play(self, reference: Array) -> EpisodeOutcomes:
        time.sleep(0.02 * len(self.seeds))
        return super().play(reference)


class OtherVersion(ToyTask):
    """The same task with another success rule."""

    spec = replace(SPEC, version="2")


class PointEnv(gym.Env[Any, Any]):
    """A point on a line that is told where to go."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,))
    action_space = gym.spaces.Box(-np.inf, np.inf, (1,))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.goal = float(self.np_random.uniform(-1, 1))
        self.place = np.zeros(1)
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.place = np.asarray(action, dtype=np.float64)
        return self._observation(), -abs(float(self.place[0]) - self.goal), False, False, {}

    def _observation(self) -> Any:
        return np.array([self.place[0], self.goal])


class PointGoals(GoalRule):
    """Where the point should be."""

    entries = (1,)

    def reached(self, observation: Array) -> Array:
        return observation[..., :1]

    def as_goal(self, reached: Array) -> Array:
        return reached

    def reward(self, reached: Array, goal: Array) -> Array:
        distance: Array = np.abs(reached - goal[:, None])[..., 0]
        return -distance


class PointTask(GymnasiumTask):
    """`PointEnv` as a task; its observation does not say how fast the point moves."""

    spec = TaskSpec(
        id="toy/Point",
        observation_dim=2,
        num_dof=1,
        horizon=8,
        dt=0.1,
        metrics=("distance",),
        primitive=PrimitiveConfig(num_basis=2, tau=0.8),
        goal_rule=PointGoals(),
    )

    def make_env(self) -> gym.Env[Any, Any]:
        return PointEnv()

    def position(self, env: gym.Env[Any, Any]) -> Array:
        return np.array(env.unwrapped.place)  # type: ignore[attr-defined]

    def velocity(self, env: gym.Env[Any, Any]) -> Array:
        return np.zeros(1)

    def control(self, env: gym.Env[Any, Any], desired_position: Array, desired_velocity: Array) -> Array:
        return desired_position

    def metrics(self, env: gym.Env[Any, Any], info: dict[str, Any]) -> Mapping[str, float]:
        return {"distance": abs(env.unwrapped.place[0] - env.unwrapped.goal)}  # type: ignore[attr-defined]


class UnevenTask(PointTask):
    """Episodes with seeds below 100 take their time; tells which process played. Seed 66 fails half-way."""

    spec = replace(PointTask.spec, id="toy/Uneven", metrics=("distance", "pid"))

    def control(self, env: gym.Env[Any, Any], desired_position: Array, desired_velocity: Array) -> Array:
        seed = env.unwrapped.np_random_seed
        if seed < 100:
            time.sleep(0.01)
        if seed == 66 and env.unwrapped.place.any():  # type: ignore[attr-defined]
            raise LookupError("the tool is lost")
        return desired_position

    def metrics(self, env: gym.Env[Any, Any], info: dict[str, Any]) -> Mapping[str, float]:
        return {**super().metrics(env, info), "pid": float(os.getpid())}
