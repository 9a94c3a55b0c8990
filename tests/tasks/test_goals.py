"""Goals that can be exchanged: rewards against those of the same movement, played with the other goal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from top_erl.tasks import make_task
from top_erl.tasks.box_pushing.env import (
    BoxPushingEnv,
    BoxPushingRelativeEnv,
    BoxPushingRelativeSparseEnv,
    BoxPushingSparseEnv,
)
from top_erl.tasks.box_pushing.goals import BoxGoals
from top_erl.tasks.box_pushing.poses import draw_pose
from top_erl.tasks.box_pushing.rewards import rotation_distance
from top_erl.tasks.box_pushing.task import (
    BoxPushingDense,
    BoxPushingRelativeDense,
    BoxPushingRelativeSparse,
    BoxPushingSparse,
)
from top_erl.tasks.contract import Array, EpisodeOutcomes, Task

SEEDS = (3, 4, 5)


def _played(task: Task, seeds: Sequence[int]) -> tuple[Array, EpisodeOutcomes]:
    """Smooth movements that push the box about; the reference, [B, T, 14], and what happened."""
    starts = task.begin(seeds)
    phase = np.linspace(0.0, 1.0, 100)[:, None]
    turn = np.zeros((len(seeds), 1, 7))
    turn[:, 0, 0] = np.linspace(-0.8, 0.8, len(seeds))  # the whole arm to one side or the other, and the rod with it
    turn[:, 0, 6] = 0.5
    position = starts.position[:, None] + turn * np.sin(1.5 * phase) ** 2
    velocity = np.gradient(position, 0.02, axis=1)
    reference = np.concatenate((position, velocity), axis=-1)
    return reference, task.play(reference)


@pytest.mark.parametrize(
    ("task", "env"),
    [
        (BoxPushingDense, BoxPushingEnv),
        (BoxPushingSparse, BoxPushingSparseEnv),
        (BoxPushingRelativeDense, BoxPushingRelativeEnv),
        (BoxPushingRelativeSparse, BoxPushingRelativeSparseEnv),
    ],
)
def test_rewards_of_box_pushing_for_another_target(task: type[BoxPushingDense], env: type[BoxPushingEnv]) -> None:
    """The same torques from the same start, towards another target, pay and look like what is counted for it."""
    reference, outcomes = _played(task(), SEEDS)
    rule = task.spec.goal_rule
    assert rule is not None
    assert outcomes.last is not None
    after = np.concatenate((outcomes.observation[:, 1:], outcomes.last[:, None]), axis=1)
    reached, own = rule.reached(after), outcomes.observation[:, 0, list(rule.entries)]
    targets = np.array([draw_pose(np.random.default_rng(seed)) for seed in SEEDS])
    counted = outcomes.reward - rule.reward(reached, own) + rule.reward(reached, targets)
    looks = rule.with_goal(outcomes.observation, targets)
    assert np.linalg.norm(reached[:, -1, :2] - reached[:, 0, :2], axis=-1).max() > 0.02  # the box was pushed
    player, arm = task(), env()
    for row, seed in enumerate(SEEDS):
        seen = [arm.reset(seed=seed, options={"target": targets[row]})[0]]
        paid = []
        for desired in reference[row]:
            observation, reward, *_ = arm.step(player.control(arm, desired[:7], desired[7:]))
            seen.append(observation)
            paid.append(float(reward))
        np.testing.assert_allclose(counted[row], paid, rtol=0, atol=1e-6)  # arccos near 1 loses digits
        np.testing.assert_allclose(looks[row], seen[:-1], rtol=0, atol=1e-12)


def test_a_pose_that_was_reached_is_a_target_at_that_pose() -> None:
    """A goal made of a pose on the table is that pose, seen from either side of the quaternion."""
    rule, generator = BoxGoals(sparse=False), np.random.default_rng(0)
    poses = np.array([draw_pose(generator) for _ in range(50)])
    np.testing.assert_allclose(rule.as_goal(poses), poses, atol=1e-12)
    turned = poses * np.array([1, 1, 1, -1, -1, -1, -1])
    np.testing.assert_allclose(rule.as_goal(turned), poses, atol=1e-12)
    lifted = poses + np.array([0, 0, 0.004, 0, 0, 0, 0])
    np.testing.assert_allclose(rule.as_goal(lifted), poses, atol=1e-12)
    np.testing.assert_allclose(rule.reward(poses[:, None], rule.as_goal(poses)), 0.0, atol=1e-6)


def test_a_box_on_its_side_still_makes_a_target() -> None:
    side = np.array([[0.4, 0.1, 0.05, 0.0, 1.0, 0.0, 0.0]])
    goal = BoxGoals(sparse=True).as_goal(side)[0]
    assert np.linalg.norm(goal[3:]) == pytest.approx(1.0)
    tilted = np.array([[0.4, 0.1, 0.0, 0.6, 0.0, 0.48, 0.64]])  # its yaw survives
    goal = BoxGoals(sparse=True).as_goal(tilted)[0]
    assert rotation_distance(goal[3:].tolist(), [0.6 / 0.8772684879784524, 0, 0, 0.64 / 0.8772684879784524]) < 1e-6


def test_what_a_pose_pays_by_hand() -> None:
    """3 cm and 4 cm off is 5 cm; a third of a turn off is two thirds of the most."""
    pose = np.array([0.43, 0.14, 0.0, np.cos(np.pi / 3), 0, 0, np.sin(np.pi / 3)])
    goal = np.array([[0.4, 0.1, 0.0, 1.0, 0, 0, 0]])
    path = np.broadcast_to(pose, (1, 3, 7))
    np.testing.assert_allclose(BoxGoals(sparse=False).reward(path, goal), [[-3.5 * 0.05 - 2 / 3] * 3])
    np.testing.assert_allclose(BoxGoals(sparse=True).reward(path, goal), [[0, 0, -350 * 0.05 - 200 / 3]])


@pytest.mark.parametrize("id", ["top_erl/BoxPushingJumpDense-v0", "top_erl/ViaPointReacherJump-v0"])
def test_a_goal_that_jumps_cannot_be_exchanged(id: str) -> None:
    assert make_task(id).spec.goal_rule is None
