"""A small rasteriser in NumPy: smooth-edged discs, rings and capsules on a picture.

Each shape is a signed distance, negative inside, in pixels. A pixel is covered by 0.5 - distance, clipped to
[0, 1], which smooths the edge over one pixel. Only the shape's bounding box is touched, so small
shapes cost little.

Points are in metres, y upwards; radii and widths are in pixels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Pixels = NDArray[np.floating[Any]]  # float32, though type checkers lose track of it
Color = tuple[int, int, int]
SignedDistance = Callable[[Pixels, Pixels], Pixels]
"""Pixel centres (columns [1, W], rows [H, 1]) to signed distances in pixels, [H, W]."""


@dataclass(frozen=True)
class View:
    """How the world lies on the picture."""

    size: int = 480
    """Width and height of the picture in pixels."""
    scale: float = 215.0
    """Pixels per metre."""
    origin: tuple[float, float] = (240.0, 268.0)
    """Where the world's origin lies: column and row."""

    def to_pixels(self, point: ArrayLike) -> tuple[float, float]:
        """Column and row of a point of the world."""
        x, y = np.asarray(point, dtype=np.float64)
        return self.origin[0] + self.scale * float(x), self.origin[1] - self.scale * float(y)


class Canvas:
    """A picture being painted. Later shapes lie on top."""

    def __init__(self, view: View, background: Color | Pixels) -> None:
        """Start from one colour, or from a copy of an earlier picture's `pixels`."""
        self.view = view
        self.pixels: Pixels = np.empty((view.size, view.size, 3), dtype=np.float32)
        self.pixels[:] = np.asarray(background, dtype=np.float32)

    def disc(self, center: ArrayLike, radius: float, color: Color, opacity: float = 1.0) -> None:
        """Paint a disc; radius in pixels."""
        column, row = self.view.to_pixels(center)

        def inside(x: Pixels, y: Pixels) -> Pixels:
            return _length(x - column, y - row) - radius

        self._paint(inside, (column, row, column, row), radius, color, opacity)

    def ring(self, center: ArrayLike, radius: float, width: float, color: Color, opacity: float = 1.0) -> None:
        """Paint a circle's outline; radius to its middle, and width, in pixels."""
        column, row = self.view.to_pixels(center)

        def inside(x: Pixels, y: Pixels) -> Pixels:
            result: Pixels = np.abs(_length(x - column, y - row) - radius) - width / 2
            return result

        self._paint(inside, (column, row, column, row), radius + width / 2, color, opacity)

    def capsule(self, start: ArrayLike, end: ArrayLike, radius: float, color: Color, opacity: float = 1.0) -> None:
        """Paint a thick line with round ends; radius (half the thickness) in pixels."""
        column, row = self.view.to_pixels(start)
        to_column, to_row = self.view.to_pixels(end)
        along_x, along_y = to_column - column, to_row - row
        per_square = 1.0 / max(along_x**2 + along_y**2, 1e-9)

        def inside(x: Pixels, y: Pixels) -> Pixels:
            share = np.clip(((x - column) * along_x + (y - row) * along_y) * per_square, 0.0, 1.0)
            return _length(x - column - share * along_x, y - row - share * along_y) - radius

        box = min(column, to_column), min(row, to_row), max(column, to_column), max(row, to_row)
        self._paint(inside, box, radius, color, opacity)

    def half_ring(self, inner: float, outer: float, color: Color, opacity: float = 1.0) -> None:
        """Paint the area above the origin between two distances from it, in metres."""
        column, row = self.view.origin
        middle, half = self.view.scale * (inner + outer) / 2, self.view.scale * (outer - inner) / 2

        def inside(x: Pixels, y: Pixels) -> Pixels:
            result: Pixels = np.maximum(np.abs(_length(x - column, y - row) - middle) - half, y - row)
            return result

        self._paint(inside, (column, row, column, row), middle + half, color, opacity)

    def picture(self) -> NDArray[np.uint8]:
        """Return the picture, [H, W, 3]."""
        return (self.pixels + 0.5).astype(np.uint8)

    def _paint(
        self,
        inside: SignedDistance,
        box: tuple[float, float, float, float],
        margin: float,
        color: Color,
        opacity: float,
    ) -> None:
        """Blend a colour in where a shape lies, which is within `margin` pixels of `box`."""
        size = self.view.size
        left, top = (min(max(int(low - margin) - 1, 0), size) for low in box[:2])
        right, bottom = (min(max(int(high + margin) + 2, 0), size) for high in box[2:])
        if left >= right or top >= bottom:
            return
        x = np.arange(left, right, dtype=np.float32)[None, :] + np.float32(0.5)
        y = np.arange(top, bottom, dtype=np.float32)[:, None] + np.float32(0.5)
        cover = np.clip(np.float32(0.5) - inside(x, y), 0.0, 1.0)[..., None] * np.float32(opacity)
        patch = self.pixels[top:bottom, left:right]
        patch += cover * (np.asarray(color, dtype=np.float32) - patch)


def _length(x: Pixels, y: Pixels) -> Pixels:
    """Length of vectors."""
    result: Pixels = np.sqrt(x * x + y * y)
    return result
