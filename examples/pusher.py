"""A contact task: Gymnasium's `Pusher-v5`, where an arm pushes an object to a goal. It lies elsewhere each time.

The reference moves the hand over the table, two coordinates in metres; the controller turns forces on the hand into
torques of the seven joints. Checked, then trained, from the project's root:

    top-erl check examples.pusher:PusherTask
    top-erl train --task examples.pusher:PusherTask --total-env-steps 400000
"""

import gymnasium as gym
import mujoco
import numpy as np

from top_erl.tasks import Array, Env, GymnasiumTask, PrimitiveConfig, TaskSpec


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
    )

    def make_env(self) -> Env:
        """Make the environment: another object, another start.

        The object weighs 100 g: through its own 8 mg the hand passes as if it were air. The hand starts at the table,
        between shoulder and object: from above it, random movements touch nothing.
        """
        env = gym.make("Pusher-v5", render_mode="rgb_array")
        env.unwrapped.model.body("object").mass = 0.1
        mujoco.mj_setConst(env.unwrapped.model, env.unwrapped.data)
        env.unwrapped.init_qpos[:7] = [0.19, 1.39, -0.04, -1.78, 0.0, -0.27, 0.0]
        return env

    def position(self, env: Env) -> Array:
        """Where the hand is over the table."""
        return self.hand(env)[0][:2]

    def velocity(self, env: Env) -> Array:
        """How fast it moves there."""
        return self.hand(env)[1][:2]

    def hand(self, env: Env) -> tuple[Array, Array, Array]:
        """Position and velocity of the hand, [3] each, and how joints move it, [3, 7]."""
        model, data, jacobian = env.unwrapped.model, env.unwrapped.data, np.zeros((3, 11))
        mujoco.mj_jacBody(model, data, jacobian, None, model.body("tips_arm").id)
        return data.body("tips_arm").xpos.copy(), jacobian @ data.qvel, jacobian[:, :7]

    def control(self, env: Env, desired_position: Array, desired_velocity: Array) -> Array:
        """Torques, in Nm: a spring and a damper on the hand, which hold it 27 cm below the shoulder."""
        position, velocity, jacobian = self.hand(env)
        force = 200.0 * (np.r_[desired_position, -0.27] - position) + 15.0 * (np.r_[desired_velocity, 0.0] - velocity)
        return np.clip(jacobian.T @ force, -2.0, 2.0)

    def metrics(self, env: Env, info: dict) -> dict[str, float]:
        """How far the object is from the goal."""
        return {"success": float(info["reward_dist"] >= -0.15), "distance": -info["reward_dist"]}
