"""The adapter that makes a task of your own Gymnasium environment.

Subclass `GymnasiumTask`, give it a `spec`, and say five things: how the environment is made, where its robot
is, how fast it moves, how a desired state becomes an action, and what is measured at the end.
`examples/own_environment.py` shows it.

Axes: `B` episodes, `T` control steps, `S` observation entries, `D` degrees of freedom.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from top_erl.errors import EPISODE_ERRORS, RunStopped, UserError
from top_erl.tasks.checks import checked_metrics, checked_part, checked_reference, checked_return, checked_seeds
from top_erl.tasks.contract import EpisodeOutcomes, EpisodeStarts, Task
from top_erl.tasks.observations import flat_observation
from top_erl.tasks.opengl import choose_for_environments

Array = NDArray[np.float64]
Env = gym.Env[Any, Any]


@dataclass
class Episode:
    """An episode that is being played."""

    env: Env
    seed: int
    observation: Array
    """The newest observation, [S]."""
    info: dict[str, Any]
    """The newest info."""
    step: int = 0
    """Steps made."""
    over: bool = False
    """Whether the environment ended the episode."""
    solved: bool = False
    """Whether the task was solved after any step, if `spec.metrics` names `success_any`."""
    instant: Any = None
    """The simulator's state where the next part starts, if the environment plays other episodes before this one."""
    seen: list[Array] = field(default_factory=list)
    """Observations before the steps of each part that was advanced, [n, S] each."""
    paid: list[Array] = field(default_factory=list)
    """Rewards of these steps, [n] each."""


def drawn(id: str, env: Env) -> NDArray[np.uint8]:
    """What an environment draws, [H, W, 3], or one sentence about why it does not."""
    try:
        return np.asarray(env.render(), dtype=np.uint8)
    except UserError:
        raise
    except EPISODE_ERRORS as error:
        raise RunStopped(
            f"{id} cannot be filmed: its environment raised {type(error).__name__} ({str(error).rstrip('.')}). "
            "Without a screen MuJoCo needs EGL or OSMesa (Debian, Ubuntu: apt install libegl1, or libosmesa6)."
        ) from error


class GymnasiumTask(Task):
    """A task made of a Gymnasium step environment; one instance per episode of the largest batch seen.

    An observation that is a dictionary, as in goal environments, is laid out as one row in the order of its space:
    `top_erl.tasks.observations` says how, and where to find its parts.
    """

    reward_after_end: float = 0.0
    """What each step pays that is left when the environment ends an episode early. With zero, where rewards are
    negative, ending early pays: set it to what a bad step costs, or less."""

    def __init__(self) -> None:
        """Make no environment yet; a subclass with its own `__init__` calls this one."""
        self._envs: list[Env] = []
        self._episodes: list[Episode] = []
        self._steps = 0  # steps that the episodes begun have been advanced

    @abstractmethod
    def make_env(self) -> Env:
        """Make one environment. With `render_mode="rgb_array"`, episodes can be filmed."""

    @abstractmethod
    def position(self, env: Env) -> Array:
        """Measure the position of the controlled degrees of freedom, [D]."""

    @abstractmethod
    def velocity(self, env: Env) -> Array:
        """Measure their velocity, [D]."""

    @abstractmethod
    def control(self, env: Env, desired_position: Array, desired_velocity: Array) -> Any:
        """Compute the action that tracks a desired state, [D] each, in the coming step."""

    @abstractmethod
    def metrics(self, env: Env, info: dict[str, Any]) -> Mapping[str, float]:
        """Measure what `spec.metrics` names; `env` and `info` are those of the episode's last step.

        `success_any` may be left out: it is worked out from `is_solved`.
        """

    def is_solved(self, env: Env, info: dict[str, Any]) -> bool:
        """Whether the task is solved now; asked after every step if `spec.metrics` names `success_any`.

        Override this if `metrics` takes long, or is right after the last step only.
        """
        return self.metrics(env, info).get("success", 0.0) > 0  # one that is missing is complained about at the end

    def begin(self, seeds: Sequence[int]) -> EpisodeStarts:
        """Reset one environment per seed."""
        self._episodes, self._steps = [], 0
        seeds = checked_seeds(self.spec, seeds)
        starts = [self._start(self._environment_for(index), seed) for index, seed in enumerate(seeds)]
        self._episodes = [episode for episode, _, _ in starts]
        return EpisodeStarts(
            observation=np.stack([episode.observation for episode, _, _ in starts]),
            position=np.stack([position for _, position, _ in starts]),
            velocity=np.stack([velocity for _, _, velocity in starts]),
        )

    @property
    def one_by_one(self) -> bool:
        """Whether a batch may be played in parts: yes, unless a subclass plays batches its own way."""
        return type(self).play is GymnasiumTask.play

    @property
    def plays_in_parts(self) -> bool:
        """Whether `advance` is there: yes, unless a subclass plays whole batches its own way."""
        return type(self).play is GymnasiumTask.play or type(self).advance is not GymnasiumTask.advance

    def advance(self, reference: Array) -> EpisodeStarts:
        """Track the next rows of the references, [B, n, 2D], in the episodes just begun, one after another."""
        episodes, spec = self._episodes, self.spec
        reference = checked_part(spec, reference, len(episodes), self._steps)
        count, steps = reference.shape[:2]
        self._steps += steps
        observation, position, velocity = (
            np.empty((count, size)) for size in (spec.observation_dim, spec.num_dof, spec.num_dof)
        )
        for index, episode in enumerate(episodes):
            episode.seen.append(np.empty((steps, spec.observation_dim)))
            episode.paid.append(np.zeros(steps))
            self._play_one(episode, reference[index], episode.seen[-1], episode.paid[-1])
            observation[index], position[index], velocity[index] = self._pause(episode)
        return EpisodeStarts(observation, position, velocity)

    def play(self, reference: Array) -> EpisodeOutcomes:
        """Track the references, [B, T, 2D], to the end of the episodes just begun, one after another."""
        return self.play_next(checked_reference(self.spec, reference, len(self._episodes), self._steps))

    def play_next(self, reference: Array) -> EpisodeOutcomes:
        """Track the references, [B, T, 2D], in the first B of the episodes begun; the others wait."""
        count, spec = len(reference), self.spec
        episodes, self._episodes = self._episodes[:count], self._episodes[count:]
        reference = checked_reference(spec, reference, len(episodes), self._steps)
        observation = np.empty((count, spec.horizon, spec.observation_dim))
        reward = np.zeros((count, spec.horizon))
        metrics = {name: np.empty(count) for name in spec.metrics}
        last = None if spec.goal_rule is None else np.empty((count, spec.observation_dim))
        for index, episode in enumerate(episodes):
            if self._steps:
                np.concatenate(episode.seen, out=observation[index, : self._steps])
                np.concatenate(episode.paid, out=reward[index, : self._steps])
            rest = slice(self._steps, None)
            self._play_one(episode, reference[index], observation[index, rest], reward[index, rest])
            self._settle(episode, reward[index])
            for name, value in self._measure(episode).items():
                metrics[name][index] = value
            if last is not None:
                last[index] = episode.observation
        ended_early = any(episode.step < spec.horizon for episode in episodes)  # then no goal decides what is paid
        return EpisodeOutcomes(observation, reward, metrics, last=None if ended_early else last)

    def frames(self, seed: int, reference: Array, every: int = 1) -> list[NDArray[np.uint8]]:
        """Play one episode, reference [T, 2D]; the environment's picture after each `every`-th step and the last."""
        choose_for_environments()
        self.begin([seed])
        episode = self._episodes.pop()
        if episode.env.render_mode != "rgb_array":
            raise UserError(
                f"{self.spec.id} cannot be filmed: make_env must pass render_mode='rgb_array' to its environment."
            )
        pictures: list[NDArray[np.uint8]] = []
        seen = -1  # steps made when the last picture was drawn
        for step, row in enumerate(checked_reference(self.spec, np.asarray(reference)[None], 1)[0], start=1):
            self._advance(episode, row)
            if step % every and step < self.spec.horizon:
                continue
            if episode.step > seen:  # an episode that is over keeps its last picture
                picture, seen = drawn(self.spec.id, episode.env), episode.step
            pictures.append(picture)
        return pictures

    def around(self, env: Env) -> GymnasiumTask:
        """The same task, played in an environment that exists already, one episode at a time."""
        other = copy.copy(self)
        other._envs, other._episodes, other._steps = [env], [], 0
        return other

    def close(self) -> None:
        """Close the environments."""
        envs, self._envs, self._episodes = self._envs, [], []  # forgotten, even if closing one of them fails
        for env in envs:
            env.close()

    def _environment_for(self, index: int) -> Env:
        """Find or make the environment of a batch's episode."""
        if index == len(self._envs):
            self._envs.append(self.make_env())
        return self._envs[index]

    def _start(self, env: Env, seed: int) -> tuple[Episode, Array, Array]:
        """Reset an environment; its episode, position [D] and velocity [D]."""
        observation, info = env.reset(seed=seed)
        spec, when = self.spec, f"at the start of the episode with seed {seed}"
        flat = flat_observation(env, observation)
        first = checked_return(spec.id, "observation", flat, (spec.observation_dim,), when)
        position = checked_return(spec.id, "position", self.position(env), (spec.num_dof,), when)
        velocity = checked_return(spec.id, "velocity", self.velocity(env), (spec.num_dof,), when)
        # Copies, because an environment may hand out views of its own memory.
        return Episode(env, seed, first.copy(), info), position.copy(), velocity.copy()

    def _play_one(self, episode: Episode, reference: Array, observation: Array, reward: Array) -> None:
        """Track the next rows of a reference, [n, 2D], and fill in the observations, [n, S], and rewards, [n]."""
        for step, desired in enumerate(reference):
            observation[step] = episode.observation
            reward[step] = self._advance(episode, desired)

    def _pause(self, episode: Episode) -> tuple[Array, Array, Array]:
        """What is seen and measured between two parts: observation [S], position [D] and velocity [D]."""
        spec, when = self.spec, f"after step {self._steps - 1} of the episode with seed {episode.seed}"
        position = checked_return(spec.id, "position", self.position(episode.env), (spec.num_dof,), when)
        velocity = checked_return(spec.id, "velocity", self.velocity(episode.env), (spec.num_dof,), when)
        return episode.observation, position, velocity

    def _settle(self, episode: Episode, reward: Array) -> None:
        """Re-arrange the rewards of a whole episode, [T], in place; here nothing is."""

    def _advance(self, episode: Episode, desired: Array) -> float:
        """Make one step towards a desired state, [2D]; the reward. An episode that is over stays as it is."""
        if episode.over:
            return self.reward_after_end
        spec, when = self.spec, f"at step {episode.step} of the episode with seed {episode.seed}"
        action = self.control(episode.env, desired[: spec.num_dof], desired[spec.num_dof :])
        observation, reward, terminated, truncated, episode.info = episode.env.step(action)
        shape = (spec.observation_dim,)
        flat = flat_observation(episode.env, observation)
        episode.observation = checked_return(spec.id, "observation", flat, shape, when).copy()
        episode.over = bool(terminated or truncated)
        episode.step += 1
        if "success_any" in spec.metrics and not episode.solved:
            episode.solved = self.is_solved(episode.env, episode.info)
        return float(checked_return(spec.id, "reward", reward, (), when))

    def _measure(self, episode: Episode) -> dict[str, float]:
        """Read the metrics after an episode's last step."""
        values = self.metrics(episode.env, episode.info)
        if "success_any" in self.spec.metrics:
            values = {"success_any": float(episode.solved), **values}
        return checked_metrics(self.spec, values, episode.seed)
