"""Playing a task to see what it is like: standing still, moving at random, moving a little, and all of it again.

Axes: `P` parameters of the primitive.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from top_erl.algorithms.top_erl.config import TopErlConfig
from top_erl.algorithms.top_erl.preset import top_erl_preset
from top_erl.check.trials import Trial, play
from top_erl.primitives import Primitive, make_primitive
from top_erl.tasks import Task, TaskSpec
from top_erl.tasks.contract import Array

SMALL = 0.25
"""Small movements have this part of the noise that learning starts with."""
_FEW = 4
"""Episodes that are played again, or with small movements, at most."""


@dataclass(frozen=True)
class Evidence:
    """What was played, and how."""

    task: Task
    """Still there to be asked."""
    make: Callable[[], Task]
    """Makes another one."""
    primitive: Primitive
    std: float
    """Noise of the parameters that learning starts with, at laptop scale."""
    still: list[Trial]
    """Standing still, one trial per seed."""
    random: list[Trial]
    """Random movements on the same seeds, as an untrained policy makes them with the task's own primitive. The second
    half has the movements of the first."""
    small: list[Trial]
    """A few small movements around where the robot starts."""

    @property
    def spec(self) -> TaskSpec:
        """The task's facts."""
        return self.task.spec

    def few(self, trials: list[Trial]) -> list[Trial]:
        """The first of some trials, for what takes long."""
        return trials[:_FEW]


def probe(task: Task, make: Callable[[], Task], episodes: int) -> Evidence:
    """Play a task.

    Args:
        task: The task.
        make: Makes another one.
        episodes: Seeds to play, at least 2.
    """
    spec = task.spec
    primitive = make_primitive(spec.primitive, spec.num_dof, spec.dt)
    std = _first_std(spec)
    draws = np.random.default_rng(0).standard_normal(((episodes + 1) // 2, primitive.num_params))  # [N / 2, P]
    still = [play(task, seed, None, primitive) for seed in range(episodes)]
    random = [play(task, seed, std * draws[seed % len(draws)], primitive) for seed in range(episodes)]
    small = [
        play(task, trial.seed, resting(task, primitive, trial) + SMALL * std * draw, primitive)
        for trial, draw in zip(still[:_FEW], draws, strict=False)
    ]
    return Evidence(task, make, primitive, std, still, random, small)


def _first_std(spec: TaskSpec) -> float:
    """The noise that the preset of TOP-ERL starts with, where it explores most widely."""
    algorithm = top_erl_preset(spec, "laptop").algorithm
    assert isinstance(algorithm, TopErlConfig)
    collect, std = algorithm.collect, algorithm.policy.initial_std
    return round(std * collect.wide_factor, 3) if collect.wide_share else std


def resting(task: Task, primitive: Primitive, trial: Trial) -> Array:
    """Parameters, [P], whose movement stays where an episode starts, as far as a primitive can."""
    times = torch.arange(1, task.spec.horizon + 1, dtype=torch.float64) * task.spec.dt
    place = torch.from_numpy(trial.start)
    stay = place.expand(len(times), -1)
    params: Array = primitive.fit(stay, times, 0.0, place, torch.zeros_like(place)).numpy()
    return params
