"""Tasks whose episodes fail in every way there is; the seed says how. Worker processes can import them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np

from tests.rollout.toy_tasks import SPEC, PointEnv, PointTask, ToyTask
from top_erl.tasks import EpisodeOutcomes, EpisodeStarts
from top_erl.tasks.contract import Array

BEGIN, PLAY, MEASURE = 1000, 2000, 3000
"""Added to what goes wrong, gives a seed with which that happens at the start, in the middle, at the end."""
RAISES, EXITS, NAN, SHAPE, CRASHES, HANGS = range(6)
HARMLESS = (RAISES, EXITS, NAN, SHAPE)
"""What does not end or block the process."""


def misbehave(seed: int, when: int) -> None:
    """Fail as the seed says, unless that is done by an answer."""
    what = seed - when
    if what == RAISES:
        raise ZeroDivisionError("the motor fell off")
    if what == EXITS:
        sys.exit(3)
    if what == CRASHES:
        os._exit(7)
    while what == HANGS:
        time.sleep(0.01)


class FailingTask(ToyTask):
    """Plays whole batches."""

    spec = replace(SPEC, id="toy/Failing")

    def begin(self, seeds: Sequence[int]) -> EpisodeStarts:
        starts = super().begin(seeds)
        observation = starts.observation
        for row, seed in enumerate(seeds):
            misbehave(seed, BEGIN)
            if seed == BEGIN + NAN:
                observation[row] = np.nan
            if seed == BEGIN + SHAPE:
                observation = observation[:, :2]
        return replace(starts, observation=observation)

    def play(self, reference: Array) -> EpisodeOutcomes:
        outcomes = super().play(reference)
        for row, seed in enumerate(self.seeds):
            misbehave(seed, PLAY)
            if seed == PLAY + NAN:
                outcomes.reward[row, 3] = np.inf
            if seed == PLAY + SHAPE:
                outcomes = replace(outcomes, reward=outcomes.reward[:, :2])
        return outcomes


class FailingEnv(PointEnv):
    """A step environment that fails as its seed says."""

    action_space = gym.spaces.Box(-2.0, 2.0, (1,))
    chosen = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        assert seed is not None
        self.chosen, self.count = seed, 0
        observation, info = super().reset(seed=seed)
        misbehave(seed, BEGIN)
        return self.spoiled(observation, BEGIN), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, *rest = super().step(action)
        self.count += 1
        if self.count == 3:
            misbehave(self.chosen, PLAY)
            observation = self.spoiled(observation, PLAY)
        return observation, *rest  # type: ignore[return-value]

    def spoiled(self, observation: Any, when: int) -> Any:
        if self.chosen == when + NAN:
            return observation * np.nan
        return observation[:1] if self.chosen == when + SHAPE else observation


class FailingSteps(PointTask):
    """Plays episodes one by one."""

    spec = replace(PointTask.spec, id="toy/FailingSteps")

    def make_env(self) -> gym.Env[Any, Any]:
        return FailingEnv()

    def metrics(self, env: gym.Env[Any, Any], info: dict[str, Any]) -> Mapping[str, float]:
        seed: int = env.unwrapped.chosen  # type: ignore[attr-defined]
        misbehave(seed, MEASURE)
        distance = super().metrics(env, info)["distance"]
        return {"distance": np.nan if seed == MEASURE + NAN else distance}


class OftenFailingEnv(FailingEnv):
    """One of five episodes fails, half of them at the start."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        assert seed is not None
        found = super().reset(seed=seed)
        self.chosen = {0: BEGIN + RAISES, 1: PLAY + RAISES}.get(seed % 10, 0)
        misbehave(self.chosen, BEGIN)
        return found


class OftenFailingSteps(FailingSteps):
    """One of five episodes fails."""

    spec = replace(PointTask.spec, id="toy/OftenFailing")

    def make_env(self) -> gym.Env[Any, Any]:
        return OftenFailingEnv()


class AlwaysFailingSteps(FailingSteps):
    """No episode can be played to the end."""

    def metrics(self, env: gym.Env[Any, Any], info: dict[str, Any]) -> Mapping[str, float]:
        raise ZeroDivisionError("the motor fell off")


class WrongSpec(FailingSteps):
    """Observes two numbers and says it were three."""

    spec = replace(PointTask.spec, id="toy/WrongSpec", observation_dim=3)
