"""What Box Pushing v1 observes besides: the target as seen from the box, and where in the box the rod is.

All of it follows from the 28 entries of v0. But a box that must turn left or right by the shorter way is told so
there by the sign of a polynomial of fourth degree in two quaternions, which a small network learns late; here by the
sign of one entry.

Axes: `...` any batch.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

PLAIN = 28
"""Entries of v0, which come first."""
ENTRIES = (
    *("rod tip " + axis for axis in "xyz"),
    *("cos of the box's yaw", "sin of the box's yaw", "cos of the target's yaw", "sin of the target's yaw"),
    *("cos of the turn that is left", "sin of the turn that is left"),
    *("target minus box, x", "target minus box, y", "target, ahead of the box", "target, to the left of the box"),
    *("rod tip, ahead of the box's middle", "rod tip, to the left of the box's middle"),
)
"""What comes after them."""
SIZE = PLAIN + len(ENTRIES)
"""Entries of v1."""
_TIP = slice(PLAIN, PLAIN + 3)
_SMALLEST = 1e-6


def with_relative(observation: Array, rod_tip: Array) -> Array:
    """The observation of v1, [..., 43], from that of v0, [..., 28], and the rod's tip, [..., 3]."""
    box, target = observation[..., 14:16], observation[..., 21:23]
    box_cos, box_sin = _yaw(observation[..., 17], observation[..., 20])
    target_cos, target_sin = _yaw(observation[..., 24], observation[..., 27])
    to_target, to_tip = target - box, rod_tip[..., :2] - box
    computed = (
        *(box_cos, box_sin, target_cos, target_sin),
        *(box_cos * target_cos + box_sin * target_sin, box_cos * target_sin - box_sin * target_cos),
        *(to_target[..., 0], to_target[..., 1]),
        *_seen_from(box_cos, box_sin, to_target),
        *_seen_from(box_cos, box_sin, to_tip),
    )
    return np.concatenate((observation, rod_tip, np.stack(computed, axis=-1)), axis=-1)


def with_target(observation: Array, target: Array) -> Array:
    """The same observation of v1, [..., 43], if the target, [..., 7], had been another one."""
    plain = observation[..., :PLAIN].copy()
    plain[..., 21:28] = target
    return with_relative(plain, observation[..., _TIP])


def _yaw(w: Array, z: Array) -> tuple[Array, Array]:
    """Cosine and sine of the angle about the vertical, from two entries of a quaternion of either sign."""
    length = np.maximum(w * w + z * z, _SMALLEST)  # a box on its side has no yaw
    return (w * w - z * z) / length, 2.0 * w * z / length


def _seen_from(cos: Array, sin: Array, offset: Array) -> tuple[Array, Array]:
    """An offset in the plane, [..., 2], turned into the box's frame."""
    x, y = offset[..., 0], offset[..., 1]
    return cos * x + sin * y, cos * y - sin * x
