"""Hopper Jump as episodic tasks: a reference for three joints, tracked by a spring and damper at each.

Learners get the rewards that `top_erl.tasks.markov` re-arranges: what is paid from take-off on is paid at take-off. The
authors of TOP-ERL and TCE do the same. Returns do not change; `markov_reward=False` leaves the rewards as the step
environment pays them.

Axes: `B` episodes, `T` control steps, `D` joints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from top_erl.config.primitive import PrimitiveConfig
from top_erl.tasks.contract import TaskSpec
from top_erl.tasks.gymnasium_task import Env, Episode, GymnasiumTask
from top_erl.tasks.hopper_jump.rewards import NO_LANDING_DISTANCE
from top_erl.tasks.markov import rewards_at_event

if TYPE_CHECKING:  # the simulator is imported when the first episode begins
    from top_erl.tasks.hopper_jump.env import HopperJumpEnv

Array = NDArray[np.float64]

STIFFNESS, DAMPING = 1.0, 0.1
"""Action per radian and per radian/second of tracking error; an action of 1 is 200 Nm."""
_JOINTS = slice(3, 6)
_JOINT_VELOCITIES = slice(9, 12)
"""Where an observation holds the controlled joints."""

SPARSE_SPEC = TaskSpec(
    id="top_erl/HopperJumpSparse-v0",
    observation_dim=16,
    num_dof=3,
    horizon=250,
    dt=0.008,
    metrics=("max_height", "goal_dist", "landing_dist", "has_left_floor", "healthy"),
    primitive=PrimitiveConfig(num_basis=3, tau=0.8, bandwidth_factor=3.0, alpha=10.0, alpha_phase=3.0),
    stride=1,
    context_mask=(3, 4, 5, 15),
    version="1-markov",
    success_rule="There is none; the paper reports max_height, the greatest height of the torso (1.5 m is the drop).",
    description="A one-legged robot jumps high and lands on a goal; paid at the end.",
    family="hopper_jump",
    dof_names=("thigh", "leg", "foot"),
    dof_units=("rad",) * 3,
)
DENSE_SPEC = replace(
    SPARSE_SPEC,
    id="top_erl/HopperJump-v0",
    return_size=100.0,
    description="A one-legged robot jumps high and lands on a goal; paid at every step.",
)


class HopperJumpSparse(GymnasiumTask):
    """The paper's task."""

    spec = SPARSE_SPEC

    def __init__(self, markov_reward: bool = True) -> None:
        """Make the task; the simulator is built when the first episode begins.

        Args:
            markov_reward: Pay what follows take-off at take-off.
        """
        super().__init__()
        self._markov_reward = markov_reward
        if not markov_reward:
            self.spec = replace(self.spec, version="1")

    def make_env(self) -> Env:
        """Make a step environment that can be filmed."""
        from top_erl.tasks.hopper_jump.env import HopperJumpSparseEnv

        return HopperJumpSparseEnv(render_mode="rgb_array")

    def position(self, env: Env) -> Array:
        """Measure the joint angles, [D]."""
        return _hopper(env).joint_position

    def velocity(self, env: Env) -> Array:
        """Measure their velocities, [D]."""
        return _hopper(env).joint_velocity

    def control(self, env: Env, desired_position: Array, desired_velocity: Array) -> Array:
        """Pull each joint towards its desired state, with at most the motors' torque."""
        hopper = _hopper(env)
        position_error = desired_position - hopper.joint_position
        velocity_error = desired_velocity - hopper.joint_velocity
        return (STIFFNESS * position_error + DAMPING * velocity_error).clip(-1.0, 1.0)

    def metrics(self, env: Env, info: dict[str, Any]) -> Mapping[str, float]:
        """Read the metrics at the last step; `landing_dist` is as it is paid, 5 if the robot never landed."""
        landing = info["contact_dist"] or NO_LANDING_DISTANCE
        return {name: landing if name == "landing_dist" else float(info[name]) for name in self.spec.metrics}

    def measured_state(self, observation: Array) -> tuple[Array, Array]:
        """Read joint angles and velocities, [..., D] each, off observations, [..., 16]."""
        return observation[..., _JOINTS], observation[..., _JOINT_VELOCITIES]

    def _settle(self, episode: Episode, reward: Array) -> None:
        """Pay what follows take-off at take-off; rewards of a whole episode, [T]."""
        step = _hopper(episode.env).left_floor_at
        if self._markov_reward and step is not None:
            reward[:] = rewards_at_event(reward, np.arange(len(reward)) >= step)


class HopperJump(HopperJumpSparse):
    """The dense variant."""

    spec = DENSE_SPEC

    def make_env(self) -> Env:
        """Make a step environment that can be filmed."""
        from top_erl.tasks.hopper_jump.env import HopperJumpEnv

        return HopperJumpEnv(render_mode="rgb_array")


def _hopper(env: Env) -> HopperJumpEnv:
    """The environment by its type."""
    return cast("HopperJumpEnv", env)
