r"""A contact task: Gymnasium's `Pusher-v5`, where an arm pushes an object to a goal. It lies elsewhere each time.

The reference moves the hand over the table, two coordinates in metres; the controller turns forces on the hand into
torques of the seven joints. Checked, then trained, from the project's root:

    top-erl check examples.pusher:PusherTask
    top-erl train --task examples.pusher:PusherTask --total-env-steps 400000 --policy.initial-std 0.4 \
        --learn.policy-condition segment --learn.policy-statistics contexts
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


class Bent(gym.Wrapper[Any, Any, Any, Any]):
    """Starts with the hand at the table between shoulder and object: from above it, random movements touch nothing."""

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Start an episode; the object lies where the environment put it."""
        _, info = self.env.reset(**options)
        simulator: Any = self.unwrapped
        bent = [0.19, 1.39, -0.04, -1.78, 0.0, -0.27, 0.0]
        simulator.set_state(np.r_[bent, simulator.data.qpos[7:]], np.zeros(11))
        return simulator._get_obs(), info


class PusherTask(GymnasiumTask):
    """Pusher-v5: the object should lie on the goal at the end."""

    spec = TaskSpec(
        id="examples/Pusher",
        observation_dim=23,
        num_dof=2,
        horizon=100,
        dt=0.05,
        metrics=("success", "distance"),
        primitive=PrimitiveConfig(num_basis=4, tau=5.0, weights_scale=0.1, goal_scale=0.2, relative_goal=True),
        return_size=50.0,
        success_rule="The object is within 15 cm of the goal at the last step; it never starts so near.",
        description="An arm pushes an object to a goal.",
    )

    def make_env(self) -> Env:
        """Make the environment, with an object of 100 g: through its own 8 mg the hand passes as if it were air."""
        env = gym.make("Pusher-v5", render_mode="rgb_array")
        simulator: Any = env.unwrapped
        simulator.model.body("object").mass = 0.1
        mujoco.mj_setConst(simulator.model, simulator.data)
        return Bent(env)

    def position(self, env: Env) -> Array:
        """Read where the hand is over the table."""
        return self.hand(env)[0][:2]

    def velocity(self, env: Env) -> Array:
        """Read how fast it moves there."""
        return self.hand(env)[1][:2]

    def hand(self, env: Env) -> tuple[Array, Array, Array]:
        """Position and velocity of the hand, [3] each, and how joints move it, [3, 7]."""
        simulator: Any = env.unwrapped
        jacobian = np.zeros((3, simulator.model.nv))
        mujoco.mj_jacBody(simulator.model, simulator.data, jacobian, None, simulator.model.body("tips_arm").id)
        return simulator.data.body("tips_arm").xpos.copy(), jacobian @ simulator.data.qvel, jacobian[:, :7]

    def control(self, env: Env, desired_position: Array, desired_velocity: Array) -> Array:
        """Compute torques, in Nm: a spring and a damper on the hand, which hold it 27 cm below the shoulder."""
        position, velocity, jacobian = self.hand(env)
        force = 200.0 * (np.r_[desired_position, -0.27] - position) + 15.0 * (np.r_[desired_velocity, 0.0] - velocity)
        return np.clip(jacobian.T @ force, -2.0, 2.0)

    def metrics(self, env: Env, info: dict[str, Any]) -> dict[str, float]:
        """Measure how far the object is from the goal."""
        distance = -float(info["reward_dist"])
        return {"success": float(distance <= 0.15), "distance": distance}

    def measured_state(self, observation: Array) -> tuple[Array, Array]:
        """The hand's place stands in the observation, behind the joints; it begins at rest."""
        return observation[..., 14:16], np.zeros_like(observation[..., 14:16])
