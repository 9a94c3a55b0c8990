"""Limits: where references exceed them, by hand, and what agents do about it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.export.conftest import MakeAgent
from top_erl import Limits
from top_erl.errors import UserError
from top_erl.limits import Exceeded, check_limits, exceeded
from top_erl.primitives import Reference

POSITION = np.array([[0.1, 0.0], [0.3, 0.0], [0.6, 0.0]])
VELOCITY = np.array([[1.0, 0.0], [2.0, 0.0], [4.0, -3.0]])


def test_where_by_hand() -> None:
    """dt is 0.1 s, so that accelerations are (2 - 1) / 0.1 = 10, (4 - 2) / 0.1 = 20 and -3 / 0.1 = -30."""
    assert exceeded(Limits(position=(-1, 0.5)), POSITION, VELOCITY, 0.1, None) == [
        Exceeded("position", 0, pytest.approx(0.3), 0.6, 0.5)
    ]
    assert exceeded(Limits(velocity=[3.0, 2.5]), POSITION, VELOCITY, 0.1, None) == [
        Exceeded("velocity", 0, pytest.approx(0.3), 4.0, 3.0),
        Exceeded("velocity", 1, pytest.approx(0.3), -3.0, -2.5),
    ]
    found = exceeded(Limits(acceleration=15.0), POSITION, VELOCITY, 0.1, None)
    assert [(each.joint, round(each.time, 9), round(each.value, 9)) for each in found] == [(0, 0.3, 20), (1, 0.3, -30)]
    assert exceeded(Limits(position=(-1, 1), velocity=4.0, acceleration=30.0), POSITION, VELOCITY, 0.1, None) == []


def test_the_first_step_counts_if_the_start_is_known() -> None:
    start = (np.array([-0.9, 0.0]), np.array([-2.0, 0.0]))  # 1.0 away: 10 per second; -2 to 1 in 0.1 s: 30
    found = exceeded(Limits(velocity=5.0, acceleration=25.0), POSITION, VELOCITY, 0.1, start)
    assert [(each.what, each.joint, round(each.value, 9)) for each in found] == [
        ("velocity", 0, 10.0),
        ("acceleration", 0, 30.0),
        ("acceleration", 1, -30.0),
    ]
    two = np.stack((0 * POSITION, POSITION)), np.stack((VELOCITY, VELOCITY))
    batch = exceeded(Limits(position=(-1, 0.5)), *two, 0.1, None)
    assert [each.episode for each in batch] == [1]
    assert len(exceeded(Limits(velocity=5.0), POSITION, np.full((3, 2), np.nan), 0.1, None)) == 6


def test_the_sentence_names_the_worst() -> None:
    check_limits([])
    found = exceeded(Limits(velocity=1.5), POSITION, VELOCITY, 0.1, None)
    with pytest.raises(UserError) as error:
        check_limits(found)
    assert str(error.value) == (
        "This reference must not be played: the velocity of joint 0 is 4 after 0.3 s, and 1.5 is allowed "
        "(the worst of 3 values that exceed their limits)."
    )


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({}, "Limits are a mapping with at least one of position, velocity, acceleration"),
        ([1], "Limits are a mapping"),
        ({"velocty": 1}, "Unknown limit 'velocty'; did you mean 'velocity'"),
        ({"velocity": -1}, "it must be above 0"),
        ({"velocity": "fast"}, "give a number, or one for each"),
        ({"velocity": [1, 2, 3]}, "has 3 numbers; give 1, or 2"),
        ({"acceleration": float("nan")}, "give a number, or one for each"),
        ({"position": [1, 1]}, "must lie below the highest"),
        ({"position": 3}, "is a pair"),
        ({"position": [0, [1, 2, 3]]}, "has 3 numbers; give 1, or 2"),
    ],
)
def test_wrong_limits(data: Any, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        Limits.from_dict(data, 2)


def test_an_agent_refuses_what_the_robot_cannot_do(make_agent: MakeAgent) -> None:
    agent = make_agent()
    observation = agent.training.task.begin([1, 2]).observation
    reference = agent.predict(observation, limits=Limits(velocity=1000.0))
    assert isinstance(reference, Reference)
    fastest = float(reference.velocity.abs().max())
    with pytest.raises(UserError, match=r"must not be played: .*velocity of joint \d is .* \(the worst of \d+ values"):
        agent.predict(observation, limits=Limits(velocity=0.1 * fastest))
    found = reference.exceeds(Limits(velocity=0.1 * fastest), 0.02)
    assert max(abs(each.value) for each in found) == pytest.approx(fastest)
    with pytest.raises(UserError, match="sac predicts its mean action, from an observation and a step alone"):
        make_agent("sac").predict(observation, limits=Limits(velocity=1.0))
