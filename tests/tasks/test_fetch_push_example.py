"""The example with gymnasium-robotics: the gripper starts behind the block, follows, and pushes it to the goal."""

from pathlib import Path

import numpy as np
import pytest

from top_erl.tasks import Task, make_task

BLOCK, WAY = slice(4, 6), slice(6, 8)
"""Where the observation holds the place of the block on the table, and the way from there to the goal."""


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Task:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    return make_task("examples.fetch_push:FetchPushTask")


def test_a_straight_push_by_hand_mostly_succeeds(task: Task) -> None:
    """From behind the block, as far as the block must go and the 7 cm before it, in 1.6 s."""
    starts = task.begin(range(8))
    block, way = starts.observation[:, BLOCK], starts.observation[:, WAY]
    behind = np.linalg.norm(starts.position - block, axis=-1)
    assert (behind > 0.05).all()
    assert (behind < 0.1).all()
    way = way + 0.02 * way / np.linalg.norm(way, axis=-1, keepdims=True)  # the gripper pushes with its side
    share = np.clip(np.arange(1, 51) / 40, 0.0, 1.0)[:, None]  # [T, 1]
    position = starts.position[:, None] + share * way[:, None]  # [B, T, 2]
    outcomes = task.play(np.concatenate([position, np.gradient(position, 0.04, axis=1)], axis=-1))
    assert outcomes.metrics["success"].mean() >= 0.5
    task.close()


def test_standing_still_hardly_succeeds(task: Task) -> None:
    starts = task.begin(range(8))
    rest = np.concatenate([starts.position, np.zeros_like(starts.position)], axis=-1)
    outcomes = task.play(np.repeat(rest[:, None], 50, axis=1))
    assert outcomes.metrics["success"].mean() <= 0.25
    assert len(np.unique(outcomes.observation[:, 0, BLOCK], axis=0)) == 8  # elsewhere in every episode, and seen
    task.close()
