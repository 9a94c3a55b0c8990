"""Scalar arithmetic that Meta-World's rewards and observations spend most of their time in, without the detours.

Every function gives the number that the original gives, bit for bit; what is not on the short way goes to the original.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

VALUE_AT_MARGIN = 0.1
"""The value that a tolerance has at its margin, in all of Meta-World's rewards."""
_LONG_TAIL = float(np.sqrt(1 / VALUE_AT_MARGIN - 1))
_GAUSSIAN = float(np.sqrt(-2 * np.log(VALUE_AT_MARGIN)))


def quick_tolerance(original: Callable[..., Any]) -> Callable[..., Any]:
    """Build a tolerance: 1 inside the bounds, falling with the distance from them, 0.1 at the margin.

    Args:
        original: Meta-World's own function, for everything but scalars with one of the two usual shapes.
    """

    def tolerance(
        x: Any,
        bounds: tuple[float, float] = (0.0, 0.0),
        margin: float = 0.0,
        sigmoid: str = "gaussian",
        value_at_margin: float = VALUE_AT_MARGIN,
    ) -> Any:
        lower, upper = bounds
        usual = isinstance(x, float) and margin > 0 and lower <= upper and value_at_margin == VALUE_AT_MARGIN
        if not usual or sigmoid not in ("long_tail", "gaussian"):
            return original(x, bounds, margin, sigmoid, value_at_margin)
        if lower <= x <= upper:
            return 1.0
        distance = float((lower - x if x < lower else x - upper) / margin)
        if sigmoid == "long_tail":
            return 1 / ((distance * _LONG_TAIL) ** 2 + 1)
        return float(np.exp(-0.5 * (distance * _GAUSSIAN) ** 2))  # NumPy's exp may differ from math's in the last bit

    return tolerance


class QuickRotation:
    """Stands in for SciPy's `Rotation` where a rotation matrix becomes a quaternion."""

    def __init__(self, quaternion: Array) -> None:
        """Keep a quaternion, [4], scalar last."""
        self._quaternion = quaternion

    @staticmethod
    def from_matrix(matrix: Array) -> QuickRotation:
        """Take a proper rotation matrix, [3, 3], as a simulator gives it."""
        return QuickRotation(quaternion_of(matrix))

    def as_quat(self) -> Array:
        """Give the quaternion, [4], scalar last."""
        return self._quaternion


def quaternion_of(matrix: Array) -> Array:
    """Turn a rotation matrix, [3, 3], into a unit quaternion, [4], scalar last (Markley 2008).

    The largest of the diagonal and the trace decides which entry is computed first, so that none is divided by a
    small number.
    """
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = matrix.tolist()
    trace = xx + yy + zz
    largest = max(xx, yy, zz, trace)
    if xx == largest:
        x, y, z, w = 1 - trace + 2 * xx, yx + xy, zx + xz, zy - yz
    elif yy == largest:
        x, y, z, w = yx + xy, 1 - trace + 2 * yy, zy + yz, xz - zx
    elif zz == largest:
        x, y, z, w = zx + xz, zy + yz, 1 - trace + 2 * zz, yx - xy
    else:
        x, y, z, w = zy - yz, xz - zx, yx - xy, 1 + trace
    norm = math.sqrt(x * x + y * y + z * z + w * w)
    return np.array([x / norm, y / norm, z / norm, w / norm])
