"""Re-arranged rewards, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import ArrayLike

from top_erl.errors import UserError
from top_erl.tasks.markov import rewards_at_event


@pytest.mark.parametrize(
    ("happened", "expected"),
    [
        ([0, 0, 0, 0], [1, 2, 3, 4]),  # never: as they are
        ([1, 1, 1, 1], [1, 2, 3, 4]),  # from the start on: as they are, too
        ([0, 1, 1, 1], [1, 9, 0, 0]),
        ([0, 0, 1, 1], [1, 2, 7, 0]),
        ([0, 0, 0, 1], [1, 2, 3, 4]),  # at the last step there is nothing to move
    ],
)
def test_rewards_move_to_the_event(happened: list[int], expected: list[int]) -> None:
    reward = np.array([1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(rewards_at_event(reward, happened), expected)
    np.testing.assert_array_equal(reward, [1, 2, 3, 4])  # what was given is left alone


def test_a_batch_is_its_episodes_bit_for_bit() -> None:
    generator = np.random.default_rng(0)
    reward = generator.normal(size=(3, 4, 50))
    happened = np.arange(50) >= generator.integers(0, 60, size=(3, 4, 1))
    together = rewards_at_event(reward, happened)
    assert together.shape == reward.shape
    for index in np.ndindex(3, 4):
        assert together[index].tobytes() == rewards_at_event(reward[index], happened[index]).tobytes()
    np.testing.assert_allclose(together.sum(-1), reward.sum(-1), rtol=0, atol=1e-12)


def test_nothing_in_nothing_out() -> None:
    assert rewards_at_event(np.empty((0, 5)), np.empty((0, 5), dtype=bool)).shape == (0, 5)


@pytest.mark.parametrize(
    ("reward", "happened", "message"),
    [
        ([1.0, 2.0], [False], r"the same shape, .* not \(2,\) and \(1,\)"),
        (1.0, True, r"the same shape"),
        ([1.0, 2.0], [True, False], "cannot be undone"),
    ],
)
def test_mistakes_are_explained(reward: ArrayLike, happened: ArrayLike, message: str) -> None:
    with pytest.raises(UserError, match=message):
        rewards_at_event(reward, happened)
