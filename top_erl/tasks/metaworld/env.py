"""Meta-World tasks as Gymnasium step environments, for step-based methods and below the episodic tasks.

Physics, rewards and success are those of the package `metaworld`, bit for bit. Unlike there, `reset` draws a new goal
every time, from a continuous range, `reset(seed=...)` decides it, and the observation shows it.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from top_erl.errors import RunStopped, UserError, unknown_name
from top_erl.tasks.metaworld.facts import DT, HORIZON, TASKS, task_id
from top_erl.tasks.metaworld.sawyer import Saved
from top_erl.tasks.metaworld.simulator import simulator
from top_erl.tasks.rendering import SceneRenderer, mujoco

Array = NDArray[np.float64]
Instant = tuple[int, Saved]
"""Steps made, and the state of the simulator."""


class MetaworldEnv(gym.Env[Array, Array]):
    """One of the 50 tasks. Truncates after 500 steps and never terminates, even on success.

    The action moves the hand's target by up to 1 cm per axis, and opens (-1) or closes (1) the gripper. `info` holds
    what Meta-World measures: `success`, `near_object`, `grasp_success`, `grasp_reward`, `in_place_reward`,
    `obj_to_target`, `unscaled_reward`; and `is_success`, the first of them as a Boolean.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": round(1 / DT)}  # type: ignore[misc]

    def __init__(self, name: str, render_mode: str | None = None) -> None:
        """Build the simulator of a task, e.g. `reach-v3`; `render_mode="rgb_array"` for pictures."""
        if name not in TASKS:
            raise unknown_name("Meta-World task", name, TASKS)
        if render_mode not in (None, "rgb_array"):
            raise UserError(f"{task_id(name)} renders as 'rgb_array' only, not as {render_mode!r}.")
        self.name = name
        self.render_mode = render_mode
        self.simulator = simulator(name)()
        self.observation_space = self.simulator.observation_space
        self.action_space = gym.spaces.Box(-1.0, 1.0, (4,), dtype=np.float32)  # type: ignore[assignment]
        self._mocap = self.simulator.data.mocap_pos[0]  # a view: where the hand is asked to be, [3]
        self._finger = self.simulator.data.joint("r_close").qpos  # a view, [1]
        self._renderer = SceneRenderer(self.simulator.model, _camera())
        self._num_steps = HORIZON  # no episode yet
        self._has_begun = False

    @property
    def target_position(self) -> Array:
        """Where the hand is asked to be, and the right finger's slide, [4]."""
        return np.concatenate([self._mocap, self._finger])

    @property
    def task_vector(self) -> Array:
        """What was drawn for this episode, [3] or [6]: where the object and the goal are, or the goal's fixture."""
        vector: Array = self.simulator._last_rand_vec.copy()
        return vector

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Start an episode; goal and object come from the seed, or from the generator seeded last.

        Args:
            seed: Decides everything random about the episode, and about later ones without a seed.
            options: `{"task_vector": [...]}` starts from this vector instead of drawing one.
        """
        super().reset(seed=seed)
        vector = (options or {}).get("task_vector")
        observation = self.simulator.start(self.np_random, None if vector is None else self._checked_vector(vector))
        self._num_steps, self._has_begun = 0, True
        return observation, {}

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Move the hand's target and hold it for one control step, 0.0125 s."""
        if self._num_steps >= HORIZON:
            raise UserError("The episode is over (or has not begun): call reset() before step().")
        action = np.asarray(action)
        if action.shape != (4,):
            raise UserError(f"{task_id(self.name)} needs an action of shape (4,), got {action.shape}.")
        if not math.isfinite(action.sum()):
            raise RunStopped(f"{task_id(self.name)} got the action {action} at step {self._num_steps}.")
        observation, reward, info = self.simulator.advance(action)
        info["is_success"] = bool(info["success"])
        self._num_steps += 1
        return observation, float(reward), False, self._num_steps == HORIZON, info

    def save(self) -> Instant:
        """Note this instant of the episode, in a few kilobytes."""
        return self._num_steps, self.simulator.save()

    def restore(self, saved: Instant) -> None:
        """Go back to an instant noted by this environment; what follows is the same to the last bit."""
        self._num_steps, state = saved
        self.simulator.restore(state)

    def render(self) -> NDArray[np.uint8] | None:
        """Draw the scene now, [480, 640, 3]."""
        if self.render_mode is None or not self._has_begun:
            return None
        return self._renderer.render(self.simulator.data)

    def close(self) -> None:
        """Close the picture's context, if one was opened."""
        self._renderer.close()

    def _checked_vector(self, vector: Any) -> Array:
        """Return a task vector that lies in the task's range, or say what is wrong with it."""
        space = self.simulator._random_reset_space
        array = np.array(vector, dtype=np.float64)
        if array.shape != space.shape or (array < space.low).any() or (array > space.high).any():
            raise UserError(f"{task_id(self.name)} needs a task vector from {space.low} to {space.high}, got {vector}.")
        return array


def _camera() -> Any:
    """Look at the table from the robot's right, upright (Meta-World's own cameras hang upside down)."""
    camera = mujoco.MjvCamera()
    camera.lookat[:] = (0.05, 0.62, 0.12)
    camera.azimuth, camera.elevation, camera.distance = 135.0, -32.0, 1.35
    return camera
