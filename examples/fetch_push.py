"""A contact task: `FetchPushDense-v4` of gymnasium-robotics, where a gripper pushes a block to a goal on a table.

The reference moves the closed gripper over the table, two coordinates in metres. Checked, then trained, from the
project's root:

    pip install -c constraints.txt gymnasium-robotics
    top-erl check examples.fetch_push:FetchPushTask
    top-erl train --task examples.fetch_push:FetchPushTask --total-env-steps 120000
"""

from typing import Any

import gymnasium as gym
import gymnasium_robotics
import numpy as np

from top_erl.tasks import Array, Env, GymnasiumTask, PrimitiveConfig, TaskSpec

gym.register_envs(gymnasium_robotics)
HEIGHT, DT = 0.425, 0.04
"""Metres of the gripper above the floor, where the middle of the block is, and seconds per step."""


def hand(env: Env) -> Array:
    """Where the gripper is, [3]."""
    return env.unwrapped.data.site("robot0:grip").xpos.copy()


def towards(env: Env, point: Array) -> Array:
    """The action that moves the gripper to a point as fast as it can, [4]."""
    return np.append(np.clip(20.0 * (point - hand(env)), -1.0, 1.0), 0.0).astype(np.float32)


class BehindTheBlock(gym.Wrapper):
    """Episodes start with the gripper 7 cm behind the block, seen from the goal; it is carried there over the table.

    It starts amid the blocks else, where most chance touches push them away from the goal. Of the 31 numbers that are
    observed, those that matter in the plane are left: gripper, its velocity, block, and from there to the goal, [8].
    """

    observation_space = gym.spaces.Box(-np.inf, np.inf, (8,))

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Reset the environment, then place the gripper."""
        seen, info = self.env.reset(**options)
        self.velocity = np.zeros(3)
        way = seen["desired_goal"] - seen["achieved_goal"]
        place = (seen["achieved_goal"] - 0.07 * way / np.linalg.norm(way))[:2]
        for point in (np.append(hand(self)[:2], 0.55), np.append(place, 0.55), np.append(place, HEIGHT)):
            for _ in range(6):
                seen = self.unwrapped.step(towards(self, point))[0]  # no step of the episode
        return self.flat(seen), info

    def step(self, action: Array) -> Any:
        """Make a step; the gripper is dragged along and moves unevenly, so its velocity is that of the whole step."""
        before, (seen, *rest) = hand(self), self.env.step(action)
        self.velocity = (hand(self) - before) / DT
        return self.flat(seen), *rest

    def flat(self, seen: dict[str, Array]) -> Array:
        """What matters in the plane."""
        block, goal = seen["achieved_goal"][:2], seen["desired_goal"][:2]
        return np.concatenate([hand(self)[:2], self.velocity[:2], block, goal - block])


class FetchPushTask(GymnasiumTask):
    """FetchPush: the block should lie on the goal at the end."""

    spec = TaskSpec(
        id="examples/FetchPush",
        observation_dim=8,
        num_dof=2,
        horizon=50,
        dt=DT,
        metrics=("success",),
        primitive=PrimitiveConfig(num_basis=3, tau=2.0, weights_scale=0.1, goal_scale=0.2, relative_goal=True),
        success_rule="The block is within 5 cm of the goal at the last step.",
    )

    def make_env(self) -> Env:
        """Make the environment."""
        return BehindTheBlock(gym.make("FetchPushDense-v4", render_mode="rgb_array"))

    def position(self, env: Env) -> Array:
        """Where the gripper is over the table."""
        return hand(env)[:2]

    def velocity(self, env: Env) -> Array:
        """How fast it moves there."""
        return env.velocity[:2]

    def measured_state(self, observation: Array) -> tuple[Array, Array]:
        """Say where an observation holds both."""
        return observation[..., :2], observation[..., 2:4]

    def control(self, env: Env, desired_position: Array, desired_velocity: Array) -> Array:
        """Follow the reference at the block's height."""
        return towards(env, np.append(desired_position, HEIGHT))

    def metrics(self, env: Env, info: dict[str, Any]) -> dict[str, float]:
        """Whether the block is on the goal."""
        return {"success": float(info["is_success"])}
