"""Box Pushing as episodic tasks: a reference for seven joints, tracked by springs and dampers.

Axes: `D` joints, `...` any batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from top_erl.config.primitive import PrimitiveConfig
from top_erl.tasks.box_pushing.arm import DAMPING, NUM_JOINTS, STIFFNESS
from top_erl.tasks.box_pushing.goals import BoxGoals, RelativeBoxGoals
from top_erl.tasks.box_pushing.relative import SIZE
from top_erl.tasks.contract import TaskSpec
from top_erl.tasks.gymnasium_task import Env, GymnasiumTask

if TYPE_CHECKING:  # the simulator is imported when the first episode begins
    from top_erl.tasks.box_pushing.env import BoxPushingEnv

Array = NDArray[np.float64]

DENSE_SPEC = TaskSpec(
    id="top_erl/BoxPushingDense-v0",
    observation_dim=28,
    num_dof=NUM_JOINTS,
    horizon=100,
    dt=0.02,
    metrics=("success", "success_any", "box_goal_pos_dist", "box_goal_rot_dist", "episode_energy"),
    primitive=PrimitiveConfig(
        num_basis=8,
        tau=2.0,
        bandwidth_factor=3.0,
        alpha=10.0,
        alpha_phase=3.0,
        weights_scale=0.3,
        goal_scale=0.3,
        relative_goal=False,
    ),
    stride=1,
    return_size=300.0,
    context_mask=(*range(7), *range(14, 28)),
    version="1",
    success_rule="After the last step the box is within 5 cm and 0.5 rad of the target.",
    description="A seven-joint arm pushes a box to a target pose; box and target are drawn anew; paid at every step.",
    family="box_pushing_dense",
    dof_names=tuple(f"joint{number}" for number in range(1, NUM_JOINTS + 1)),
    dof_units=("rad",) * NUM_JOINTS,
    goal_rule=BoxGoals(sparse=False),
)
SPARSE_SPEC = replace(
    DENSE_SPEC,
    id="top_erl/BoxPushingSparse-v0",
    description="A seven-joint arm pushes a box to a target pose; box and target are drawn anew; paid at the end.",
    family="box_pushing_sparse",
    goal_rule=BoxGoals(sparse=True),
)
FIXED_START_DENSE_SPEC = replace(
    DENSE_SPEC,
    id="top_erl/BoxPushingFixedStartDense-v0",
    context_mask=tuple(range(21, 28)),
    description="A seven-joint arm pushes a box from a fixed start to a random target pose; paid at every step.",
)
FIXED_START_SPARSE_SPEC = replace(
    FIXED_START_DENSE_SPEC,
    id="top_erl/BoxPushingFixedStartSparse-v0",
    description="A seven-joint arm pushes a box from a fixed start to a random target pose; paid at the end.",
    family="box_pushing_sparse",
    goal_rule=BoxGoals(sparse=True),
)

RELATIVE_DENSE_SPEC = replace(
    DENSE_SPEC,
    id="top_erl/BoxPushingDense-v1",
    observation_dim=SIZE,
    context_mask=(*range(7), *range(14, SIZE)),
    description=f"{DENSE_SPEC.description[:-1]}; also observes the target from the box.",
    goal_rule=RelativeBoxGoals(sparse=False),
)
RELATIVE_SPARSE_SPEC = replace(
    SPARSE_SPEC,
    id="top_erl/BoxPushingSparse-v1",
    observation_dim=SIZE,
    context_mask=RELATIVE_DENSE_SPEC.context_mask,
    description=f"{SPARSE_SPEC.description[:-1]}; also observes the target from the box.",
    goal_rule=RelativeBoxGoals(sparse=True),
)
JUMP_DENSE_SPEC = replace(
    DENSE_SPEC,
    id="top_erl/BoxPushingJumpDense-v0",
    success_rule="After the last step the box is within 5 cm and 0.5 rad of the target, as it is then.",
    description="A seven-joint arm pushes a box to a target pose that jumps after 0.4 to 1 s; paid at every step.",
    goal_rule=None,  # the target does not stay
)


class BoxPushingDense(GymnasiumTask):
    """The box starts anywhere and its pose is paid for at every step; the paper's dense variant."""

    spec = DENSE_SPEC
    env_class: ClassVar[str] = "BoxPushingEnv"
    """Name of the step environment in `env.py`."""

    def __init__(self, native_ccd: bool = False) -> None:
        """Make the task; the simulator is built when the first episode begins.

        Args:
            native_ccd: Use MuJoCo 3's own convex collision routine instead of that of the paper's MuJoCo version.
        """
        super().__init__()
        self._native_ccd = native_ccd

    def make_env(self) -> Env:
        """Make a step environment that can be filmed."""
        from top_erl.tasks.box_pushing import env

        made: Env = getattr(env, self.env_class)(render_mode="rgb_array", native_ccd=self._native_ccd)
        return made

    def position(self, env: Env) -> Array:
        """Measure the joint positions, [D]."""
        return cast("BoxPushingEnv", env).joint_position

    def velocity(self, env: Env) -> Array:
        """Measure the joint velocities, [D]."""
        return cast("BoxPushingEnv", env).joint_velocity

    def control(self, env: Env, desired_position: Array, desired_velocity: Array) -> Array:
        """Compute the action, [D], that pulls the joints towards a desired state, [D] each."""
        arm = cast("BoxPushingEnv", env)
        action = STIFFNESS * (desired_position - arm.joint_position) + DAMPING * (desired_velocity - arm.joint_velocity)
        clipped: Array = np.minimum(np.maximum(action, -1.0), 1.0)
        return clipped

    def metrics(self, env: Env, info: dict[str, Any]) -> Mapping[str, float]:
        """Read the last step's info."""
        return {
            "success": float(info["is_success"]),
            "box_goal_pos_dist": info["box_goal_pos_dist"],
            "box_goal_rot_dist": info["box_goal_rot_dist"],
            "episode_energy": info["episode_energy"],
        }

    def is_solved(self, env: Env, info: dict[str, Any]) -> bool:
        """Whether the box is at the target now; the info says so after the last step only."""
        return cast("BoxPushingEnv", env).at_target

    def measured_state(self, observation: Array) -> tuple[Array, Array]:
        """Read joint positions and velocities, [..., D] each, off observations, [..., S]."""
        return observation[..., :NUM_JOINTS], observation[..., NUM_JOINTS : 2 * NUM_JOINTS]


class BoxPushingSparse(BoxPushingDense):
    """The box starts anywhere and its pose is paid for at the end only; the paper's sparse variant."""

    spec = SPARSE_SPEC
    env_class = "BoxPushingSparseEnv"


class BoxPushingRelativeDense(BoxPushingDense):
    """The dense variant, which also observes the target as seen from the box."""

    spec = RELATIVE_DENSE_SPEC
    env_class = "BoxPushingRelativeEnv"


class BoxPushingRelativeSparse(BoxPushingDense):
    """The sparse variant, which also observes the target as seen from the box."""

    spec = RELATIVE_SPARSE_SPEC
    env_class = "BoxPushingRelativeSparseEnv"


class BoxPushingFixedStartDense(BoxPushingDense):
    """The box starts at the same place and its pose is paid for at every step."""

    spec = FIXED_START_DENSE_SPEC
    env_class = "BoxPushingFixedStartEnv"


class BoxPushingFixedStartSparse(BoxPushingDense):
    """The box starts at the same place and its pose is paid for at the end only."""

    spec = FIXED_START_SPARSE_SPEC
    env_class = "BoxPushingFixedStartSparseEnv"


class BoxPushingJumpDense(BoxPushingDense):
    """The target jumps in the middle of the episode; the box's pose is paid for at every step."""

    spec = JUMP_DENSE_SPEC
    env_class = "BoxPushingJumpEnv"
