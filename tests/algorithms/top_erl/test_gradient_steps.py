"""Gradient steps of an iteration: what stops them, and what is reported of them."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from top_erl.algorithms.divergence import Diverged
from top_erl.algorithms.stats import CriticStats, PolicyStats, mean_stats
from top_erl.algorithms.top_erl.learner import TopErlLearner
from top_erl.errors import UserError
from top_erl.rollout.replay import EpisodeBatch

from .tiny import batch_of, started, tiny_config, tiny_learner

# ---- divergence


def _with_bad_episode(reward: float, seed: int) -> tuple[TopErlLearner, list[Tensor]]:
    """A learner whose fifth stored episode has a bad reward, and the indices that it will draw."""
    learner = started(seed=seed, learn={"batch_size": 1, "critic_steps": 40, "policy_steps": 0})
    good = batch_of(learner, 0)
    learner.replay.add(EpisodeBatch(good.state, good.reference, good.action, torch.full_like(good.reward, reward)))
    drawn: list[Tensor] = []
    draw = learner.replay.draw
    learner.replay.draw = lambda *args: drawn.append(draw(*args)) or drawn[-1]  # type: ignore[method-assign, func-returns-value]
    return learner, drawn


@pytest.mark.parametrize(("reward", "seed"), [(math.nan, 0), (math.inf, 1), (-1e7, 2)])
def test_an_exploded_loss_stops_with_its_step_and_batch(reward: float, seed: int) -> None:
    learner, drawn = _with_bad_episode(reward, seed)
    with pytest.raises(Diverged, match="critic step") as caught:
        learner.iterate(1)
    number = next(i for i, index in enumerate(drawn, start=1) if index.item() == 4)
    assert (caught.value.kind, caught.value.number) == ("critic", number)
    assert f"critic step {number} diverged: its loss is" in str(caught.value)
    torch.testing.assert_close(caught.value.batch["reward"], torch.full((1, 12), reward), equal_nan=True)


def test_large_but_bearable_losses_pass() -> None:
    learner, drawn = _with_bad_episode(-1e3, seed=0)  # (12 · 1e3)² ≈ 1.4e8 is below 1e10
    learner.iterate(1)
    assert 4 in [index.item() for index in drawn]


@pytest.mark.parametrize(("kind", "critic_steps"), [("critic", 3), ("policy", 0)])
def test_a_broken_covariance_stops_with_its_step_and_batch(kind: str, critic_steps: int) -> None:
    learner = started(learn={"critic_steps": critic_steps})
    learner.anchor.raw_covariance.data[0] = math.nan
    with pytest.raises(Diverged, match=f"{kind} step 1 diverged: the covariance of the old policy") as caught:
        learner.iterate(1)
    assert (caught.value.kind, caught.value.number) == (kind, 1)
    assert "contains NaN" in caught.value.reason
    assert len(caught.value.batch["reward"]) == 3


def test_a_policy_that_flew_away_names_the_step_that_did_it() -> None:
    """The first step's loss is still finite, its update is not: the second step cannot be taken."""
    learner = started(learn={"critic_steps": 0, "policy_steps": 3, "policy_rate": 1e30})
    with pytest.raises(Diverged, match="policy step 2 diverged") as caught:
        learner.iterate(1)
    assert (caught.value.kind, caught.value.number) == ("policy", 2)


def test_the_first_bad_step_is_named_even_if_a_later_one_fails_outright() -> None:
    learner = started(learn={"critic_steps": 0, "policy_steps": 3})
    for parameter in learner.critics.parameters():
        parameter.data.fill_(math.nan)  # the first loss is NaN, and so is the policy after it
    with pytest.raises(Diverged, match="policy step 1 diverged: its loss is nan"):
        learner.iterate(1)


def test_an_empty_replay_is_refused() -> None:
    learner = tiny_learner(tiny_config(collect={"prefill": 0}))
    with pytest.raises(UserError, match="empty"):
        learner.replay.draw(1, torch.Generator())
    with pytest.raises(UserError, match=r"collect\.prefill"):
        tiny_config(collect={"prefill": 0, "overlap": True})
    with pytest.raises(UserError, match=r"collect\.prefill"):
        tiny_config(collect={"prefill": 1}, learn={"standardize": True})


# ---- statistics


def test_means_of_statistics_by_hand() -> None:
    one = CriticStats(torch.tensor(1.0), torch.tensor(-2.0), torch.tensor(5.0))
    two = CriticStats(torch.tensor(3.0), torch.tensor(-4.0), torch.tensor(6.0))
    assert mean_stats([one, two], CriticStats) == CriticStats(torch.tensor(2.0), torch.tensor(-3.0), torch.tensor(5.5))
    assert mean_stats([], PolicyStats) is None


def test_what_only_some_steps_measured_is_averaged_over_those() -> None:
    numbers = [torch.tensor(float(n)) for n in range(8)]
    steps = [PolicyStats(*numbers[:3]), PolicyStats(*numbers[1:8])]
    expected = PolicyStats(*(torch.tensor(value) for value in (0.5, 1.5, 2.5, 4.0, 5.0, 6.0, 7.0)))
    assert mean_stats(steps, PolicyStats) == expected


def test_only_the_last_policy_step_measures_the_trust_region(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = started()
    found: list[PolicyStats] = []
    step = learner.policy_step
    monkeypatch.setattr(learner, "policy_step", lambda *a, **k: found.append(step(*a, **k)) or found[-1])
    numbers = learner.iterate(1).numbers
    assert [stats.entropy is None for stats in found] == [True] * (len(found) - 1) + [False]
    assert len(found) > 1
    assert found[-1].kl_to_anchor is not None
    assert numbers["kl_to_anchor"] == float(found[-1].kl_to_anchor)
    assert numbers["policy_objective"] == pytest.approx(float(torch.stack([s.objective for s in found]).mean()))


def test_iteration_reports_the_mean_over_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = started()
    losses: list[float] = []
    step = learner.critic_step

    def kept(*args: Any) -> CriticStats:
        stats = step(*args)
        losses.append(float(stats.loss))
        return stats

    monkeypatch.setattr(learner, "critic_step", kept)
    stats = learner.iterate(1)
    assert len(losses) == 3
    assert stats.numbers["critic_loss"] == pytest.approx(sum(losses) / 3, rel=1e-5)
