"""Facts about the arm that rewards, controller and inverse kinematics share. Seven joints, base first."""

from __future__ import annotations

import numpy as np

NUM_JOINTS = 7

POSITION_MIN = np.array([-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973])
"""Lower joint limits in rad, [7]; the mechanical stops in `scene.xml` are a little wider."""
POSITION_MAX = np.array([2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973])
"""Upper joint limits in rad, [7]."""
VELOCITY_MAX = np.array([2.175, 2.175, 2.175, 2.175, 2.61, 2.61, 2.61])
"""Speed limits in rad/s, [7]."""
TORQUE_MAX = np.array([90.0, 90.0, 90.0, 90.0, 12.0, 12.0, 12.0])
"""Limits of the commanded torque in Nm, [7]; the first four motors give 87 at most."""
TORQUE_PER_ACTION = 10.0
"""Nm that an action of 1 adds to what holds the arm up."""

HOME = np.array([0.0, 0.0, 0.0, -1.5, 0.0, 1.5, 0.0])
"""Joint positions, [7], that inverse kinematics starts from."""
POINTING_DOWN = (0.0, 1.0, 0.0, 0.0)
"""Quaternion (w, x, y, z) of a hand that points straight down."""

STIFFNESS = np.array([1.2, 1.2, 1.2, 1.2, 0.5, 0.3, 0.1])
"""Gains of the tracking controller on the position error, action per rad, [7]."""
DAMPING = np.array([0.1, 0.1, 0.1, 0.1, 0.06, 0.05, 0.03])
"""Gains of the tracking controller on the velocity error, action per rad/s, [7]."""
