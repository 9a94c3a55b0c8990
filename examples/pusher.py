"""A contact task: Gymnasium's `Pusher-v5`, where an arm pushes an object to a goal. It lies elsewhere each time.

The reference drives two of the seven joints, shoulder and elbow. The others hold the arm so that it bends sideways and
its hand stays at the height of the object. Checked, then trained, from the project's root:

    top-erl check examples.pusher:PusherTask
    top-erl train --task examples.pusher:PusherTask
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
from numpy.typing import NDArray

from top_erl.tasks import GymnasiumTask, PrimitiveConfig, TaskSpec

Array = NDArray[np.float64]
Env = gym.Env[Any, Any]
DRIVEN = [0, 3]
"""Shoulder pan and elbow, of the seven joints."""


class PusherTask(GymnasiumTask):
    """Pusher-v5: the object should lie on the goal at the end."""

    spec = TaskSpec(
        id="examples/Pusher",
        observation_dim=23,
        num_dof=2,
        horizon=100,
        dt=0.05,
        metrics=("success", "distance"),
        primitive=PrimitiveConfig(num_basis=4, tau=5.0, weights_scale=0.3, goal_scale=0.5, relative_goal=True),
        return_size=50.0,
        success_rule="The object is within 10 cm of the goal at the last step.",
        description="An arm pushes an object to a goal.",
    )

    def make_env(self) -> Env:
        """Make the environment, with an object of 100 g: through its own 8 mg the hand passes as if it were air."""
        env = gym.make("Pusher-v5", render_mode="rgb_array")
        simulator: Any = env.unwrapped
        simulator.model.body("object").mass = 0.1
        mujoco.mj_setConst(simulator.model, simulator.data)
        return env

    def position(self, env: Env) -> Array:
        """Read the angles of the two joints."""
        return np.array(env.unwrapped.data.qpos[DRIVEN])  # type: ignore[attr-defined]

    def velocity(self, env: Env) -> Array:
        """Read their velocities."""
        return np.array(env.unwrapped.data.qvel[DRIVEN])  # type: ignore[attr-defined]

    def control(self, env: Env, desired_position: Array, desired_velocity: Array) -> Array:
        """Compute torques of all seven joints, in Nm: springs and dampers."""
        simulator: Any = env.unwrapped
        angle, speed = np.zeros(7), np.zeros(7)
        angle[DRIVEN], speed[DRIVEN] = desired_position, desired_velocity
        reach = 0.4 + 0.32 * np.cos(simulator.data.qpos[3])  # along the upper arm, in metres
        angle[1] = np.arcsin(min(0.26 / reach, 1.0))  # shoulder lift: the hand stays 26 cm below the shoulder
        angle[[2, 4]] = -1.5, 1.5  # upper arm and forearm rolled: the elbow moves in the plane of the table
        low, high = simulator.model.jnt_range[:7].T
        torque = 8.0 * (np.clip(angle, low, high) - simulator.data.qpos[:7]) + 1.0 * (speed - simulator.data.qvel[:7])
        return np.clip(torque, -2.0, 2.0)

    def metrics(self, env: Env, info: dict[str, Any]) -> dict[str, float]:
        """Measure how far the object is from the goal."""
        distance = -float(info["reward_dist"])
        return {"success": float(distance <= 0.1), "distance": distance}

    def measured_state(self, observation: Array) -> tuple[Array, Array]:
        """Angles and velocities of all seven joints stand first in the observation."""
        return observation[..., 0:7][..., DRIVEN], observation[..., 7:14][..., DRIVEN]
