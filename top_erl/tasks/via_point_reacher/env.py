"""The via-point reacher as a plain Gymnasium step environment, for step-based methods.

The action is the torque of each motor as a share of its limit. Physics, observation, reward and metrics are
those of `ViaPointReacher`, and `reset(seed=...)` gives the same via point and goal as its `begin([seed])`.
"""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from top_erl.errors import UserError
from top_erl.tasks.via_point_reacher import rules
from top_erl.tasks.via_point_reacher.picture import draw_reacher

Array = NDArray[np.float64]


class ViaPointReacherEnv(gym.Env[Array, Array]):
    """Five joints, torques in [-1, 1], 50 steps; truncates at the end and never terminates.

    `info` holds `via_distance` from half time on, and `goal_distance`, `success`, `is_success` at the end.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": round(1 / rules.ARM.dt)}  # type: ignore[misc]

    jumping: ClassVar[bool] = False
    """Whether the goal jumps in the middle of the episode."""

    def __init__(self, render_mode: str | None = None) -> None:
        """Make the environment; `render_mode="rgb_array"` for pictures."""
        if render_mode not in (None, "rgb_array"):
            raise UserError(f"ViaPointReacherEnv renders as 'rgb_array' only, not as {render_mode!r}.")
        self.render_mode = render_mode
        bound = observation_bound()
        self.observation_space = gym.spaces.Box(-bound, bound, dtype=np.float64)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (rules.ARM.num_joints,), dtype=np.float32)  # type: ignore[assignment]
        self._step = rules.HORIZON
        self._context = rules.Context(np.zeros(2), np.zeros(2))
        self._jump: rules.Jump | None = None
        self._info: dict[str, Any] = {}
        self._positions: list[Array] = []
        self._velocity = np.zeros(rules.ARM.num_joints)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Start an episode; its via point and goal come from the seed, or from the generator seeded last."""
        super().reset(seed=seed)
        context = rules.draw_context([self.np_random])
        self._context = rules.Context(via=context.via[0], goal=context.goal[0])
        self._jump = rules.draw_jump([self.np_random]) if self.jumping else None
        self._positions = [np.array(rules.ARM.start)]
        self._velocity = np.zeros(rules.ARM.num_joints)
        self._step, self._info = 0, {}
        return self._observation(), {}

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Hold a torque for one control step, 0.02 s."""
        if self._step >= rules.HORIZON:
            raise UserError("The episode is over (or has not begun): call reset() before step().")
        position, velocity = rules.ARM.advance(
            self._positions[-1], self._velocity, np.asarray(action, dtype=np.float64)
        )
        reward = -float(rules.acceleration_cost(self._velocity, velocity))
        self._positions.append(position)
        self._velocity = velocity
        reward -= rules.DISTANCE_COST * self._distance_due()
        self._step += 1
        if self._jump is not None and self._step == self._jump.step[0]:
            self._context = rules.Context(via=self._context.via, goal=self._jump.goal[0])
        return self._observation(), reward, False, self._step == rules.HORIZON, dict(self._info)

    def render(self) -> NDArray[np.uint8] | None:
        """Draw the arm now, [480, 480, 3]."""
        if self.render_mode is None or not self._positions:
            return None
        points = rules.ARM.joint_points(np.stack(self._positions))
        return draw_reacher(points, self._context.via, self._context.goal)

    def _observation(self) -> Array:
        """Build the observation, [16]."""
        return rules.observe(self._positions[-1], self._velocity, self._context)

    def _distance_due(self) -> float:
        """Measure the distance that is paid for at the end of the current step, and note it in `info`."""
        if self._step not in (rules.VIA_STEP, rules.GOAL_STEP):
            return 0.0
        name, target = (
            ("via_distance", self._context.via)
            if self._step == rules.VIA_STEP
            else ("goal_distance", self._context.goal)
        )
        missed = rules.distance(rules.ARM.tip(self._positions[-1]), target)
        self._info[name] = float(missed)
        if self._step == rules.GOAL_STEP:
            reached = float(rules.success(np.array(self._info["via_distance"]), missed))
            self._info.update(success=reached, is_success=bool(reached))
        return float(missed)


class ViaPointReacherJumpEnv(ViaPointReacherEnv):
    """The same with a goal that jumps in the middle of the episode; the observation shows where it is now."""

    jumping = True


def observation_bound() -> Array:
    """Bound what can be observed, [16]: full torque all the time, in one direction, without friction."""
    duration = rules.HORIZON * rules.ARM.dt
    velocity = rules.ARM.max_acceleration * duration
    position = np.abs(np.array(rules.ARM.start)) + velocity * duration
    return np.concatenate([position, velocity, np.full(2, rules.ARM.reach), np.full(4, rules.OUTER_RADIUS)])
