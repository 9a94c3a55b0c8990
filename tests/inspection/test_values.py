"""Values along episodes: those that the learner itself asks for, and returns by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from tests.inspection.conftest import MakeAgent
from top_erl.algorithms.tce.learner import TceLearner
from top_erl.algorithms.top_erl import TopErlRun
from top_erl.algorithms.top_erl.learner import TopErlLearner
from top_erl.algorithms.top_erl.segments import SegmentsConfig
from top_erl.config.changes import changed
from top_erl.config.run import RunConfig
from top_erl.errors import UserError
from top_erl.experiment.presets import preset
from top_erl.inspection.opening import fresh_episodes
from top_erl.inspection.values import critic_values, returns_to_go
from top_erl.models import Sequences


def _config(fraction: float = 1.0, scale: float = 1.0, **learn: Any) -> RunConfig:
    config = preset("top_erl", "top_erl/ViaPointReacher-v0", "laptop", 0)
    assert isinstance(config, TopErlRun)
    algorithm = replace(
        config.algorithm,
        segments=SegmentsConfig("fixed_length", fraction=fraction),
        collect=replace(config.algorithm.collect, stride=2, reward_scale=scale),
        learn=replace(config.algorithm.learn, **learn),
    )
    return replace(config, algorithm=algorithm)


def test_returns_by_hand() -> None:
    reward = torch.tensor([[1.0, 2.0, 4.0], [0.0, 0.0, 8.0]])
    assert returns_to_go(reward, 0.5).tolist() == [[3.0, 4.0, 4.0], [2.0, 4.0, 8.0]]
    assert returns_to_go(reward, 1.0)[:, 0].tolist() == [7.0, 8.0]


@pytest.mark.parametrize(("target", "fraction"), [("v", 1.0), ("clipped", 0.4), ("ensemble", 0.28)])
@torch.no_grad()
def test_values_are_the_learners(target: str, fraction: float, make_agent: MakeAgent) -> None:
    """Prefixes are asked for one by one, as `last_value`; a cut of 0.28 leaves a last segment of 4 of 7 actions."""
    agent = make_agent(config=_config(fraction, scale=0.5, target=target, discount=0.9))
    learner = agent.training.learner
    assert isinstance(learner, TopErlLearner)
    state, prefix = critic_values(agent, seed=1, episodes=3).kinds
    batch = learner.collector.stored(fresh_episodes(learner, 3, 1))
    wanted = learner.target.combine(learner.critics.state_value(batch.state, torch.arange(25)))
    np.testing.assert_allclose(state.value, wanted.numpy(), rtol=0, atol=1e-5)
    length = round(25 * fraction)
    received = returns_to_go(batch.reward, 0.9).numpy()
    np.testing.assert_array_equal(state.received, received)
    for action in (0, length - 1, length % 25, 24):
        start = action // length * length
        actions = batch.action[:, None, start : action + 1]
        counts = torch.tensor([action + 1 - start])
        asked = learner.critics.last_value(Sequences(batch.state, torch.tensor([start]), actions, counts))
        np.testing.assert_allclose(
            prefix.value[:, action], learner.target.combine(asked)[:, 0].numpy(), rtol=0, atol=1e-5
        )
        np.testing.assert_array_equal(prefix.received[:, action], received[:, start])


def test_units_times_and_what_was_paid(make_agent: MakeAgent) -> None:
    agent = make_agent(config=_config(scale=0.5, discount=0.9))
    found = critic_values(agent, seed=1, episodes=3)
    assert found.unit == "rewards times 0.5, discount 0.9"
    assert critic_values(make_agent(config=_config()), episodes=1).unit == ""
    floor = changed(_config(scale=0.5), {"algorithm.collect.reward_floor": -5.0})
    assert critic_values(make_agent(config=floor), episodes=1).unit == "rewards at least -5 per step, times 0.5"
    state, prefix = found.kinds
    np.testing.assert_allclose(state.time, 0.04 * np.arange(25))  # before each action
    np.testing.assert_allclose(prefix.time, 0.04 * np.arange(1, 26))  # after it
    learner = agent.training.learner
    assert isinstance(learner, TopErlLearner)
    paid = fresh_episodes(learner, 3, 1).reward.reshape(3, 25, 2).sum(-1)  # as the task pays, two steps a token
    np.testing.assert_allclose(found.returns, 0.5 * (paid * 0.9 ** np.arange(25)).sum(-1), rtol=1e-6)


def test_rewards_in_units_of_their_own(make_agent: MakeAgent) -> None:
    """Returns are counted as the critic has learned them: less the mean of every token, times a factor."""
    agent = make_agent(config=changed(_config(), {"algorithm.collect.reward_spread": 10.0}))
    learner = agent.training.learner
    assert isinstance(learner, TopErlLearner)
    learner.prefill()
    learner.iterate(1)
    found = critic_values(agent, seed=1, episodes=3)
    stored = learner.replay.rewards.double().numpy()  # after the fit nothing was collected: the preset does not overlap
    factor = 10.0 / stored.sum(1).std(ddof=1)
    paid = fresh_episodes(learner, 3, 1).reward.reshape(3, 25, 2).sum(-1)
    np.testing.assert_allclose(found.returns, factor * (paid - stored.mean(0)).sum(-1), rtol=1e-4, atol=1e-3)
    assert found.unit == f"less each step's mean, times {factor:.3g}"


def test_a_value_that_is_not_trained_is_not_shown(make_agent: MakeAgent) -> None:
    (kind,) = critic_values(make_agent(config=_config(target="q")), episodes=2).kinds
    assert kind.name.startswith("$Q(s_0")


def test_values_of_tce(make_agent: MakeAgent) -> None:
    agent = make_agent("tce")
    learner = agent.training.learner
    assert isinstance(learner, TceLearner)
    learner.iterate(1)  # gives the normaliser its statistics
    (kind,) = critic_values(agent, seed=1, episodes=3).kinds
    rollout = fresh_episodes(learner, 3, 1)
    normalizer = learner.normalizer
    shown = (rollout.state - normalizer.mean.numpy()) / np.sqrt(normalizer.variance.numpy() + 1e-8)
    wanted = learner.critic(torch.from_numpy(shown).to(learner.dtype)).detach()
    np.testing.assert_allclose(kind.value, wanted.numpy(), rtol=0, atol=1e-4)
    scale, discount = learner.config.collect.reward_scale, learner.config.learn.discount
    np.testing.assert_allclose(
        kind.received[:, 0], scale * (rollout.reward * discount ** np.arange(50)).sum(-1), rtol=1e-5
    )


def test_a_critic_of_contexts_is_refused(make_agent: MakeAgent) -> None:
    with pytest.raises(UserError, match="bbrl_cov gives no values along an episode"):
        critic_values(make_agent("bbrl_cov"))
