"""The example of a contact task: the hand stays low, the arm follows, the object is pushed."""

from pathlib import Path

import numpy as np
import pytest

from top_erl.tasks import Task, make_task

OBJECT = slice(17, 19)
"""Where the observation holds the object's place on the table."""


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Task:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    return make_task("examples.pusher:PusherTask")


def test_a_sweep_over_the_table_pushes_the_object(task: Task) -> None:
    """The elbow bends in the first second and a half, then the shoulder turns: past every place of the object."""
    seeds = range(6)
    starts = task.begin(seeds)
    time = np.arange(1, 101) * 0.05
    speed = np.stack((np.where(time > 1.5, 0.4, 0.0), np.where(time <= 1.5, -0.6, 0.0)), axis=-1)  # [T, 2]
    position = starts.position[:, None] + np.cumsum(speed, axis=0) * 0.05  # [B, T, 2]
    outcomes = task.play(np.concatenate([position, np.broadcast_to(speed, position.shape)], axis=-1))

    angles, _ = task.measured_state(outcomes.observation)
    np.testing.assert_allclose(angles[:, 0], starts.position, atol=1e-12)
    assert np.abs(angles[:, 1:] - position[:, :-1]).max() < 0.25  # the controller follows, somewhat behind
    height = outcomes.observation[:, 30:, 16]
    assert (height < -0.22).all(), "the hand is above the object"
    moved = np.linalg.norm(outcomes.observation[:, -1, OBJECT] - outcomes.observation[:, 0, OBJECT], axis=-1)
    assert (moved > 0.1).sum() >= 2
    task.close()


def test_standing_still_is_no_success(task: Task) -> None:
    starts = task.begin(range(4))
    rest = np.concatenate([starts.position, np.zeros_like(starts.position)], axis=-1)
    outcomes = task.play(np.repeat(rest[:, None], 100, axis=1))
    assert not outcomes.metrics["success"].any()
    assert len(np.unique(outcomes.observation[:, 0, OBJECT], axis=0)) == 4  # elsewhere in every episode, and seen
    place, goal = outcomes.observation[:, -1, 17:20], outcomes.observation[:, -1, 20:23]
    np.testing.assert_allclose(outcomes.metrics["distance"], np.linalg.norm(place - goal, axis=-1), atol=1e-3)
    task.close()
