"""Contacts and rewards of the hopper, by hand."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from top_erl.tasks.hopper_jump.contacts import FloorContacts
from top_erl.tasks.hopper_jump.rewards import DENSE, SPARSE, StepMeasures, is_healthy, step_reward


def follow(contacts: str) -> tuple[str, float | None]:
    """Play a sequence of steps, `x` in contact and `.` not, at distances 1, 2, 3, …: what has happened by each.

    `-` nothing, `t` touched, `l` left, `d` down again.
    """
    events, letters = FloorContacts(), ""
    for step, letter in enumerate(contacts):
        events.update(letter == "x", step + 1.0)
        letters += "-tld"[events.has_touched_floor + events.has_left_floor + events.has_landed]
    return letters, events.landing_distance


@pytest.mark.parametrize(
    ("contacts", "events", "distance"),
    [
        ("......", "------", None),  # still falling
        ("..xxxx", "--tttt", None),  # landed after the drop
        ("..xx..", "--ttll", None),  # in the air at the end
        ("..xx..x", "--ttlld", 7.0),
        ("..x.x.", "--tldd", 5.0),  # bounced after the drop: that counts as the jump
        ("x.x.x.x.", "tldddddd", 3.0),  # only the first landing after the jump counts
    ],
)
def test_events_of_an_episode(contacts: str, events: str, distance: float | None) -> None:
    assert follow(contacts) == (events, distance)


def test_every_sequence_agrees_with_the_rule_as_it_is_written() -> None:
    for sequence in itertools.product(".x", repeat=9):
        first = left = second = False
        distance = None
        for step, letter in enumerate(sequence):
            contact = letter == "x" and not second
            if not first:
                first = contact
            if first and not left:
                left = not contact
            if left and not second:
                second = contact
                if second:
                    distance = step + 1.0
        letters, found = follow("".join(sequence))
        assert letters[-1] == "-tld"[first + left + second]
        assert found == distance


MEASURES = StepMeasures(height=1.2, max_height=1.7, goal_distance=0.5, landing_distance=0.4, healthy=True)
ACTION = np.array([1.0, -2.0, 3.0])  # 14 in squares


def test_sparse_reward() -> None:
    assert step_reward(SPARSE, MEASURES, ACTION, is_last=False) == pytest.approx(-0.014)
    last = step_reward(SPARSE, MEASURES, ACTION, is_last=True)
    assert last == pytest.approx(2 - 3 * 0.5 + 10 * 1.7 - 2 * 0.4 - 0.014)
    fallen = step_reward(SPARSE, replace(MEASURES, healthy=False), ACTION, is_last=True)
    assert fallen == pytest.approx(last - 2)


@pytest.mark.parametrize("distance", [None, 0.0])
def test_no_landing_costs_as_much_as_one_five_metres_off(distance: float | None) -> None:
    missing = step_reward(SPARSE, replace(MEASURES, landing_distance=distance), ACTION, is_last=True)
    far = step_reward(SPARSE, replace(MEASURES, landing_distance=5.0), ACTION, is_last=True)
    assert missing == far


@pytest.mark.parametrize("is_last", [False, True])
def test_dense_reward(is_last: bool) -> None:
    expected = 1 - 3 * 0.5 + 3 * 1.2 - 0.014  # the present height, and no landing
    assert step_reward(DENSE, MEASURES, ACTION, is_last) == pytest.approx(expected)


def test_health() -> None:
    good = np.array([500.0, 0.51, 0.0, 0.0, 0.0, 99.9])  # x is free
    assert is_healthy(good, np.full(6, -99.9))
    assert not is_healthy(good, np.array([0, 0, 0, 0, 0, 100.0]))
    assert not is_healthy(good, np.array([-100.0, 0, 0, 0, 0, 0]))
    assert not is_healthy(good, np.array([np.nan, 0, 0, 0, 0, 0]))
    assert not is_healthy(good * np.array([1, 1, 1, 1, 1, 2]), np.zeros(6))
    assert not is_healthy(np.array([0, 0.5, 0, 0, 0, 0]), np.zeros(6))
