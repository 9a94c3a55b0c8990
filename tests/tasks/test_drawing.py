"""Shapes cover what they should, and the reacher's picture shows what happened."""

import numpy as np
import pytest
from numpy.typing import NDArray

from top_erl.tasks.via_point_reacher.drawing import Canvas, View
from top_erl.tasks.via_point_reacher.picture import GOAL, TRAIL, VIA, VIEW, WORKSPACE, draw_reacher
from top_erl.tasks.via_point_reacher.rules import ARM, draw_context
from top_erl.tasks.via_point_reacher.task import ViaPointReacher

Array = NDArray[np.float64]
Picture = NDArray[np.uint8]
BLACK, WHITE = (0, 0, 0), (255, 255, 255)
SMALL = View(size=100, scale=10.0, origin=(50.0, 50.0))
POINTS = ARM.joint_points(np.tile(np.array(ARM.start), (51, 1)))


def color_at(picture: Picture, point: Array) -> Array:
    """The colour of the pixel that holds a point of the world."""
    column, row = VIEW.to_pixels(point)
    return picture[int(row), int(column)].astype(np.float64)


def covered(canvas: Canvas) -> float:
    """Area painted white on black, in pixels."""
    return float(canvas.pixels[..., 0].sum() / 255)


def test_areas_are_those_of_geometry() -> None:
    disc, ring, capsule, half = (Canvas(SMALL, BLACK) for _ in range(4))
    disc.disc((0.31, -0.2), 12.3, WHITE)
    ring.ring((0.0, 0.07), 20.0, 5.0, WHITE)
    capsule.capsule((-1.0, -1.0), (2.0, 1.5), 6.0, WHITE)
    half.half_ring(1.0, 3.0, WHITE)
    assert covered(disc) == pytest.approx(np.pi * 12.3**2, rel=2e-3)
    assert covered(ring) == pytest.approx(2 * np.pi * 20 * 5, rel=2e-3)
    assert covered(capsule) == pytest.approx(np.pi * 36 + 12 * 10 * np.hypot(3, 2.5), rel=2e-3)
    assert covered(half) == pytest.approx(np.pi / 2 * (30**2 - 10**2), rel=5e-3)


def test_up_is_up() -> None:
    canvas = Canvas(SMALL, BLACK)
    canvas.disc((2.0, 3.0), 4.0, (255, 0, 0))
    assert tuple(canvas.picture()[20, 70]) == (255, 0, 0)


def test_opacity_blends() -> None:
    canvas = Canvas(SMALL, BLACK)
    canvas.disc((0.0, 0.0), 10.0, (200, 100, 0), opacity=0.5)
    assert tuple(canvas.picture()[50, 50]) == (100, 50, 0)


def test_shapes_outside_the_picture_are_cut() -> None:
    canvas = Canvas(SMALL, BLACK)
    canvas.disc((100.0, 0.0), 5.0, WHITE)
    canvas.disc((0.0, -100.0), 5.0, WHITE)
    assert covered(canvas) == 0
    canvas.disc((5.0, 0.0), 10.0, WHITE)  # its centre is on the right edge
    assert covered(canvas) == pytest.approx(np.pi * 50, rel=2e-2)


def test_edges_are_smooth() -> None:
    canvas = Canvas(SMALL, BLACK)
    canvas.disc((0.0, 0.0), 20.0, WHITE)
    grey = (canvas.pixels[..., 0] > 0) & (canvas.pixels[..., 0] < 255)
    assert 0.8 * 2 * np.pi * 20 < grey.sum() < 1.6 * 2 * np.pi * 20  # about one pixel along the whole edge


def test_targets_have_their_colours_at_their_places() -> None:
    via, goal = np.array([0.6, 0.4]), np.array([-0.5, 0.3])
    picture = draw_reacher(POINTS[:1], via, goal)
    assert picture.shape == (480, 480, 3)
    assert picture.dtype == np.uint8
    for target, color in ((via, VIA), (goal, GOAL)):
        np.testing.assert_allclose(color_at(picture, target), color, atol=2)
        np.testing.assert_allclose(color_at(picture, target + np.array([0.1, 0.0])), color, atol=25)
        # Inside the ring it is still open: nearer to the workspace's colour than to the target's.
        inside = color_at(picture, target + np.array([0.05, 0.0]))
        assert np.abs(inside - WORKSPACE).sum() < np.abs(inside - np.array(color)).sum()


@pytest.mark.parametrize(("num_steps", "reached"), [(24, False), (25, True), (50, True)])
def test_via_point_is_filled_once_it_is_passed(num_steps: int, reached: bool) -> None:
    via = POINTS[0, -1] + np.array([0.05, -0.05])
    picture = draw_reacher(POINTS[: num_steps + 1], via, np.array([-0.5, 0.3]))
    inside = color_at(picture, via + np.array([0.06, 0.0]))
    assert (np.abs(inside - np.array(VIA)).max() < 45) == reached


def test_missed_targets_fade() -> None:
    via, goal = np.array([0.6, 0.4]), np.array([-0.5, 0.3])
    open_picture, missed = (draw_reacher(POINTS[:steps], via, goal) for steps in (50, 51))
    edge = goal - np.array([0.1, 0.0])
    assert color_at(missed, edge).sum() > color_at(open_picture, edge).sum() + 60


def test_tip_is_drawn_on_top() -> None:
    picture = draw_reacher(POINTS[:10], np.array([0.6, 0.4]), np.array([-0.5, 0.3]))
    np.testing.assert_allclose(color_at(picture, POINTS[0, -1]), TRAIL, atol=2)


def test_frames_are_one_per_step_and_end_where_the_episode_ends() -> None:
    task = ViaPointReacher()
    reference = np.tile(np.concatenate([ARM.start, np.zeros(5)]), (50, 1))
    frames = task.frames(4, reference)
    context = draw_context([np.random.default_rng(4)])
    assert len(frames) == 50
    np.testing.assert_array_equal(frames[-1], draw_reacher(POINTS, context.via[0], context.goal[0]))
