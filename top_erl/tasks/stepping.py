"""Tasks one step at a time, for methods that choose an action per control step.

A `GymnasiumTask` brings its own step environment; any other task needs one that is registered with Gymnasium under the
task's id and puts the metrics into the last `info`. Actions are the environment's own (torques, or whatever it takes),
rewards are those it pays.

Axes: `S` observation entries, `A` action entries.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any, NamedTuple, NoReturn

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from top_erl.errors import EPISODE_ERRORS, RunStopped, UserError
from top_erl.tasks.checks import checked_metrics, checked_return, checked_seeds
from top_erl.tasks.contract import Array, Task
from top_erl.tasks.gymnasium_task import Env, GymnasiumTask, drawn
from top_erl.tasks.observations import flat_observation
from top_erl.tasks.opengl import choose_for_environments


class Step(NamedTuple):
    """What one step led to."""

    observation: Array
    """Raw observation after the step, [S]."""
    reward: float
    """What the environment paid."""
    terminated: bool
    """Whether the environment ended the episode."""
    truncated: bool
    """Whether the time limit did."""


class StepEnvironment:
    """One step environment of a task. Plays one episode after another, each to `spec.horizon` steps at most."""

    def __init__(self, task: Task, *, filmed: bool = False) -> None:
        """Build the environment; `filmed` for pictures."""
        self.spec = task.spec
        self._task = task
        self._filmed = filmed
        if filmed:
            choose_for_environments()
        self._env = _make(task, filmed)
        self.action_space = self._checked_action_space()
        self._shape = (self.spec.observation_dim,)
        self._seed = 0
        self._info: dict[str, Any] = {}
        # Asked after every step whether it is solved; any other task's environment puts `success_any` into the info.
        self._watched = task if isinstance(task, GymnasiumTask) and "success_any" in self.spec.metrics else None
        self._solved = False
        self.observation: Array = np.zeros(self._shape)
        """The newest raw observation, [S]."""
        self.steps = 0
        """Steps made in this episode."""
        self.over = True
        """Whether there is no episode to go on with."""

    def reset(self, seed: int) -> Array:
        """Start an episode; its first raw observation, [S]."""
        (self._seed,) = checked_seeds(self.spec, [seed])
        when = f"at the start of the episode with seed {seed}"
        try:
            observation, self._info = self._env.reset(seed=self._seed)
            observation = flat_observation(self._env, observation)
        except EPISODE_ERRORS as error:
            self._fail(error, when)
        self.observation = checked_return(self.spec.id, "observation", observation, self._shape, when).copy()
        self.steps, self.over, self._solved = 0, False, False
        return self.observation

    def step(self, action: NDArray[Any]) -> Step:
        """Make one step with an action, [A], within the bounds of `action_space`."""
        if self.over:
            raise UserError(f"{self.spec.id} has no episode to go on with: call reset(seed) before step(action).")
        try:
            observation, reward, terminated, truncated, self._info = self._env.step(action)
            observation = flat_observation(self._env, observation)
            if self._watched is not None and not self._solved:
                self._solved = self._watched.is_solved(self._env, self._info)
        except EPISODE_ERRORS as error:
            self._fail(error, self._now())
        if not self._is_fine(observation, reward):
            observation = checked_return(self.spec.id, "observation", observation, self._shape, self._now())
            reward = float(checked_return(self.spec.id, "reward", reward, (), self._now()))
        self.observation = np.array(observation, dtype=np.float64)  # a copy: it may be a view of the simulator's memory
        self.steps += 1
        ended = bool(terminated)
        cut = not ended and (bool(truncated) or self.steps == self.spec.horizon)
        self.over = ended or cut
        return Step(self.observation, float(reward), ended, cut)

    def metrics(self) -> dict[str, float]:
        """Measure what `spec.metrics` names, after the episode's last step."""
        if isinstance(self._task, GymnasiumTask):
            try:
                values = self._task.metrics(self._env, self._info)
            except EPISODE_ERRORS as error:
                self._fail(error, f"at the end of the episode with seed {self._seed}")
        else:
            values = {name: self._info[name] for name in self.spec.metrics if name in self._info}
        if self._watched is not None:
            values = {"success_any": float(self._solved), **values}
        return checked_metrics(self.spec, values, self._seed)

    def render(self) -> NDArray[np.uint8]:
        """Draw the present instant, [H, W, 3]."""
        if self._env.render_mode != "rgb_array":
            raise UserError(f"{self.spec.id} cannot be filmed: its environment has no render_mode='rgb_array'.")
        return drawn(self.spec.id, self._env)

    def renew(self) -> None:
        """Take a new simulator: the old one is in no known state after an episode that failed."""
        with contextlib.suppress(*EPISODE_ERRORS):  # it may fail to close, too
            self._env.close()
        self._env = _make(self._task, self._filmed)
        self.over = True

    def close(self) -> None:
        """Release the simulator."""
        self._env.close()

    def _now(self) -> str:
        return f"at step {self.steps} of the episode with seed {self._seed}"

    def _is_fine(self, observation: object, reward: object) -> bool:
        """Whether an answer is plainly right; the full check, which can say what is wrong, takes much longer."""
        return (
            isinstance(observation, np.ndarray)
            and observation.shape == self._shape
            and isinstance(reward, (float, np.floating))
            and math.isfinite(float(observation.sum()) + float(reward))
        )

    def _fail(self, error: BaseException, when: str) -> NoReturn:
        """Say in one sentence why an episode could not go on."""
        if isinstance(error, RunStopped):
            raise RunStopped(f"{str(error).rstrip('.')} ({when}).") from error
        if isinstance(error, UserError):
            raise error
        raise RunStopped(f"Task {self.spec.id} raised {type(error).__name__} {when}: {error}") from error

    def _checked_action_space(self) -> gym.spaces.Box:
        """The bounds of actions; step-based methods cannot do without."""
        space = self._env.action_space
        if not (isinstance(space, gym.spaces.Box) and space.is_bounded() and len(space.shape) == 1):
            self._env.close()
            raise UserError(
                f"{self.spec.id} cannot be learned step by step: its environment's action space is {space}, and it "
                "must be a one-dimensional Box with finite bounds."
            )
        return space


def _make(task: Task, filmed: bool) -> Env:
    """Make the step environment of a task."""
    if isinstance(task, GymnasiumTask):
        return task.make_env()
    id = task.spec.id
    if id not in gym.registry:
        raise UserError(
            f"{id} has no step environment: make it a GymnasiumTask, or register an environment with Gymnasium "
            "under this id; methods over movement primitives need neither."
        )
    options: dict[str, Any] = {"render_mode": "rgb_array"} if filmed else {}
    return gym.make(id, disable_env_checker=True, **options)
