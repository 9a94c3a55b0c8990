"""How well a critic ranks movements: against SciPy, with critics whose answer is known, and by a naive second way."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from tests.rollout.failing_tasks import BEGIN, PLAY, RAISES
from top_erl.agent import Agent
from top_erl.algorithms.ranking import CriticRanking, average_ranks, rank_correlation, rank_movements
from top_erl.algorithms.top_erl.learner import TopErlLearner
from top_erl.config.run import RunConfig
from top_erl.errors import UserError
from top_erl.hardware.choice import Hardware
from top_erl.models import Sequences
from top_erl.rollout.replay import EpisodeBatch
from top_erl.seeding import episode_seeds, torch_generator

REACHER = "top_erl/ViaPointReacher-v0"


def test_rank_correlation_is_that_of_scipy() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        values, returns = rng.standard_normal(16), np.round(rng.standard_normal(16), 0)  # with many ties
        np.testing.assert_array_equal(average_ranks(returns), stats.rankdata(returns))
        assert rank_correlation(values, returns) == pytest.approx(stats.spearmanr(values, returns).statistic, abs=1e-12)
    assert average_ranks(np.array([3.0, 1.0, 3.0, 0.0])).tolist() == [3.5, 2.0, 3.5, 1.0]


def test_what_cannot_be_ranked() -> None:
    same, rising = np.ones(4), np.arange(4.0)
    assert math.isnan(rank_correlation(rising, same))  # nothing to rank
    assert rank_correlation(same, rising) == 0.0  # something to rank, and a critic that does not
    assert math.isnan(rank_correlation(same, same))
    none = CriticRanking([rising], [same])
    assert math.isnan(none.mean)
    assert math.isnan(none.overall)
    assert math.isnan(CriticRanking([], []).overall)


def test_means_by_hand() -> None:
    up, down = np.array([1.0, 2.0, 3.0, 4.0]), np.array([4.0, 3.0, 2.0, 1.0])
    swapped = np.array([2.0, 1.0, 3.0, 4.0])  # 1 - 6 · (1 + 1) / (4 · 15) = 0.8
    found = CriticRanking([up, up, up, up], [up, swapped, down, np.zeros(4)])
    np.testing.assert_allclose(found.correlations, [1.0, 0.8, -1.0, np.nan], rtol=1e-12)
    assert found.mean == pytest.approx(0.8 / 3)
    spread = math.sqrt(((1 - 0.8 / 3) ** 2 + (0.8 - 0.8 / 3) ** 2 + (1 + 0.8 / 3) ** 2) / 2)
    assert found.error == pytest.approx(spread / math.sqrt(3))
    assert math.isnan(CriticRanking([up], [up]).error)
    # easy and hard contexts, told apart, and within them the wrong way round
    apart = CriticRanking([up, up + 100.0], [down, down + 100.0])
    assert apart.mean == pytest.approx(-1.0)
    assert apart.overall > 0.99


def _learner(task: str = REACHER, config: RunConfig | None = None) -> tuple[Agent, TopErlLearner]:
    agent = Agent(task, hardware=Hardware(1, 0)) if config is None else Agent(config=config)
    learner = agent.training.learner
    assert isinstance(learner, TopErlLearner)
    return agent, learner


def test_critics_whose_answer_is_known() -> None:
    agent, learner = _learner()
    contexts: list[EpisodeBatch] = []

    def returns(batch: EpisodeBatch) -> torch.Tensor:
        contexts.append(batch)
        return batch.reward.sum(1)

    def ranked(value: Callable[[EpisodeBatch], torch.Tensor]) -> CriticRanking:
        return rank_movements(
            learner.collector, learner.policy, value, 1.0, contexts=3, seed=4, stream="ranking", movements=5
        )

    right = ranked(returns)
    assert right.mean == pytest.approx(1.0)
    assert right.error == pytest.approx(0.0)
    assert ranked(lambda batch: 7.0 - 2.0 * returns(batch)).mean == pytest.approx(-1.0)
    only_contexts = ranked(lambda batch: batch.reward.sum(1).mean().expand(5))
    assert only_contexts.mean == 0.0
    assert only_contexts.overall > 0.1
    first = contexts[:3]
    assert all(torch.equal(batch.state[:, 0], batch.state[:1, 0].expand(5, -1)) for batch in first)  # one context each
    assert not torch.equal(first[0].state[0, 0], first[1].state[0, 0])
    assert all(len(batch.action.flatten(1).unique(dim=0)) == 5 for batch in first)  # five movements in it
    assert torch.equal(contexts[0].action, contexts[3].action)  # the same in every call
    assert learner.episodes_collected == 0
    agent.close()


@torch.no_grad()
def test_the_learners_is_that_of_single_episodes() -> None:
    """Every movement is planned and played alone, and the critic asked for all its values at once."""
    agent, learner = _learner()
    found = learner.rank_movements(2, seed=9, stream="fresh")
    task, collect, spec = agent.training.task, learner.config.collect, agent.training.spec
    for number, seed in enumerate(episode_seeds(9, "fresh", 0, 2)):
        noise = torch.randn(16, learner.primitive.num_params, generator=torch_generator(9, "fresh, movements", number))
        for movement in (0, 7, 15):
            starts = task.begin([seed])
            reference = learner.collector.plan(learner.policy, starts, noise[movement : movement + 1])[0].stacked()
            played = task.play(reference.numpy())
            blocks = (played.reward + collect.reward_shift).reshape(-1, collect.stride).sum(1) * collect.reward_scale
            powers = learner.config.learn.discount ** np.arange(len(blocks))
            assert found.returns[number][movement] == pytest.approx(float(blocks @ powers), rel=1e-5)
            state = torch.from_numpy(np.append(starts.observation[0], 0.0)).float()[None, None]  # time is 0
            action = reference[:, :: collect.stride].float().unsqueeze(1)
            counts = torch.tensor([spec.horizon // collect.stride])
            values = learner.critics(Sequences(state, torch.zeros(1, dtype=torch.long), action, counts))
            assert found.values[number][movement] == pytest.approx(float(values[0, 0, 0, -1]), abs=1e-4)
    agent.close()


def test_a_context_that_cannot_be_played_is_left_out(
    tiny: RunConfig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """All sixteen movements of a context fail, as many as would stop a run; this is none of its episodes."""
    agent, learner = _learner(config=replace(tiny, task="tests.rollout.failing_tasks:FailingTask"))
    seeds = [BEGIN + RAISES, 5, PLAY + RAISES]
    monkeypatch.setattr("top_erl.algorithms.ranking.episode_seeds", lambda *_: seeds)
    found = learner.rank_movements(3, seed=0, stream="ranking")
    assert len(found.values) == 1
    assert len(caplog.records) == 2  # one sentence a context
    assert learner.collector._failed_in_a_row == 0
    agent.close()


def test_other_methods_have_no_ranking() -> None:
    agent = Agent(REACHER, method="bbrl_cov", hardware=Hardware(1, 0))
    assert not agent.training.learner.ranks_movements
    with pytest.raises(UserError, match="values no whole movements"):
        agent.training.learner.rank_movements(1, seed=0, stream="ranking")
    agent.close()
