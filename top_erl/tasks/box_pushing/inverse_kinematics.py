"""Inverse kinematics: joint positions that bring the hand to a pose.

A damped least-squares iteration with a null-space pull towards a comfortable posture. It stops at a squared error of
1e-5, not at zero, so the answer depends on the path taken: constants, step sizes and start decide how an episode begins
and are part of the task.

Quaternions are (w, x, y, z).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from top_erl.tasks.box_pushing.arm import HOME, NUM_JOINTS, POSITION_MAX, POSITION_MIN
from top_erl.tasks.rendering import mujoco

Array = NDArray[np.float64]

_TASK_GAIN = np.array(
    [33.9403713446798, 30.9403713446798, 33.9403713446798, 27.69370238555632, 33.98706171459314, 30.9185531893281]
)
"""Gain on the error of position (3) and orientation (3), [6]."""
_POSTURE_GAIN = 5.0 * np.array(
    [
        7.675519770796831,
        2.676935478437176,
        8.539040163444975,
        1.270446361314313,
        8.87752182480855,
        2.186782233762969,
        4.414432577659688,
    ]
)
"""Gain of the pull towards the comfortable posture, [7]."""
_POSTURE = np.array(
    [3.57795216e-09, 0.174532920, 3.30500960e-08, -0.872664630, -1.14096181e-07, 1.22173047, 0.785398126]
)
"""The comfortable posture in rad, [7]."""
_LIMIT_GAIN = 20.0
"""Gain of the push away from joint limits."""
_UPPER, _LOWER = POSITION_MAX - 0.1, POSITION_MIN + 0.1
"""Beyond these, a joint is pushed away from its limit, [7] each."""
_DAMPING = 1e-6 * np.eye(6)
_FIRST_STEP, _GROWTH, _SHRINKAGE = 0.001, 1.025, 0.7
"""Step size along the joint velocity at first, and its factor after an accepted and a refused step."""
_MAX_POSITION_ERROR, _MAX_ORIENTATION_ERROR = 0.1, 0.5
_TOLERANCE = 1e-5
_MAX_ITERATIONS = 1000


class InverseKinematics:
    """Solves for the arm of one model, in an `MjData` whose joint positions it may overwrite."""

    def __init__(self, model: Any, data: Any, body: int) -> None:
        """Prepare.

        Args:
            model: The `MjModel`; its first seven joints are the arm's.
            data: An `MjData`; `solve` changes its joint positions and what follows from them, nothing else.
            body: Number of the body that is to be brought to a pose.
        """
        self._model, self._data, self._body = model, data, body
        self._joints = data.qpos[:NUM_JOINTS]
        self._position, self._quaternion = data.xpos[body], data.xquat[body]
        jacobian = np.zeros((6, model.nv))
        self._translation, self._rotation = jacobian[:3], jacobian[3:]
        self._jacobian = jacobian[:, :NUM_JOINTS]
        self._weight = np.zeros(6)

    def solve(self, position: Sequence[float], quaternion: Sequence[float]) -> Array:
        """Find joint positions, [7], for a position, [3], and a quaternion, [4]."""
        joints, velocity = HOME, np.zeros(NUM_JOINTS)
        step, least_error, iterations = _FIRST_STEP, math.inf, 0
        while True:
            tried = np.minimum(np.maximum(joints + step * velocity, POSITION_MIN), POSITION_MAX)
            offset, error = self._error(tried, position, quaternion)
            if error > least_error:
                step *= _SHRINKAGE
                continue
            joints = tried
            step *= _GROWTH
            if error < _TOLERANCE or iterations > _MAX_ITERATIONS:
                return joints
            least_error = error
            velocity = self._velocity(joints, offset)
            iterations += 1

    def _error(self, joints: Array, position: Sequence[float], quaternion: Sequence[float]) -> tuple[Array, float]:
        """Measure, at joint positions [7], the offset of position and orientation, [6], and the squared error."""
        self._joints[:] = joints
        mujoco.mj_kinematics(self._model, self._data)
        x, y, z = self._position.tolist()
        dx = _clip(position[0] - x, _MAX_POSITION_ERROR)
        dy = _clip(position[1] - y, _MAX_POSITION_ERROR)
        dz = _clip(position[2] - z, _MAX_POSITION_ERROR)
        turn, missed = _orientation_error(self._quaternion.tolist(), quaternion)
        return np.array((dx, dy, dz, *turn)), dx * dx + dy * dy + dz * dz + missed

    def _velocity(self, joints: Array, offset: Array) -> Array:
        """Compute the joint velocity, [7], that reduces an offset, [6], and moves to a better posture meanwhile."""
        mujoco.mj_comPos(self._model, self._data)
        mujoco.mj_jacBody(self._model, self._data, self._translation, self._rotation, self._body)
        jacobian = self._jacobian
        posture = _POSTURE_GAIN * (_POSTURE - joints)
        posture += _LIMIT_GAIN * (np.minimum(np.maximum(joints, _LOWER), _UPPER) - joints)
        # v = J^T (J J^T + 1e-6 I)^-1 (K e - J v_posture) + v_posture
        matrix = jacobian @ jacobian.T + _DAMPING
        mujoco.mju_cholFactor(matrix, 0.0)  # far quicker than NumPy for six rows
        mujoco.mju_cholSolve(self._weight, matrix, _TASK_GAIN * offset - jacobian @ posture)
        return self._weight @ jacobian + posture


def _orientation_error(now: Sequence[float], goal: Sequence[float]) -> tuple[tuple[float, float, float], float]:
    """Measure what turns one quaternion into another: its limited vector part, and their squared difference."""
    w, x, y, z = now
    w0, x0, y0, z0 = goal
    if w * w0 + x * x0 + y * y0 + z * z0 < 0.0:  # the same orientation, nearer to the goal
        w, x, y, z = -w, -x, -y, -z
    turn = (
        _clip(w * x0 - w0 * x - (y0 * z - z0 * y), _MAX_ORIENTATION_ERROR),
        _clip(w * y0 - w0 * y - (z0 * x - x0 * z), _MAX_ORIENTATION_ERROR),
        _clip(w * z0 - w0 * z - (x0 * y - y0 * x), _MAX_ORIENTATION_ERROR),
    )
    return turn, (w - w0) ** 2 + (x - x0) ** 2 + (y - y0) ** 2 + (z - z0) ** 2


def _clip(value: float, limit: float) -> float:
    """Limit a number to [-limit, limit]."""
    return -limit if value < -limit else limit if value > limit else value
