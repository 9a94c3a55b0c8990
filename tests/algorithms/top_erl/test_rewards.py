"""Rewards in units of their own: closed forms, what the critic is given, and that no movement is favoured."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.algorithms.top_erl.tiny import tiny_config, tiny_learner
from top_erl.algorithms.top_erl.rewards import RewardStandardizer


def test_by_hand() -> None:
    """Returns 3, 5 and 10: their mean is 6, their standard deviation the root of 13."""
    reward = torch.tensor([[1.0, 2.0], [4.0, 1.0], [4.0, 6.0]])
    rewards = RewardStandardizer(steps=2, spread=5.0)
    torch.testing.assert_close(rewards(reward), reward)  # not fitted yet
    rewards.fit(reward)
    wanted = 5.0 / 13.0**0.5 * torch.tensor([[-2.0, -1.0], [1.0, -2.0], [1.0, 3.0]])
    torch.testing.assert_close(rewards(reward), wanted)
    torch.testing.assert_close(rewards(reward).sum(-1).std(), torch.tensor(5.0))


@pytest.mark.parametrize("pay", [1e-3, 1.0, 1e4])
def test_what_a_task_pays_in_makes_no_difference(pay: float) -> None:
    reward = torch.from_numpy(np.random.default_rng(0).normal(3.0, 1.0, (20, 6))).float()
    rewards, paid = RewardStandardizer(6, 10.0), RewardStandardizer(6, 10.0)
    rewards.fit(reward)
    paid.fit(pay * reward + 7.0 * pay)
    torch.testing.assert_close(paid(pay * reward + 7.0 * pay), rewards(reward), rtol=1e-3, atol=1e-3)


def test_disasters_count_as_the_best_of_them() -> None:
    """Of 21 rewards of a step, 0 to 20, the 5 % quantile is 1; the last step has no disaster, and one of its own."""
    reward = torch.stack((torch.arange(21.0), 100.0 + torch.arange(21.0)), dim=-1)
    reward[0, 0] = -1000.0
    plain, trimmed = RewardStandardizer(2, 10.0), RewardStandardizer(2, 10.0, trim=0.05)
    torch.testing.assert_close(trimmed(reward), reward)  # not fitted yet
    mended = reward.clone()
    mended[0] = torch.tensor([1.0, 101.0])
    plain.fit(mended)
    trimmed.fit(reward)
    torch.testing.assert_close(trimmed(reward), plain(mended))
    assert "floor" in trimmed.state_dict()
    assert "floor" not in plain.state_dict()  # older checkpoints have none


@pytest.mark.parametrize("reward", [torch.zeros(4, 3), torch.full((4, 3), 1e3), torch.full((4, 3), 0.1)])
def test_returns_that_do_not_differ_are_not_blown_up(reward: Tensor) -> None:
    rewards = RewardStandardizer(3, 20.0)
    rewards.fit(reward)
    assert rewards(reward).abs().max() < 1.0
    assert rewards.factor.isfinite()


def test_one_episode_tells_nothing() -> None:
    rewards = RewardStandardizer(2, 20.0)
    rewards.fit(torch.ones(1, 2))
    torch.testing.assert_close(rewards(torch.ones(1, 2)), torch.ones(1, 2))


@pytest.mark.parametrize("overlap", [False, True])
def test_the_critic_learns_from_rewards_in_these_units(overlap: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = tiny_learner(tiny_config(collect={"reward_spread": 4.0, "overlap": overlap}))
    learner.prefill()
    seen = []
    step = learner.critic_step
    monkeypatch.setattr(learner, "critic_step", lambda batch, *rest: seen.append(batch) or step(batch, *rest))
    for iteration in (1, 2):
        held = len(learner.replay) + (0 if overlap else 2)
        seen.clear()
        learner.iterate(iteration)
        stored = learner.replay.rewards[:held].double().numpy()
        rows = {tuple(row): (row - stored.mean(0)) * 4.0 / stored.sum(1).std(ddof=1) for row in stored}
        wanted = np.stack(list(rows.values()))
        for batch in seen:
            for row in batch.reward.double().numpy():
                assert np.abs(wanted - row).max(1).min() < 1e-4
    assert learner.rewards is not None
    assert "rewards.factor" in learner.state_dict()


def test_without_the_option_rewards_are_as_stored() -> None:
    learner = tiny_learner()
    learner.prefill()
    batch = learner.replay.gather(torch.arange(3))
    assert learner.seen_by_critic(batch) is batch
    assert not any(name.startswith("rewards.") for name in learner.state_dict())
