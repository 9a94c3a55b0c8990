"""A planar arm: kinematics, joint dynamics and a tracking controller, for many arms at once.

Each joint is a damped inertia with a limited motor, as a geared robot arm looks to its controller:

    inertia * acceleration = clip(torque, -limit, limit) - damping * velocity

Axes: `...` any batch, `D` joints.

Results do not depend on the batch an arm is in, down to the last bit. Two habits are needed for that: no
matrix products, whose order of summation depends on the shape; and sine and cosine of contiguous arrays only,
because NumPy may use another routine, with another last digit, for strided ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PlanarArm:
    """The constants of an arm with its base at the origin. Five links that reach one metre by default."""

    link_length: float = 0.2
    """Length of every link in metres."""
    start: tuple[float, ...] = (np.pi / 2 + 0.6, -0.3, -0.3, -0.3, -0.3)
    """Joint angles at rest in radians, from the link before (first: from the x axis): up, slightly bent."""
    inertia: tuple[float, ...] = (0.5, 0.4, 0.3, 0.2, 0.1)
    """Inertia each joint moves, in kg m²; the inner joints carry more."""
    damping: tuple[float, ...] = (0.5, 0.4, 0.3, 0.2, 0.1)
    """Friction of each joint in N m s/rad."""
    torque_limit: tuple[float, ...] = (30.0, 24.0, 18.0, 12.0, 6.0)
    """Largest torque of each motor in N m: 60 rad/s² at standstill."""
    position_gain: tuple[float, ...] = (250.0, 200.0, 150.0, 100.0, 50.0)
    """Position gain of the tracking controller in N m/rad."""
    velocity_gain: tuple[float, ...] = (17.5, 14.0, 10.5, 7.0, 3.5)
    """Velocity gain of the tracking controller in N m s/rad."""
    dt: float = 0.02
    """Seconds per control step; the controller's torque is held for that long."""
    substeps: int = 4
    """Integration steps per control step."""

    @property
    def num_joints(self) -> int:
        """D: number of joints."""
        return len(self.start)

    @property
    def reach(self) -> float:
        """Length of the stretched arm in metres."""
        return self.link_length * self.num_joints

    @cached_property
    def max_acceleration(self) -> Array:
        """Largest joint acceleration the motors can make from standstill, [D]."""
        result: Array = np.array(self.torque_limit) / np.array(self.inertia)
        return result

    @cached_property
    def _gains(self) -> tuple[Array, Array]:
        """Position and velocity gain as shares of the motor's limit, [D] each."""
        limit = np.array(self.torque_limit)
        return np.array(self.position_gain) / limit, np.array(self.velocity_gain) / limit

    @cached_property
    def _substep(self) -> tuple[float, Array, Array]:
        """Seconds per substep, velocity gained in it at full torque, share of velocity lost to damping."""
        h = self.dt / self.substeps
        return h, h * self.max_acceleration, h * np.array(self.damping) / np.array(self.inertia)

    def joint_points(self, position: Array) -> Array:
        """Place the base, the joints and the tip in the plane.

        Args:
            position: Joint angles, [..., D].

        Returns:
            Points from the base to the tip, [..., D + 1, 2].
        """
        angles = np.ascontiguousarray(np.cumsum(position, axis=-1))  # of each link from the x axis, [..., D]
        points = np.zeros((*angles.shape[:-1], angles.shape[-1] + 1, 2))
        np.cumsum(self.link_length * np.cos(angles), axis=-1, out=points[..., 1:, 0])
        np.cumsum(self.link_length * np.sin(angles), axis=-1, out=points[..., 1:, 1])
        return points

    def tip(self, position: Array) -> Array:
        """Place the tip: joint angles [..., D] to a point [..., 2]."""
        return self.joint_points(position)[..., -1, :]

    def control(self, position: Array, velocity: Array, desired_position: Array, desired_velocity: Array) -> Array:
        """Track a reference: torque = position_gain * position error + velocity_gain * velocity error.

        Args:
            position: Measured joint angles, [..., D].
            velocity: Measured joint velocities, [..., D].
            desired_position: Reference at the end of the control step, [..., D].
            desired_velocity: Its velocity, [..., D].

        Returns:
            Torque as a share of the motor's limit, in [-1, 1], [..., D].
        """
        kp, kd = self._gains
        action = kp * (desired_position - position) + kd * (desired_velocity - velocity)
        return np.minimum(np.maximum(action, -1.0), 1.0)

    def advance(self, position: Array, velocity: Array, action: Array) -> tuple[Array, Array]:
        """Move on by one control step with a constant torque (semi-implicit Euler).

        Args:
            position: Joint angles, [..., D].
            velocity: Joint velocities, [..., D].
            action: Torque as a share of the motor's limit, [..., D]; clipped to [-1, 1].

        Returns:
            Joint angles and velocities after `dt` seconds, [..., D] each.
        """
        h, full_push, drag = self._substep
        push = full_push * np.minimum(np.maximum(action, -1.0), 1.0)
        for _ in range(self.substeps):
            velocity = velocity + (push - drag * velocity)
            position = position + h * velocity
        return position, velocity
