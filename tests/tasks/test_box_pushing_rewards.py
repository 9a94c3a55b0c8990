"""Rewards of Box Pushing against numbers computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from top_erl.tasks.box_pushing.arm import HOME
from top_erl.tasks.box_pushing.poses import FIXED_START, draw_pose, draw_target
from top_erl.tasks.box_pushing.rewards import (
    Measurements,
    dense_reward,
    joint_penalty,
    measure,
    rotation_distance,
    sparse_reward,
)

STILL = [0.0] * 7
CALM = Measurements(
    joint_penalty=0.0, rod_distance=0.1, box_distance=0.2, box_rotation=0.3, energy=40.0, rod_tilt=0.7, joint_speed=0.5
)


def test_joints_inside_their_limits_cost_nothing() -> None:
    assert joint_penalty(HOME.tolist(), [2.1] * 4 + [2.6] * 3) == 0.0


def test_what_exceeds_a_limit_is_lost() -> None:
    position = HOME.tolist()
    position[0] = 3.0  # 0.1027 above 2.8973
    position[1] = -1.8  # 0.0372 below -1.7628
    position[3] = 0.0  # 0.0698 above -0.0698
    velocity = [0.0, -3.0, 0.0, 2.175, 0.0, 0.0, 2.7]  # 0.825 above 2.175, and 0.09 above 2.61
    assert joint_penalty(position, velocity) == pytest.approx(-(0.1027 + 0.0372 + 0.0698 + 0.825 + 0.09), abs=1e-12)


@pytest.mark.parametrize("angle", [0.0, 0.4, 1.5, 3.0, math.pi])
def test_rotation_distance_is_the_angle(angle: float) -> None:
    turned = [math.cos(angle / 2), 0.0, 0.0, math.sin(angle / 2)]
    assert rotation_distance([1.0, 0.0, 0.0, 0.0], turned) == pytest.approx(angle, abs=1e-7)
    assert rotation_distance([1.0, 0.0, 0.0, 0.0], [-entry for entry in turned]) == pytest.approx(angle, abs=1e-7)


def test_rounding_above_one_is_no_nan() -> None:
    longer = [1.0 + 1e-15, 0.0, 0.0, 0.0]
    assert rotation_distance(longer, longer) == 0.0


def test_measurements() -> None:
    observation = [*HOME.tolist(), 3.0, 0.0, 4.0, 0.0, 0.0, 0.0, 0.0]
    observation += [0.4, 0.3, -0.01, 1.0, 0.0, 0.0, 0.0]
    observation += [0.4, -0.1, -0.01, math.cos(0.5), 0.0, 0.0, math.sin(0.5)]
    tilted = [math.sin(0.25), math.cos(0.25), 0.0, 0.0]
    measured = measure(observation, [0.4, 0.3, 0.05], tilted, energy=7.0)
    expected = Measurements(
        joint_penalty=-(3.0 - 2.175) - (4.0 - 2.175),
        rod_distance=0.06,
        box_distance=0.4,
        box_rotation=1.0,
        energy=7.0,
        rod_tilt=0.5,
        joint_speed=5.0,
    )
    assert measured == pytest.approx(expected, abs=1e-9)


def test_dense_reward() -> None:
    # rod -2 * 0.1, energy -0.0005 * 40, position -3.5 * 0.2, rotation -0.3 / pi; a tilt of 0.7 is allowed
    assert dense_reward(CALM) == pytest.approx(-0.2 - 0.02 - 0.7 - 0.3 / math.pi, abs=1e-12)


def test_sparse_reward() -> None:
    every_step = -0.2 - 0.02 * 40.0
    assert sparse_reward(CALM, last=False) == pytest.approx(every_step, abs=1e-12)
    at_the_end = -350.0 * 0.2 - 100.0 * 0.3 / math.pi - 50.0 * 0.5
    assert sparse_reward(CALM, last=True) == pytest.approx(every_step + at_the_end, abs=1e-12)


@pytest.mark.parametrize("last", [False, True])
def test_tilt_joints_and_a_near_rod_count_in_both(last: bool) -> None:
    upright = CALM._replace(rod_tilt=math.pi / 4)
    tilted = CALM._replace(rod_tilt=0.8)
    beyond = CALM._replace(joint_penalty=-0.3)
    touching = CALM._replace(rod_distance=0.01)  # counts as 0.05
    for reward in (dense_reward, lambda now: sparse_reward(now, last)):
        base = reward(CALM)
        assert reward(upright) == base
        assert reward(tilted) - base == pytest.approx(-0.8 / math.pi, abs=1e-12)
        assert reward(beyond) - base == pytest.approx(-0.3, abs=1e-12)
        assert reward(touching) - base == pytest.approx(2.0 * (0.1 - 0.05), abs=1e-12)


@pytest.mark.parametrize(
    ("distance", "rotation", "success"),
    [(0.049, 0.49, True), (0.05, 0.49, False), (0.049, 0.5, False), (0.0, 0.0, True)],
)
def test_success_needs_position_and_rotation(distance: float, rotation: float, success: bool) -> None:
    assert CALM._replace(box_distance=distance, box_rotation=rotation).success is success


def test_poses_are_uniform_on_the_table() -> None:
    generator = np.random.default_rng(0)
    poses = np.array([draw_pose(generator) for _ in range(4000)])
    assert poses[:, :3].min(axis=0) == pytest.approx([0.3, -0.45, -0.01], abs=2e-3)
    assert poses[:, :3].max(axis=0) == pytest.approx([0.6, 0.45, -0.01], abs=2e-3)
    assert (poses[:, 4:6] == 0.0).all()
    yaw = np.arctan2(2 * poses[:, 3] * poses[:, 6], 1 - 2 * poses[:, 6] ** 2)
    counts, _ = np.histogram(yaw, bins=8, range=(-np.pi, np.pi))
    assert abs(counts - 500).max() < 100


def test_targets_keep_their_distance_from_the_start() -> None:
    generator = np.random.default_rng(0)
    targets = np.array([draw_target(generator, FIXED_START) for _ in range(300)])
    distance = np.hypot(targets[:, 0] - 0.4, targets[:, 1] - 0.3)
    assert 0.3 <= distance.min() < 0.32
