"""Meta-World tasks as episodic tasks: a reference moves the hand's target and commands the gripper.

`MetaworldTask("reach-v3")` makes one; `make_task("metaworld/reach-v3")` does the same. This module has an attribute for
each task, so that `"top_erl.tasks.metaworld.task:reach-v3"` is the import path of one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from top_erl.errors import unknown_name
from top_erl.tasks.checks import checked_return
from top_erl.tasks.gymnasium_task import Env, Episode, GymnasiumTask
from top_erl.tasks.metaworld.facts import GRIPPER_START, NUM_DOF, TASKS, task_spec

if TYPE_CHECKING:
    from top_erl.tasks.metaworld.env import MetaworldEnv

Array = NDArray[np.float64]

GAIN = 100.0
"""Action per metre: the target jumps to the desired point if that is at most 1 cm away on each axis."""


class MetaworldTask(GymnasiumTask):
    """One of the 50 tasks. All episodes of a batch are played in one environment, one after another.

    A simulator takes about 30 MB and the start of an episode a few kilobytes, so `begin` notes the starts, and `play`
    goes back to each.
    """

    def __init__(self, name: str) -> None:
        """Take a task by its Meta-World name, e.g. `reach-v3`; the simulator is built by the first `begin`."""
        super().__init__()
        if name not in TASKS:
            raise unknown_name("Meta-World task", name, TASKS)
        self.name = name
        self.spec = task_spec(name)

    def make_env(self) -> MetaworldEnv:
        """Build the simulator."""
        from top_erl.tasks.metaworld.env import MetaworldEnv

        return MetaworldEnv(self.name, render_mode="rgb_array")

    def position(self, env: Any) -> Array:
        """Measure the hand's target and the right finger's slide, [4]."""
        position: Array = env.target_position
        return position

    def velocity(self, env: Any) -> Array:
        """Say zero, [4]: the target jumps, it has no velocity."""
        return np.zeros(NUM_DOF)

    def control(self, env: Any, desired_position: Array, desired_velocity: Array) -> Array:
        """Move the target to the desired point, as far as one step allows; hand on the gripper's command, [4]."""
        action: Array = GAIN * (desired_position - env.target_position)
        action[3] = desired_position[3]
        return np.minimum(np.maximum(action, -1.0), 1.0)

    def metrics(self, env: Any, info: dict[str, Any]) -> Mapping[str, float]:
        """Read Meta-World's success flag and distance at the last step."""
        return {name: float(info[name]) for name in self.spec.metrics if name != "success_any"}

    def is_solved(self, env: Any, info: dict[str, Any]) -> bool:
        """Read Meta-World's success flag after any step."""
        return bool(info["success"])

    def measured_state(self, observation: Array) -> tuple[Array, Array]:
        """Give the position and velocity, [..., 4] each, that all episodes of this task start with."""
        start = np.array([*TASKS[self.name].hand, GRIPPER_START])
        position = np.broadcast_to(start, (*observation.shape[:-1], NUM_DOF)).copy()
        return position, np.zeros_like(position)

    def _environment_for(self, index: int) -> Env:
        """Find or make the one environment that plays all episodes."""
        return super()._environment_for(0)

    def _start(self, env: Any, seed: int) -> tuple[Episode, Array, Array]:
        """Reset the environment and note the start."""
        episode, position, velocity = super()._start(env, seed)
        episode.instant = env.save()
        return episode, position, velocity

    def _play_one(self, episode: Episode, reference: Array, observation: Array, reward: Array) -> None:
        """Go back to where the episode was and track the next rows of a reference, [n, 8].

        Checks wait until the end of the part, since they cost time.
        """
        env: Any = episode.env
        env.restore(episode.instant)
        for step, row in enumerate(reference):
            observation[step] = episode.observation
            action = self.control(env, row[:NUM_DOF], row[NUM_DOF:])
            episode.observation, reward[step], _, _, episode.info = env.step(action)
            if not episode.solved:
                episode.solved = self.is_solved(env, episode.info)
        self._check(episode, observation, reward)
        episode.step += len(reference)

    def _pause(self, episode: Episode) -> tuple[Array, Array, Array]:
        """Note the instant, too: other episodes are played in the same environment before this one goes on."""
        env: Any = episode.env
        episode.instant = env.save()
        return super()._pause(episode)

    def _check(self, episode: Episode, observation: Array, reward: Array) -> None:
        """Stop if observations, [n, S], or rewards, [n], are not finite; once a part, since it costs time."""
        first, seed = episode.step, episode.seed
        for step in np.flatnonzero(~np.isfinite(observation).all(axis=1))[:1]:
            when = f"after step {first + step - 1} of the episode with seed {seed}"
            checked_return(self.spec.id, "observation", observation[step], observation[step].shape, when)
        for step in np.flatnonzero(~np.isfinite(reward))[:1]:
            when = f"at step {first + step} of the episode with seed {seed}"
            checked_return(self.spec.id, "reward", reward[step], (), when)


def __getattr__(name: str) -> Callable[[], MetaworldTask]:
    """Find a task by its name as an attribute of this module, e.g. `reach-v3`."""
    if name in TASKS:
        return functools.partial(MetaworldTask, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
