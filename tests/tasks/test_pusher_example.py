"""The example of a contact task: the hand stays low and follows, the object is pushed."""

from pathlib import Path

import numpy as np
import pytest

from top_erl.tasks import Task, make_task

HAND, OBJECT = slice(14, 16), slice(17, 19)
"""Where the observation holds the places of hand and object on the table."""


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Task:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    return make_task("examples.pusher:PusherTask")


def test_a_push_by_hand_moves_the_object_towards_the_goal(task: Task) -> None:
    """Sideways until the hand is behind the object, then straight on, 35 cm in 3 s."""
    starts = task.begin(range(6))
    aside = starts.observation[:, OBJECT.start] - starts.position[:, 0]  # [B]
    time = np.arange(1, 101) * 0.05
    first, then = np.clip(time / 1.5, 0.0, 1.0), np.clip((time - 1.5) / 3.0, 0.0, 1.0)
    position = starts.position[:, None] + np.stack((aside[:, None] * first, 0.35 * then + 0 * aside[:, None]), axis=-1)
    velocity = np.gradient(position, 0.05, axis=1)
    outcomes = task.play(np.concatenate([position, velocity], axis=-1))

    place = outcomes.observation[..., HAND]  # [B, T, 2]
    np.testing.assert_allclose(place[:, 0], starts.position, atol=1e-12)
    assert np.abs(place[:, 1:] - position[:, :-1]).max() < 0.08  # the hand follows, somewhat behind
    assert np.abs(outcomes.observation[:, :, 16] + 0.27).max() < 0.08, "the hand leaves the table"
    ahead = outcomes.observation[:, -1, OBJECT][:, 1] - outcomes.observation[:, 0, OBJECT][:, 1]
    assert (ahead > 0.1).sum() >= 5
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
