"""Single episodes, played and watched: what went in, what came out, and what the robot did in between.

Axes: `T` control steps, `S` observation entries, `D` degrees of freedom, `A` action entries, `n` steps made.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from top_erl.errors import UserError
from top_erl.primitives import Primitive
from top_erl.tasks import GymnasiumTask, Task
from top_erl.tasks.contract import Array


@dataclass(frozen=True)
class Trial:
    """One episode."""

    seed: int
    first: Array
    """First observation, [S]."""
    start: Array
    """Measured position at the start, [D]."""
    start_velocity: Array
    """Measured velocity at the start, [D]."""
    reference: Array
    """Positions, then velocities, [T, 2D]."""
    observation: Array
    """Before each step, [T, S]."""
    last: Array | None
    """After the last step, [S]; only of tasks with a goal rule."""
    reward: Array
    """Of each step, [T]."""
    metrics: dict[str, float]
    """After the last step."""
    position: Array | None
    """Measured before each step, [n, D]; None if nobody can say."""
    velocity: Array | None
    """Likewise, [n, D]."""
    action: Array | None
    """What the controller chose in each step, [n, A]; None if the task is not made of a step environment."""
    steps: int
    """n: steps made before the environment ended the episode."""
    begin_seconds: float
    play_seconds: float

    @property
    def total(self) -> float:
        """The return."""
        return float(self.reward.sum())


@dataclass
class _Watched:
    """What a controller was asked and answered."""

    position: list[Array] = field(default_factory=list)
    velocity: list[Array] = field(default_factory=list)
    action: list[Array] = field(default_factory=list)


def play(task: Task, seed: int, params: Array | None, primitive: Primitive, gain: float = 1.0) -> Trial:
    """Play one episode.

    Args:
        task: The task.
        seed: Seed of the episode.
        params: Parameters of the movement, [P]; None: stand still.
        primitive: What makes a movement of them.
        gain: What the controller's actions are multiplied with, before they are limited to their bounds.
    """
    began = time.perf_counter()
    starts = task.begin([seed])
    begun = time.perf_counter()
    start, speed = np.array(starts.position[0]), np.array(starts.velocity[0])
    moved = standing(task, start) if params is None else movement(task, primitive, params, start, speed)
    with _watching(task, gain) as watched:
        outcomes = task.play(moved[None])
    ended = time.perf_counter()
    observation = np.array(outcomes.observation[0])
    position, velocity = _measured(task, observation, watched)
    return Trial(
        seed=seed,
        first=np.array(starts.observation[0]),
        start=start,
        start_velocity=speed,
        reference=moved,
        observation=observation,
        last=None if outcomes.last is None else np.array(outcomes.last[0]),
        reward=np.array(outcomes.reward[0]),
        metrics={name: float(values[0]) for name, values in outcomes.metrics.items()},
        position=position,
        velocity=velocity,
        action=np.stack(watched.action) if watched is not None and watched.action else None,
        steps=task.spec.horizon if watched is None else len(watched.action),
        begin_seconds=begun - began,
        play_seconds=ended - begun,
    )


def standing(task: Task, start: Array) -> Array:
    """A reference that stays where the robot is, [T, 2D]."""
    return np.tile(np.concatenate((start, np.zeros_like(start))), (task.spec.horizon, 1))


def movement(task: Task, primitive: Primitive, params: Array, start: Array, speed: Array) -> Array:
    """The reference of a primitive's parameters, [P], from a measured state, [D] each; [T, 2D]."""
    spec = task.spec
    reference = primitive.trajectory(
        torch.from_numpy(params),
        torch.arange(1, spec.horizon + 1, dtype=torch.float64) * spec.dt,
        init_time=0.0,
        init_position=torch.from_numpy(start),
        init_velocity=torch.from_numpy(speed),
    )
    stacked: Array = reference.stacked().numpy()
    return stacked


@contextmanager
def _watching(task: Task, gain: float) -> Iterator[_Watched | None]:
    """Note what the controller of a step environment sees and does; None for other tasks, which have none to see."""
    if not isinstance(task, GymnasiumTask):
        yield None
        return
    watched, control = _Watched(), task.control

    def noting(env: Any, desired_position: Array, desired_velocity: Array) -> Any:
        watched.position.append(np.array(task.position(env), dtype=np.float64))
        watched.velocity.append(np.array(task.velocity(env), dtype=np.float64))
        action = control(env, desired_position, desired_velocity)
        watched.action.append(np.array(action, dtype=np.float64))
        return action if gain == 1.0 else _limited(env, gain * np.asarray(action))

    task.control = noting  # type: ignore[method-assign]
    try:
        yield watched
    finally:
        del task.control  # the class's own again


def _limited(env: Any, action: Any) -> Any:
    """An action within the bounds of its space."""
    space = env.action_space
    return np.clip(action, space.low, space.high).astype(space.dtype)


def _measured(task: Task, observation: Array, watched: _Watched | None) -> tuple[Array | None, Array | None]:
    """Position and velocity before each step, [n, D] each, as the controller saw them, or read off observations."""
    if watched is not None:
        return (np.stack(watched.position), np.stack(watched.velocity)) if watched.position else (None, None)
    try:
        position, velocity = task.measured_state(observation)
    except UserError:
        return None, None
    return np.array(position), np.array(velocity)
