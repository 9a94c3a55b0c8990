"""An agent in closed loop: its next plan, from the reference that is being tracked, its next action, whole episodes.

Axes: `A` action entries, `B` episodes, `T` control steps, `S` observation entries, `D` degrees of freedom, `P`
primitive parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray

from top_erl.algorithms.episodic import EpisodicLearner
from top_erl.algorithms.learner import StepwiseLearner
from top_erl.errors import RunStopped, UserError
from top_erl.experiment.training import Training
from top_erl.limits import Limits, check_limits
from top_erl.primitives import Reference
from top_erl.rollout.player import LocalPlayer
from top_erl.rollout.replanning import ReplanningCollector, check_parts
from top_erl.tasks import GymnasiumTask, Task, TaskSpec

Array = NDArray[np.float64]
Action = NDArray[Any]


@dataclass(frozen=True)
class PlayedEpisode:
    """One episode that an agent has played."""

    observation: Array
    """Raw observation before each step, [T, S]."""
    reference: Array
    """What was tracked during each step: positions, then velocities, [T, 2D]."""
    reward: Array
    """Reward of each step, [T]."""
    metrics: dict[str, float]
    """What the task measures at the end."""
    plans: tuple[int, ...]
    """Steps before which a plan was made, the first at 0."""


def next_reference(
    learner: EpisodicLearner,
    step: int,
    observed: Array,
    current: Array | None,
    origin: Array | None,
    *,
    noise: torch.Tensor | None,
    limits: Limits | None,
) -> Reference:
    """The plan from a step on to the end of the episode, [T - step, D] or [B, T - step, D].

    Args:
        learner: Of a policy that replans.
        step: Control steps made before.
        observed: Raw observations now, [S] or [B, S].
        current: The reference that is being tracked, [2D] or [B, 2D].
        origin: The position at the episode's start, [D] or [B, D], for movements that are those of whole episodes.
        noise: What samples are made of, [B, P]; None: the mean.
        limits: What the robot can do.
    """
    collector = learner.collector
    spec = collector.spec
    if not isinstance(collector, ReplanningCollector):
        raise UserError(
            "An agent with one plan an episode predicts whole movements, at step 0 of an episode and without a "
            "reference; one trained with --plan.every replans."
        )
    if not 0 <= step < spec.horizon:
        raise UserError(f"An episode of {spec.id} has steps 0 to {spec.horizon - 1}, not {step}.")
    expected = (*observed.shape[:-1], 2 * spec.num_dof)
    if current is None or current.shape != expected:
        raise UserError(
            f"To replan at step {step}, {spec.id} needs reference=, the position and then the velocity that are being "
            f"tracked now, of shape {expected}" + ("." if current is None else f", not {current.shape}.")
        )
    before, start = np.atleast_2d(current), _origin(collector, step, current, origin)
    reference, _, _ = collector.next_plan(learner.policy, step, np.atleast_2d(observed), before, noise, start)
    if limits is not None:
        position, velocity = np.split(before, 2, axis=-1)
        check_limits(reference.exceeds(limits, spec.dt, (position, velocity)))
    return Reference(reference.position[0], reference.velocity[0]) if observed.ndim == 1 else reference


def _origin(collector: ReplanningCollector, step: int, current: Array, origin: Array | None) -> Array | None:
    """Positions at the episodes' starts, [B, D]; at step 0 they are known already."""
    if not collector.movements.needs_origin:
        return None
    now = np.split(current, 2, axis=-1)[0]  # [D] or [B, D]
    origin = now if origin is None and step == 0 else origin
    if origin is None or origin.shape != now.shape:
        raise UserError(
            f"To replan at step {step}, {collector.spec.id} needs origin=, the position at the episode's start, of "
            f"shape {now.shape}: goals count from there" + ("." if origin is None else f"; {origin.shape} was given.")
        )
    return np.atleast_2d(origin)


def next_action(training: Training, observed: Array, step: int, alone: bool) -> Action:
    """The mean action of a step-based method; `alone` says that it was asked for nothing else."""
    spec, learner = training.spec, training.learner
    if not alone:
        raise UserError(f"{training.config.method} predicts its mean action, from an observation and a step alone.")
    if not 0 <= step < spec.horizon:
        raise UserError(f"An episode of {spec.id} has steps 0 to {spec.horizon - 1}, not {step}.")
    assert isinstance(learner, StepwiseLearner)
    return learner.act(np.atleast_2d(observed), step).reshape(*observed.shape[:-1], -1)


def play_episode(training: Training, where: Task | gym.Env[object, object] | None, seed: int) -> PlayedEpisode:
    """Play one episode with the policy's mean in this process, replanning as in an evaluation.

    Args:
        training: The agent's.
        where: A task like the one it was trained on, or an environment of it; None: the agent's own task.
        seed: Of the episode.
    """
    learner = training.learner
    if not isinstance(learner, EpisodicLearner):
        raise UserError(
            f"{training.config.method} acts step by step: ask agent.predict(observation, step=...) instead."
        )
    task, collector = _task(training.task, where), learner.collector
    if isinstance(collector, ReplanningCollector):
        check_parts(task.plays_in_parts, task.spec.id)
    player, collector.player = collector.player, LocalPlayer(task)
    try:
        rollout, scores = collector.play(learner.policy, [seed])
    finally:
        collector.player = player
    if not len(rollout.reward):
        raise RunStopped(f"The episode of {task.spec.id} with seed {seed} could not be played to the end.")
    metrics = {name: float(values[0]) for name, values in scores.metrics.items()}
    starts = (0,) if rollout.plans is None else tuple(int(start) for start in rollout.plans.start)
    return PlayedEpisode(rollout.state[0, :, :-1], rollout.reference[0], rollout.reward[0], metrics, starts)


def _task(own: Task, where: Task | gym.Env[object, object] | None) -> Task:
    """The task to play; one that cannot be the agent's is refused."""
    if isinstance(where, gym.Env):
        if not isinstance(own, GymnasiumTask):
            raise UserError(f"{own.spec.id} is not made of a step environment: pass a task, or nothing at all.")
        return own.around(where)
    task = own if where is None else where
    if not isinstance(task, Task):
        raise UserError(f"An agent plays a task or an environment, not a {type(where).__name__}.")
    if _sizes(task.spec) != _sizes(own.spec):
        raise UserError(
            f"The agent learned {own.spec.id}, whose observations, degrees of freedom, steps and dt are "
            f"{_sizes(own.spec)}; those of {task.spec.id} are {_sizes(task.spec)}."
        )
    return task


def _sizes(spec: TaskSpec) -> tuple[int, int, int, float]:
    return spec.observation_dim, spec.num_dof, spec.horizon, spec.dt
