"""The picture of the via-point reacher: workspace, via point, goal, arm, the tip's trail and a time bar.

The via point is a ring until half time. Then it is filled if the tip passed close enough, else it fades. The
same holds for the goal at the end. Rings have the success radius, so what counts as success can be seen.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from top_erl.tasks.via_point_reacher import rules
from top_erl.tasks.via_point_reacher.drawing import Canvas, Color, Pixels, View

Array = NDArray[np.float64]

VIEW = View()
PAPER: Color = (252, 252, 250)
WORKSPACE: Color = (238, 242, 247)
OUTLINE: Color = (205, 213, 224)
FLOOR: Color = (188, 197, 209)
VIA: Color = (240, 138, 36)
GOAL: Color = (32, 158, 110)
TRAIL: Color = (122, 92, 190)
LINK_BASE: Color = (31, 51, 92)
LINK_TIP: Color = (74, 144, 200)
JOINT: Color = (250, 251, 253)
BAR: Color = (224, 229, 236)


def draw_reacher(points: Array, via: Array, goal: Array) -> NDArray[np.uint8]:
    """Draw the arm now, and what the tip did so far.

    Args:
        points: Base, joints and tip at the start and after each step so far, [steps + 1, D + 1, 2].
        via: The via point, [2].
        goal: The goal, [2].

    Returns:
        The picture, [480, 480, 3].
    """
    canvas = Canvas(VIEW, _backdrop())
    trail, steps = points[:, -1], len(points) - 1
    _draw_target(canvas, via, VIA, trail[rules.VIA_STEP + 1] if steps > rules.VIA_STEP else None)
    _draw_target(canvas, goal, GOAL, trail[rules.GOAL_STEP + 1] if steps > rules.GOAL_STEP else None)
    _draw_trail(canvas, trail)
    _draw_arm(canvas, points[-1])
    _draw_time(canvas, steps)
    return canvas.picture()


@lru_cache(maxsize=1)
def _backdrop() -> Pixels:
    """Paint what never changes: the half ring where via points and goals lie, and the floor."""
    canvas = Canvas(VIEW, PAPER)
    canvas.half_ring(rules.INNER_RADIUS, rules.OUTER_RADIUS, WORKSPACE)
    for radius in (rules.INNER_RADIUS, rules.OUTER_RADIUS):
        canvas.half_ring(radius - 0.003, radius + 0.003, OUTLINE)
    canvas.capsule((-1.05, 0.0), (1.05, 0.0), 1.0, FLOOR)
    canvas.pixels.setflags(write=False)
    return canvas.pixels


def _draw_target(canvas: Canvas, target: Array, color: Color, tip: Array | None) -> None:
    """Draw a via point or goal: open while it is still to come, then filled (reached) or faded (missed)."""
    radius = rules.SUCCESS_RADIUS * VIEW.scale
    reached = tip is not None and bool(rules.distance(tip, target) <= rules.SUCCESS_RADIUS)
    faded = tip is not None and not reached
    canvas.disc(target, radius, color, opacity=0.85 if reached else 0.12)
    canvas.ring(target, radius, 2.5, color, opacity=0.45 if faded else 1.0)
    canvas.disc(target, 4.0, JOINT if reached else color, opacity=0.45 if faded else 1.0)
    if tip is not None:
        canvas.capsule(tip, target, 1.0, color, opacity=0.6)
        canvas.disc(tip, 3.5, color)


def _draw_trail(canvas: Canvas, trail: Array) -> None:
    """Draw the tip's way, [steps + 1, 2], fainter where it is older."""
    last = len(trail) - 1
    for step in range(last):
        # Lighter rather than transparent: pieces would show where they overlap.
        color = _mix(TRAIL, WORKSPACE, 0.75 * (last - step) / rules.HORIZON)
        canvas.capsule(trail[step], trail[step + 1], 2.0, color)


def _draw_arm(canvas: Canvas, points: Array) -> None:
    """Draw links from the base, dark and thick, to the tip, light and thin, with their joints."""
    num_links = len(points) - 1
    canvas.disc(points[0], 17.0, FLOOR)
    for link in range(num_links):
        share = link / (num_links - 1)
        thickness = 9.5 - 4.0 * share
        canvas.capsule(points[link], points[link + 1], thickness + 1.5, PAPER)  # a rim, where links cross
        canvas.capsule(points[link], points[link + 1], thickness, _mix(LINK_BASE, LINK_TIP, share))
    for joint, point in enumerate(points[:-1]):
        canvas.disc(point, 4.6 - 0.45 * joint, JOINT)
    canvas.disc(points[-1], 6.5, PAPER)
    canvas.disc(points[-1], 5.0, TRAIL)


def _draw_time(canvas: Canvas, steps: int) -> None:
    """Draw a bar along the lower edge that fills up, marked where the via point and the goal are due."""
    left, right, height = -0.98, 0.98, -0.9
    due = [(rules.VIA_STEP + 1, VIA), (rules.GOAL_STEP + 1, GOAL)]
    canvas.capsule((left, height), (right, height), 4.0, BAR)
    now = left + (right - left) * steps / rules.HORIZON
    canvas.capsule((left, height), (now, height), 4.0, LINK_TIP)
    for step, color in due:
        mark = (left + (right - left) * step / rules.HORIZON, height)
        canvas.disc(mark, 7.5, color)
        if steps < step:
            canvas.disc(mark, 5.0, PAPER)


def _mix(first: Color, second: Color, share: float) -> Color:
    """Blend two colours."""
    red, green, blue = (round(a + share * (b - a)) for a, b in zip(first, second, strict=True))
    return red, green, blue
