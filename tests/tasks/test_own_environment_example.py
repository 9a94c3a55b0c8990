"""The example that wraps MuJoCo's Reacher plays episodes."""

from pathlib import Path

import numpy as np
import pytest

from top_erl.tasks import Task, make_task


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Task:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    return make_task("examples.own_environment:ReacherTask")


def test_two_episodes_with_random_references(task: Task) -> None:
    starts = task.begin([0, 1])
    offset = np.random.default_rng(0).normal(size=(2, 1, 2))
    share = (np.arange(1, 51) / 50)[:, None]
    place, speed = 10 * share**3 - 15 * share**4 + 6 * share**5, 30 * share**2 - 60 * share**3 + 30 * share**4
    position = starts.position[:, None] + place * offset
    outcomes = task.play(np.concatenate([position, speed * offset], axis=-1))
    assert outcomes.observation.shape == (2, 50, 10)
    assert (outcomes.reward < 0).all()
    assert set(outcomes.metrics) == {"success", "distance"}
    angles, _ = task.measured_state(outcomes.observation)
    np.testing.assert_allclose(angles[:, 0], starts.position, atol=1e-12)
    np.testing.assert_allclose(angles[:, 1:], position[:, :-1], atol=0.1)  # the controller follows
    task.close()


def test_episodes_repeat(task: Task) -> None:
    reference = np.random.default_rng(1).normal(size=(2, 50, 4))
    task.begin([5, 6])
    together = task.play(reference)
    task.begin([6])
    np.testing.assert_array_equal(task.play(reference[1:]).observation[0], together.observation[1])
    task.close()
