"""Box Pushing as a plain Gymnasium step environment.

Observation (28): joint positions 7, joint velocities 7, box position 3 and quaternion 4, target position 3 and
quaternion 4; the relative variants have 15 more. Action (7): torques in units of 10 Nm, added to what holds the arm up.

Poses in the observation and in the reward, and the torques that hold the arm up, are those at the beginning of the last
physics step, 0.002 s before the joint positions: nothing is recomputed after stepping. The paper's environment does
the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, SupportsFloat

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from top_erl.errors import RunStopped, UserError
from top_erl.tasks.box_pushing.arm import NUM_JOINTS, POINTING_DOWN, TORQUE_MAX, TORQUE_PER_ACTION
from top_erl.tasks.box_pushing.inverse_kinematics import InverseKinematics
from top_erl.tasks.box_pushing.model import drawing_model, simulation_model
from top_erl.tasks.box_pushing.poses import FIXED_START, Pose, draw_pose, draw_target
from top_erl.tasks.box_pushing.relative import PLAIN, SIZE, with_relative
from top_erl.tasks.box_pushing.rewards import Measurements, dense_reward, measure, sparse_reward
from top_erl.tasks.rendering import SceneRenderer, mujoco

Array = NDArray[np.float64]

HORIZON = 100
"""T: control steps per episode."""
FIRST_JUMP, LAST_JUMP = 20, 50
"""Steps before which a target that jumps may do so, both included."""
SUBSTEPS = 10
"""Physics steps per control step."""
DT = 0.02
"""Seconds per control step."""
_ROD_HEIGHT = 0.15
"""Metres from the box to the hand's tool centre at the start: the rod then ends 2 cm above the box's floor."""


class BoxPushingEnv(gym.Env[Array, Array]):
    """Seven torques in [-1, 1], 100 steps; `sparse` and `random_start` tell the variants apart.

    The last step truncates, and also terminates if the box is at the target. `info` holds `num_steps`, `episode_end`,
    and, at the last step (zero before), `is_success`, `box_goal_pos_dist`, `box_goal_rot_dist`, `episode_energy`.
    `at_target` says after every step what `is_success` says at the last.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": round(1 / DT)}  # type: ignore[misc]
    sparse: ClassVar[bool] = False
    """Whether the box's pose is paid for at the last step only."""
    random_start: ClassVar[bool] = True
    """Whether the box starts anywhere on the table."""
    observation_size: ClassVar[int] = PLAIN
    """Entries of an observation."""

    def __init__(self, render_mode: str | None = None, native_ccd: bool = False) -> None:
        """Build the simulator.

        Args:
            render_mode: `"rgb_array"` for pictures.
            native_ccd: Use MuJoCo 3's own convex collision routine instead of that of the paper's MuJoCo version.
        """
        if render_mode not in (None, "rgb_array"):
            raise UserError(f"{type(self).__name__} renders as 'rgb_array' only, not as {render_mode!r}.")
        self.render_mode = render_mode
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (self.observation_size,), dtype=np.float64)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (NUM_JOINTS,), dtype=np.float32)  # type: ignore[assignment]
        self._model = simulation_model(native_ccd)
        self._data = mujoco.MjData(self._model)
        self._connect()
        self._target = np.zeros(7)
        self._start_joints: Array | None = None
        self._num_steps = HORIZON
        self._energy = 0.0
        self.at_target = False
        """Whether the box is at the target now, by the rule of success."""
        self._film: tuple[SceneRenderer, Any] | None = None

    def _connect(self) -> None:
        """Keep views of the simulator's memory, so that steps need no look-ups."""
        data, model = self._data, self._model
        self.joint_position: Array = data.qpos[:NUM_JOINTS]
        """Positions of the arm's joints in rad, [7], a view."""
        self.joint_velocity: Array = data.qvel[:NUM_JOINTS]
        """Velocities of the arm's joints in rad/s, [7], a view."""
        box, rod = model.body("box").id, model.body("rod").id
        self._box_position, self._box_quaternion = data.xpos[box], data.xquat[box]
        self._rod_tip, self._rod_quaternion = data.site_xpos[model.site("rod_tip").id], data.xquat[rod]
        self._holding_torque = data.qfrc_bias[:NUM_JOINTS]
        self._control = data.ctrl
        self._kinematics = InverseKinematics(model, data, model.body("tool_centre").id)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Start an episode; what is random comes from the seed, or from the generator seeded last.

        Args:
            seed: Seeds the generator.
            options: `{"target": (x, y, z, qw, qx, qy, qz)}` puts the target where you want it.
        """
        super().reset(seed=seed)
        start = draw_pose(self.np_random) if self.random_start else FIXED_START
        target = draw_target(self.np_random, start)
        self._target[:] = _wanted_target(options) if options else target
        self._draw_jump(start)
        self._arrange(start)
        self._num_steps, self._energy, self.at_target = 0, 0.0, False
        return self._observe(), {}

    def step(self, action: Array) -> tuple[Array, SupportsFloat, bool, bool, dict[str, Any]]:
        """Hold torques, [7], for one control step."""
        if self._num_steps >= HORIZON:
            raise UserError("The episode is over (or has not begun): call reset() before step().")
        energy = self._apply(action)
        mujoco.mj_step(self._model, self._data, SUBSTEPS)
        self._num_steps += 1
        self._energy += energy
        self._move_target()
        last = self._num_steps == HORIZON
        if self._data.time < (self._num_steps - 0.5) * DT:  # MuJoCo starts again when numbers explode
            raise RunStopped(f"The simulation of {type(self).__name__} exploded at step {self._num_steps - 1}.")
        observation = self._observe()
        now = self.measure(observation[:PLAIN], energy)
        self.at_target = now.success
        reward = sparse_reward(now, last) if self.sparse else dense_reward(now)
        return observation, reward, last and self.at_target, last, self._info(now, last)

    def measure(self, observation: Array, energy: float) -> Measurements:
        """Measure what the reward depends on: the newest observation, [28], and the step's sum of squared torques."""
        return measure(observation.tolist(), self._rod_tip.tolist(), self._rod_quaternion.tolist(), energy)

    def render(self) -> NDArray[np.uint8] | None:
        """Draw the scene now, [480, 640, 3]."""
        if self.render_mode is None or (self._num_steps == HORIZON and self._data.time == 0.0):
            return None
        if self._film is None:
            model = drawing_model()
            self._film = SceneRenderer(model, camera="front"), mujoco.MjData(model)
        renderer, data = self._film
        data.qpos[:] = self._data.qpos
        data.mocap_pos[0], data.mocap_quat[0] = self._target[:3], self._target[3:]
        mujoco.mj_forward(data.model, data)
        return renderer.render(data)

    def close(self) -> None:
        """Release what pictures needed."""
        if self._film is not None:
            self._film[0].close()
            self._film = None

    def _draw_jump(self, start: Pose) -> None:
        """Decide where and when the target jumps; here it never does."""

    def _move_target(self) -> None:
        """Let the target jump, if it is time."""

    def _arrange(self, start: Pose) -> None:
        """Put the box at its start and the rod into it, at rest."""
        model, data = self._model, self._data
        mujoco.mj_resetData(model, data)
        if self.random_start or self._start_joints is None:
            x, y, z = start[:3]
            self._start_joints = self._kinematics.solve((x, y, z + _ROD_HEIGHT), POINTING_DOWN)
        self.joint_position[:] = self._start_joints
        data.qpos[-7:] = start
        mujoco.mj_forward(model, data)

    def _apply(self, action: Array) -> float:
        """Command an action; the sum of its squared torques."""
        if np.shape(action) != (NUM_JOINTS,):
            raise UserError(f"An action of {type(self).__name__} has shape (7,), not {np.shape(action)}.")
        torque = TORQUE_PER_ACTION * np.minimum(np.maximum(np.asarray(action, dtype=np.float64), -1.0), 1.0)
        energy = float(torque @ torque)
        if math.isnan(energy):
            raise UserError(f"The action at step {self._num_steps} of {type(self).__name__} holds NaN.")
        np.minimum(np.maximum(torque + self._holding_torque, -TORQUE_MAX), TORQUE_MAX, out=self._control)
        return energy

    def _observe(self) -> Array:
        """Build the observation."""
        observation = np.empty(PLAIN)
        observation[:7] = self.joint_position
        observation[7:14] = self.joint_velocity
        observation[14:17] = self._box_position
        observation[17:21] = self._box_quaternion
        observation[21:] = self._target
        return observation

    def _info(self, now: Measurements, last: bool) -> dict[str, Any]:
        """Report a step; what belongs to the end of the episode is zero before."""
        return {
            "episode_end": last,
            "box_goal_pos_dist": now.box_distance if last else 0.0,
            "box_goal_rot_dist": now.box_rotation if last else 0.0,
            "episode_energy": self._energy if last else 0.0,
            "is_success": last and self.at_target,
            "num_steps": self._num_steps,
        }


class BoxPushingSparseEnv(BoxPushingEnv):
    """Box Pushing, paid for the box's pose at the last step only."""

    sparse = True


class BoxPushingRelativeEnv(BoxPushingEnv):
    """Box Pushing that also observes the target as seen from the box, and where in the box the rod is."""

    observation_size = SIZE

    def _observe(self) -> Array:
        """Build the observation, [43]."""
        return with_relative(super()._observe(), self._rod_tip)


class BoxPushingRelativeSparseEnv(BoxPushingRelativeEnv):
    """The same, paid for the box's pose at the last step only."""

    sparse = True


class BoxPushingFixedStartEnv(BoxPushingEnv):
    """Box Pushing with the box always at the same start."""

    random_start = False


class BoxPushingFixedStartSparseEnv(BoxPushingEnv):
    """Box Pushing with the box always at the same start, paid for its pose at the last step only."""

    sparse = True
    random_start = False


class BoxPushingJumpEnv(BoxPushingEnv):
    """Box Pushing whose target jumps once, after 20 to 50 of 100 steps; the observation shows where it is now."""

    _jump: tuple[int, Pose] = (0, FIXED_START)

    def _draw_jump(self, start: Pose) -> None:
        """Draw a second target as the first was, and when it takes its place."""
        target = draw_target(self.np_random, start)
        self._jump = int(self.np_random.integers(FIRST_JUMP, LAST_JUMP + 1)), target

    def _move_target(self) -> None:
        """Let the target jump; what this step pays goes by the new one already."""
        when, target = self._jump
        if self._num_steps == when:
            self._target[:] = target


def _wanted_target(options: Mapping[str, Any]) -> Array:
    """Read the target pose, [7], that somebody asks for."""
    pose = np.asarray(options.get("target", ()), dtype=np.float64)
    if set(options) != {"target"} or pose.shape != (7,) or not np.isfinite(pose).all():
        raise UserError("The only option of reset is 'target': x, y, z and a quaternion w, x, y, z, seven numbers.")
    length = float(np.linalg.norm(pose[3:]))
    if length < 1e-6:
        raise UserError("The target's quaternion is zero; (1, 0, 0, 0) turns nothing.")
    return np.concatenate([pose[:3], pose[3:] / length])
