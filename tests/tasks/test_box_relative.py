"""Box Pushing v1: v0 in every number, and poses seen from the box, against SciPy's rotations."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import top_erl.tasks  # noqa: F401  (makes the environments known)
from top_erl.tasks.box_pushing.env import BoxPushingRelativeEnv
from top_erl.tasks.box_pushing.relative import ENTRIES, PLAIN, SIZE
from top_erl.tasks.contract import Array

ENTRY = {name: PLAIN + number for number, name in enumerate(ENTRIES)}


def _rotation(quaternion: Array) -> Rotation:
    return Rotation.from_quat(quaternion[[1, 2, 3, 0]])


def _pushed(env: gym.Env[Array, Array], seed: int) -> tuple[list[Array], list[float]]:
    """An episode of random torques: observations and rewards."""
    generator = np.random.default_rng(seed)
    seen, paid = [env.reset(seed=seed)[0]], []
    for _ in range(100):
        observation, reward, *_ = env.step(generator.uniform(-1, 1, 7))
        seen.append(observation)
        paid.append(float(reward))
    return seen, paid


@pytest.mark.parametrize("variant", ["Dense", "Sparse"])
def test_the_same_episode_as_in_v0(variant: str) -> None:
    plain, paid = _pushed(gym.make(f"top_erl/BoxPushing{variant}-v0"), 3)
    relative, paid_too = _pushed(gym.make(f"top_erl/BoxPushing{variant}-v1"), 3)
    assert paid == paid_too
    assert {len(observation) for observation in relative} == {SIZE}
    np.testing.assert_array_equal(np.array(relative)[:, :PLAIN], plain)


@pytest.mark.parametrize("seed", range(4))
def test_what_is_seen_from_the_box(seed: int) -> None:
    env = BoxPushingRelativeEnv()
    observation = _pushed(env, seed)[0][-1]
    box, target, tip = observation[14:17], observation[21:24], observation[PLAIN : PLAIN + 3]
    np.testing.assert_array_equal(tip, env._rod_tip)
    heading = _rotation(observation[17:21]).as_matrix()[:, 0]  # where the box's x axis points
    yaw, target_yaw = np.arctan2(heading[1], heading[0]), _rotation(observation[24:28]).as_euler("ZYX")[0]
    box_yaw = np.arctan2(observation[ENTRY["sin of the box's yaw"]], observation[ENTRY["cos of the box's yaw"]])
    assert np.cos(box_yaw - yaw) > 1 - 1e-3  # a box that is tilted a little has no one yaw
    left = observation[ENTRY["cos of the turn that is left"]], observation[ENTRY["sin of the turn that is left"]]
    np.testing.assert_allclose(left, (np.cos(target_yaw - box_yaw), np.sin(target_yaw - box_yaw)), atol=1e-9)
    np.testing.assert_allclose(
        observation[[ENTRY["target minus box, x"], ENTRY["target minus box, y"]]], (target - box)[:2]
    )
    turned = Rotation.from_euler("z", -box_yaw)
    for point, ahead, aside in (
        (target, "target, ahead of the box", "target, to the left of the box"),
        (tip, "rod tip, ahead of the box's middle", "rod tip, to the left of the box's middle"),
    ):
        seen = turned.apply([*(point - box)[:2], 0.0])
        np.testing.assert_allclose(observation[[ENTRY[ahead], ENTRY[aside]]], seen[:2], atol=1e-9)


def test_a_turn_has_the_sign_of_the_shorter_way() -> None:
    env = BoxPushingRelativeEnv()
    env.reset(seed=0)
    for turn in (0.4, -0.4, 2.9, -2.9):
        start = _rotation(env.reset(seed=0)[0][17:21])
        x, y, z, w = (Rotation.from_euler("z", turn) * start).as_quat()
        for sign in (1, -1):  # either quaternion of the same pose
            wanted = sign * np.array([w, x, y, z])
            observation, _ = env.reset(seed=0, options={"target": (0.5, 0.2, -0.01, *wanted)})
            assert observation[ENTRY["sin of the turn that is left"]] == pytest.approx(np.sin(turn), abs=1e-9)
            assert observation[ENTRY["cos of the turn that is left"]] == pytest.approx(np.cos(turn), abs=1e-9)
