"""Hopper Jump as Gymnasium step environments, for step-based methods and below the episodic tasks.

The action is the torque of the motors at thigh, leg and foot as a share of their limit, 200 Nm. MuJoCo clips it to
[-1, 1]; its cost is that of the action as given.

Observation (16): x, z, pitch, three joint angles; their six velocities, clipped to ±10; foot minus goal (3); goal x.
Poses (foot, torso) are those of MuJoCo's last evaluation of the dynamics, a fraction of a millisecond before the end
of the step, as in the original environment.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from top_erl.errors import RunStopped, UserError
from top_erl.tasks.hopper_jump.contacts import FloorContacts
from top_erl.tasks.hopper_jump.rewards import DENSE, SPARSE, RewardWeights, StepMeasures, is_healthy, step_reward
from top_erl.tasks.rendering import SceneRenderer, mujoco

Array = NDArray[np.float64]

MODEL_FILE = Path(__file__).with_name("hopper_jump.xml")
HORIZON = 250
"""T: control steps per episode (two seconds)."""
FRAME_SKIP = 4
"""Physics steps of 0.002 s per control step."""
DT = 0.008
"""Seconds per control step."""
START = (0.0, 1.5, 0.0, 0.0, 0.0, 0.0)
"""Where the robot is dropped: x, z, pitch, thigh, leg, foot; 0.25 m above its standing height."""
START_LOW = (0.0, 0.0, 0.0, -0.5, -0.2, 0.0)
START_HIGH = (0.0, 0.0, 0.0, 0.0, 0.0, 0.785)
"""The joint angles it is dropped with are uniform between these."""
GOAL_LOW, GOAL_HIGH = 0.3, 1.35
"""The goal's x is uniform between these; the goal lies on the floor."""
MAX_OBSERVED_VELOCITY = 10.0
"""Velocities are clipped to this in observations."""


class HopperJumpEnv(gym.Env[Array, Array]):
    """The dense variant. Truncates after 250 steps and never terminates, even if the robot falls.

    `info` holds, after each step: `height`, `max_height`, `height_rew` (the same), `goal`, `goal_dist`, `contact_dist`
    (0 before the landing), `healthy`, `healthy_reward`, `num_steps`, `has_left_floor` and `x_pos` (the foot).
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": round(1 / DT)}  # type: ignore[misc]
    weights: ClassVar[RewardWeights] = DENSE

    def __init__(self, render_mode: str | None = None) -> None:
        """Build the simulator; `render_mode="rgb_array"` for pictures."""
        if render_mode not in (None, "rgb_array"):
            raise UserError(f"{type(self).__name__} renders as 'rgb_array' only, not as {render_mode!r}.")
        self.render_mode = render_mode
        self.observation_space = _observation_space()  # type: ignore[assignment]
        self.action_space = gym.spaces.Box(-1.0, 1.0, (3,), dtype=np.float32)  # type: ignore[assignment]
        self.model = mujoco.MjModel.from_xml_path(str(MODEL_FILE))
        self.data = mujoco.MjData(self.model)
        self._foot_on_floor = [self.model.geom("floor").id, self.model.geom("foot").id]
        # Views of the simulator's memory, which never moves.
        self._position, self._velocity = self.data.qpos, self.data.qvel  # [6] each
        self._sole = self.data.site_xpos[self.model.site("sole").id]  # [3]
        self._torso = self.data.xpos[self.model.body("torso").id]  # [3]
        self._centre = self.data.subtree_com[self.model.body("torso").id]  # [3], the whole robot's
        self._goal = np.zeros(3)
        self._num_steps = HORIZON  # no episode yet
        self._max_height = 0.0
        self._left_floor_at: int | None = None
        self.contacts = FloorContacts()
        self._has_begun = False
        self._camera = mujoco.MjvCamera()
        self._camera.azimuth, self._camera.elevation, self._camera.distance = 90.0, -7.0, 3.6
        self._renderer = SceneRenderer(self.model, self._camera)

    @property
    def joint_position(self) -> Array:
        """Angles of thigh, leg and foot, [3]."""
        return self._position[3:].copy()

    @property
    def joint_velocity(self) -> Array:
        """Their velocities, [3], not clipped."""
        return self._velocity[3:].copy()

    @property
    def left_floor_at(self) -> int | None:
        """Index of the first step after which the robot had left the floor; None before."""
        return self._left_floor_at

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Drop the robot anew; goal and joint angles come from the seed, or from the generator seeded last."""
        super().reset(seed=seed)
        self._goal = np.array([float(self.np_random.uniform(GOAL_LOW, GOAL_HIGH)), 0.0, 0.0])
        start = np.array(START) + self.np_random.uniform(START_LOW, START_HIGH)
        mujoco.mj_resetData(self.model, self.data)
        self.model.body("goal").pos = self._goal
        self._position[:] = start
        mujoco.mj_forward(self.model, self.data)
        self._num_steps, self._max_height, self._left_floor_at = 0, 0.0, None
        self.contacts = FloorContacts()
        self._has_begun = True
        return self._observation(), {}

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Hold a torque for one control step, 0.008 s."""
        if self._num_steps >= HORIZON:
            raise UserError("The episode is over (or has not begun): call reset() before step().")
        given = np.asarray(action, dtype=np.float64)
        if given.shape != (3,):
            raise UserError(f"{type(self).__name__} needs an action of shape (3,), got {given.shape}.")
        self._simulate(given)
        self._num_steps += 1
        measures = self._measure()
        is_last = self._num_steps == HORIZON
        reward = step_reward(self.weights, measures, given, is_last)
        return self._observation(), reward, False, is_last, self._info(measures)

    def render(self) -> NDArray[np.uint8] | None:
        """Draw robot and goal now, [480, 640, 3]; the camera goes along with the robot, but stays at its height."""
        if self.render_mode is None or not self._has_begun:
            return None
        self._camera.lookat = ((self._centre[0] + self._goal[0]) / 2, 0.0, 0.95)
        return self._renderer.render(self.data)

    def close(self) -> None:
        """Give the drawing context back."""
        self._renderer.close()

    def _simulate(self, action: Array) -> None:
        """Advance the physics by one control step."""
        began = self.data.time
        self.data.ctrl[:] = action
        mujoco.mj_step(self.model, self.data, FRAME_SKIP)
        mujoco.mj_rnePostConstraint(self.model, self.data)  # contact forces, as Gymnasium's environments offer them
        if self.data.time <= began:  # MuJoCo starts anew when its numbers explode
            raise RunStopped(f"The simulation of {type(self).__name__} became unstable after step {self._num_steps}.")

    def _measure(self) -> StepMeasures:
        """Measure what the reward is made of, and remember what has happened."""
        height, goal_distance = float(self._torso[2]), math.dist(self._sole, self._goal)
        self._max_height = max(self._max_height, height)
        in_contact = self._foot_on_floor in self.data.contact.geom.tolist()
        self.contacts.update(in_contact, goal_distance)
        if self._left_floor_at is None and self.contacts.has_left_floor:
            self._left_floor_at = self._num_steps - 1
        healthy = is_healthy(self._position, self._velocity)
        return StepMeasures(height, self._max_height, goal_distance, self.contacts.landing_distance, healthy)

    def _observation(self) -> Array:
        """Build the observation, [16]."""
        velocity = self._velocity.clip(-MAX_OBSERVED_VELOCITY, MAX_OBSERVED_VELOCITY)
        return np.concatenate((self._position, velocity, self._sole - self._goal, self._goal[:1]))

    def _info(self, measures: StepMeasures) -> dict[str, Any]:
        """Say what happened, in plain numbers and copies."""
        return {
            "height": measures.height,
            "max_height": measures.max_height,
            "height_rew": measures.max_height,
            "goal": self._goal.copy(),
            "goal_dist": measures.goal_distance,
            "contact_dist": measures.landing_distance or 0.0,
            "healthy": measures.healthy,
            "healthy_reward": self.weights.healthy * measures.healthy,
            "num_steps": self._num_steps,
            "has_left_floor": self.contacts.has_left_floor,
            "x_pos": self._sole.copy(),
        }


class HopperJumpSparseEnv(HopperJumpEnv):
    """The paper's variant: all but the control cost is paid at the last step."""

    weights: ClassVar[RewardWeights] = SPARSE


def _observation_space() -> gym.spaces.Box:
    """Bound what is bounded: velocities by clipping, the goal by its draw."""
    bound = np.full(16, np.inf)
    bound[6:12] = MAX_OBSERVED_VELOCITY
    low, high = -bound, bound
    low[15], high[15] = GOAL_LOW, GOAL_HIGH
    return gym.spaces.Box(low, high, dtype=np.float64)
