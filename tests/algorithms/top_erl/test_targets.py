"""Targets and losses with numbers computed by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from top_erl.algorithms.top_erl.learner import TopErlLearner
from top_erl.algorithms.top_erl.segments import Segments
from top_erl.algorithms.top_erl.targets import (
    TARGETS,
    ClippedTarget,
    EnsembleTarget,
    QTarget,
    VTarget,
    n_step_returns,
)
from top_erl.errors import UserError
from top_erl.models import Sequences
from top_erl.rollout.replay import EpisodeBatch

from .tiny import TinyTask, batch_of, tiny_config, tiny_learner

EXAMPLE = Segments(horizon=10, length=4, count=2, offset=3, stride=4)  # 3,4,5,6|7 and 7,8,9,10|11
REWARD = torch.arange(10.0).expand(2, 10) * torch.tensor([[1.0], [-1.0]])  # r_i = i, and −i in the second episode
VALUE = 100.0 + torch.arange(10.0).expand(2, 10)  # V(s_i) = 100 + i


# ---- n-step returns


def test_returns_without_discount() -> None:
    returns = n_step_returns(REWARD, VALUE, EXAMPLE, discount=1.0)
    assert returns.shape == (2, 2, 4)
    first = [3 + 104, 3 + 4 + 105, 3 + 4 + 5 + 106, 3 + 4 + 5 + 6 + 107]
    second = [7 + 108, 7 + 8 + 109, 7 + 8 + 9]  # beyond the end the value is zero
    assert returns[0, 0].tolist() == first
    assert returns[0, 1, :3].tolist() == second
    assert returns[1, 0].tolist() == [-3 + 104, -7 + 105, -12 + 106, -18 + 107]
    assert returns[1, 1, :3].tolist() == [-7 + 108, -15 + 109, -24]


def test_returns_with_discount() -> None:
    returns = n_step_returns(REWARD, VALUE, EXAMPLE, discount=0.9)
    first = [
        3 + 0.9 * 104,
        3 + 0.9 * 4 + 0.81 * 105,
        3 + 0.9 * 4 + 0.81 * 5 + 0.729 * 106,
        3 + 0.9 * 4 + 0.81 * 5 + 0.729 * 6 + 0.6561 * 107,
    ]
    second = [7 + 0.9 * 108, 7 + 0.9 * 8 + 0.81 * 109, 7 + 0.9 * 8 + 0.81 * 9]
    assert returns[0, 0].tolist() == pytest.approx(first, rel=1e-6)
    assert returns[0, 1, :3].tolist() == pytest.approx(second, rel=1e-6)


def test_returns_of_the_whole_episode_need_no_value() -> None:
    whole = Segments(horizon=10, length=10, count=1, offset=0, stride=10)
    returns = n_step_returns(REWARD, VALUE, whole, discount=1.0)[0, 0]
    assert returns[-1] == 45.0  # 0 + 1 + … + 9
    assert returns[-2] == 36.0 + 109.0


def test_returns_of_single_steps_are_one_step_targets() -> None:
    steps = Segments(horizon=10, length=1, count=10, offset=0, stride=1)
    returns = n_step_returns(REWARD, VALUE, steps, discount=0.5)[0, :, 0]
    assert returns.tolist() == [i + 0.5 * (101 + i) for i in range(9)] + [9.0]


# ---- the worked example in the learner


class _StandIn:
    """Target critics with values that tell where they come from: V(s_i) = 100 + i, Q_N from s_i = 10 i + N.

    The c-th critic adds 1000 c to Q and takes 1000 c from V.
    """

    def __init__(self, count: int = 1) -> None:
        self.shift = 1000.0 * torch.arange(count).view(-1, 1, 1)
        self.actions: list[Tensor] = []

    def last_value(self, sequences: Sequences) -> Tensor:
        self.actions.append(sequences.actions)
        return (10.0 * sequences.starts + sequences.counts).expand(1, len(sequences.states), -1) + self.shift

    def target_values(self, sequences: Sequences, times: Tensor) -> tuple[Tensor, Tensor]:
        values = (100.0 + times).expand(1, len(sequences.states), -1) - self.shift
        return self.last_value(sequences), values


def _example(**learn: object) -> tuple[TopErlLearner, EpisodeBatch, _StandIn]:
    learner = tiny_learner(tiny_config(learn=learn), task=TinyTask(horizon=10), relative_goal=True)
    learner.prefill()
    batch = batch_of(learner, 0, 1)
    stand_in = _StandIn(learner.target.num_critics)
    learner.target_critics = stand_in  # type: ignore[assignment]
    return learner, EpisodeBatch(batch.state, batch.reference, batch.action, REWARD), stand_in


@torch.no_grad()
def _targets(learner: TopErlLearner, batch: EpisodeBatch, seed: int) -> Tensor:
    """Targets of the example for parameters drawn from a fresh generator."""
    generator = torch.Generator().manual_seed(seed)
    gaussian = learner.project(batch, None)[1].gaussian
    params = learner.sample(gaussian, EXAMPLE.count, generator)
    return learner.target(batch, EXAMPLE, learner._future(batch, gaussian, params, generator))


def test_worked_example_with_v() -> None:
    learner, batch, _ = _example()
    target = _targets(learner, batch, seed=0)
    assert target.shape == (2, 2, 5)
    # V(s_3) ← Q̄(s_3, ã_3..ã_6); Q ← rewards + V̄
    assert target[0, 0].tolist() == [34.0, 107.0, 112.0, 118.0, 125.0]
    # V(s_7) ← Q̄(s_7, ã_7, ã_8, ã_9): the third output, since the fourth action lies beyond the end
    assert target[0, 1, :4].tolist() == [73.0, 7 + 108.0, 7 + 8 + 109.0, 7 + 8 + 9.0]


def test_worked_example_with_q() -> None:
    learner, batch, stand_in = _example(target="q")
    target = _targets(learner, batch, seed=0)
    assert sum(actions.shape[1] for actions in stand_in.actions) == 10  # every index; V is not trained

    def fresh(index: int) -> float:  # value of four new actions from s_i, or of those left
        return 10.0 * index + min(4, 10 - index)

    assert target[0, 0, 1:].tolist() == [3 + fresh(4), 7 + fresh(5), 12 + fresh(6), 18 + fresh(7)]
    assert target[0, 1, 1:4].tolist() == [7 + fresh(8), 15 + fresh(9), 24.0]


@pytest.mark.parametrize(
    ("settings", "q_shift", "v_shift"),
    [
        ({"target": "clipped"}, 0.0, -1000.0),  # the smaller one: critic 0 for Q, critic 1 for V
        ({"target": "ensemble", "ensemble_size": 2}, 500.0, -500.0),
        ({"target": "ensemble", "ensemble_size": 3}, 1000.0, -1000.0),
    ],
    ids=["clipped", "ensemble of 2", "ensemble of 3"],
)
def test_worked_example_with_several_critics(settings: dict[str, object], q_shift: float, v_shift: float) -> None:
    learner, batch, _ = _example(**settings)
    target = _targets(learner, batch, seed=0)
    assert target[0, 0, 0] == 34.0 + q_shift
    assert target[0, 0, 1] == 3 + 104 + v_shift
    assert target[0, 1, 3] == 24.0  # no critic has a say in a finished episode


def test_worked_example_actions_go_on_from_the_old_reference() -> None:
    learner, batch, stand_in = _example()
    _targets(learner, batch, seed=5)
    (actions,) = stand_in.actions
    mean, noise = learner.policy(batch.state[:, 0]), torch.randn(2, 2, 6, generator=torch.Generator().manual_seed(5))
    for b in range(2):
        for k, start in enumerate((3, 7)):
            inside = range(start, min(start + 4, 10))
            expected = learner.primitive.trajectory(
                mean.mean[b] + mean.factor @ noise[b, k],  # policy and anchor are still the same: not projected
                torch.tensor([0.1 * (index + 1) for index in inside], dtype=torch.float64),
                init_time=0.1 * start,
                init_position=batch.reference[b, start, :2],
                init_velocity=batch.reference[b, start, 2:],
                goal_origin=batch.reference[b, 0, :2],
            )
            torch.testing.assert_close(actions[b, k, : len(inside)], expected.stacked(), rtol=0, atol=1e-5)


# ---- the options


def test_names_of_the_options() -> None:
    kinds = {"v": VTarget, "q": QTarget, "clipped": ClippedTarget, "ensemble": EnsembleTarget}
    assert {name: type(factory(5)) for name, factory in TARGETS.items()} == kinds
    counts = {name: factory(5).num_critics for name, factory in TARGETS.items()}
    assert counts == {"v": 1, "q": 1, "clipped": 2, "ensemble": 5}
    with pytest.raises(UserError, match=r"learn\.target.*clipped"):
        tiny_config(learn={"target": "clippt"})


def test_only_with_q_the_state_value_has_no_target() -> None:
    for name, factory in TARGETS.items():
        mask = factory(2).mask(EXAMPLE)
        assert mask.tolist() == [[float(name != "q"), 1, 1, 1, 1], [float(name != "q"), 1, 1, 1, 0]]


def test_combining_critics_by_hand() -> None:
    values = torch.tensor([[1.0, 8.0], [3.0, 2.0]])
    assert VTarget().combine(values[:1]).tolist() == [1.0, 8.0]
    assert QTarget().combine(values[:1]).tolist() == [1.0, 8.0]
    assert ClippedTarget().combine(values).tolist() == [1.0, 2.0]
    assert EnsembleTarget().combine(values).tolist() == [2.0, 5.0]
