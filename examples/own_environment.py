"""Learn smooth movements for a Gymnasium environment of your own.

The environment here is MuJoCo's `Reacher-v5`: an arm with two joints brings its fingertip to a target. To use
yours, say the five things below and pass the class to `TopErl` by its import path. From the project's root:

    python -m examples.own_environment
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from top_erl.tasks import GymnasiumTask, PrimitiveConfig, TaskSpec

Array = NDArray[np.float64]


class ReacherTask(GymnasiumTask):
    """Reacher-v5: the fingertip should rest on the target at the end."""

    # The facts: sizes, timing, what is measured, and a movement primitive that suits the robot. Its scales
    # say how far a parameter of size 1 moves the robot; here a goal parameter of 1 turns a joint by 1 rad.
    spec = TaskSpec(
        id="examples/Reacher",
        observation_dim=10,
        num_dof=2,
        horizon=50,
        dt=0.02,
        metrics=("success", "distance"),
        primitive=PrimitiveConfig(num_basis=3, weights_scale=0.3, goal_scale=1.0, relative_goal=True),
        success_rule="The fingertip is within 2.5 cm of the target at the last step.",
        description="A two-joint arm brings its fingertip to a target.",
    )

    # 1. How an environment is made. One is made per episode played at the same time. The render mode costs
    #    nothing until an episode is filmed.
    def make_env(self) -> gym.Env[Any, Any]:
        """Make the environment."""
        return gym.make("Reacher-v5", render_mode="rgb_array")

    # 2. Where the robot is: the degrees of freedom that the reference will drive.
    def position(self, env: gym.Env[Any, Any]) -> Array:
        """Read the joint angles."""
        return np.array(env.unwrapped.data.qpos[:2])  # type: ignore[attr-defined]

    # 3. How fast it moves.
    def velocity(self, env: gym.Env[Any, Any]) -> Array:
        """Read the joint velocities."""
        return np.array(env.unwrapped.data.qvel[:2])  # type: ignore[attr-defined]

    # 4. The tracking controller: which action brings the robot towards the desired state in one step. A
    #    spring and a damper do for most robots. Start soft; stiffen it until references are followed well.
    def control(self, env: gym.Env[Any, Any], desired_position: Array, desired_velocity: Array) -> Array:
        """Compute motor torques, normalised to [-1, 1]."""
        spring = 2.0 * (desired_position - self.position(env))
        damper = 0.2 * (desired_velocity - self.velocity(env))
        return np.clip(spring + damper, -1.0, 1.0)

    # 5. What is measured at the last step.
    def metrics(self, env: gym.Env[Any, Any], info: dict[str, Any]) -> Mapping[str, float]:
        """Measure how far the fingertip is from the target."""
        base = env.unwrapped
        tip, target = base.get_body_com("fingertip"), base.get_body_com("target")  # type: ignore[attr-defined]
        distance = float(np.linalg.norm(tip[:2] - target[:2]))
        return {"success": float(distance <= 0.025), "distance": distance}

    # Optional: where the first observation holds the robot's state, so a trained policy needs nothing else.
    def measured_state(self, observation: Array) -> tuple[Array, Array]:
        """Recover angles from the cosines and sines that Reacher observes; velocities are there already."""
        return np.arctan2(observation[..., 2:4], observation[..., 0:2]), observation[..., 6:8]


if __name__ == "__main__":
    from top_erl import TopErl

    # Worker processes import the task by this path; a class in the script itself they could not find.
    agent = TopErl("examples.own_environment:ReacherTask", seed=0)
    agent.learn(total_env_steps=20_000)
