"""Where the box starts and where it should go. A pose is (x, y, z, qw, qx, qy, qz)."""

from __future__ import annotations

import math

import numpy as np

Pose = tuple[float, float, float, float, float, float, float]

FIXED_START: Pose = (0.4, 0.3, -0.01, 0.0, 0.0, 0.0, 1.0)
"""Where the box starts if its start is not random."""
LOW, HIGH = (0.3, -0.45, -0.01), (0.6, 0.45, -0.01)
"""Corners of the region of the table in which poses are drawn."""
MIN_DISTANCE = 0.3
"""Metres between start and target at least."""


def draw_pose(generator: np.random.Generator) -> Pose:
    """Draw a pose, uniform in position and yaw; takes four random numbers, one of them for the fixed height."""
    x, y, z = generator.uniform(LOW, HIGH).tolist()
    angle = float(generator.uniform(0.0, 2.0 * math.pi))
    # Sine and cosine change places, as in the paper's environment: the yaw is pi - angle, which is uniform, too.
    return (x, y, z, math.sin(angle / 2.0), 0.0, 0.0, math.cos(angle / 2.0))


def draw_target(generator: np.random.Generator, start: Pose) -> Pose:
    """Draw poses until one is far enough from the start."""
    while True:
        target = draw_pose(generator)
        if math.hypot(target[0] - start[0], target[1] - start[1]) >= MIN_DISTANCE:
            return target
