"""Re-conditioned segments: they begin at the old state, and are those that the learner makes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.inspection.conftest import MakeAgent
from top_erl.algorithms.top_erl import TopErlRun
from top_erl.algorithms.top_erl.learner import TopErlLearner
from top_erl.algorithms.top_erl.segments import Segments
from top_erl.errors import UserError
from top_erl.experiment.presets import preset
from top_erl.inspection.reconditioning import reconditioned


def test_segments_begin_at_the_old_state_and_are_the_learners(make_agent: MakeAgent) -> None:
    agent = make_agent()
    learner = agent.training.learner
    assert isinstance(learner, TopErlLearner)
    learner.prefill()
    found = reconditioned(agent)
    assert found.stored
    batch = learner.replay.gather(torch.tensor([0]))
    stored, stride, dt = batch.horizon, learner.collector.stride, learner.collector.spec.dt
    old = torch.cat((batch.reference[0], batch.action[0, -1:])).reshape(stored + 1, 2, -1).numpy()
    np.testing.assert_array_equal(found.old.state, old)

    apart, left = found.jumps()
    assert left.max() < 1e-12
    assert apart.min() > 0.05
    length = stored // 5
    assert found.starts == [0, length, 2 * length, 3 * length, 4 * length]
    np.testing.assert_allclose([piece.time[0] for piece in found.segments], np.array(found.starts) * stride * dt)
    np.testing.assert_array_equal(found.segments[0].state, found.new.state[: len(found.segments[0].time)])

    cut = Segments(stored, length, count=5, offset=0, stride=length)
    with torch.no_grad():
        params = learner.policy(batch.state[:, 0]).mean.unsqueeze(1).expand(-1, 5, -1)
        actions = learner.regenerate(batch, cut, params, "segment")[0]  # [5, L, 2D], at (stride · j + 1) · dt
    for piece, wanted in zip(found.segments, actions, strict=True):
        mine = piece.state[1::stride][:length].reshape(length, -1)
        np.testing.assert_allclose(mine, wanted.numpy(), rtol=0, atol=1e-4)  # the learner's are float32


def test_the_oldest_episode_is_shown(make_agent: MakeAgent) -> None:
    agent = make_agent()
    learner = agent.training.learner
    assert isinstance(learner, TopErlLearner)
    learner.prefill()
    full, held = learner.replay, len(learner.replay)
    full.capacity = held  # a ring that is full, and whose first three were replaced
    full.add(full.gather(torch.arange(3)))
    shown = reconditioned(agent).old.state[:-1].reshape(-1, 10)
    np.testing.assert_array_equal(shown, full.gather(torch.tensor([3])).reference[0].numpy())


def test_without_a_replay_an_episode_is_played(make_agent: MakeAgent) -> None:
    found = reconditioned(make_agent(), seed=2, segments=3)
    assert not found.stored
    assert len(found.segments) == 3
    assert found.jumps()[1].max() < 1e-12


def test_what_has_no_such_segments_is_refused(make_agent: MakeAgent) -> None:
    with pytest.raises(UserError, match="in TOP-ERL only; this is a run of bbrl_cov"):
        reconditioned(make_agent("bbrl_cov"))
    config = preset("top_erl", "top_erl/ViaPointReacher-v0", "laptop", 0)
    assert isinstance(config, TopErlRun)
    learn = replace(config.algorithm.learn, critic_condition="episode")
    config = replace(
        config,
        primitive=replace(config.primitive, kind="promp"),
        algorithm=replace(config.algorithm, learn=learn),
    )
    with pytest.raises(UserError, match="kind promp cannot be restarted"):
        reconditioned(make_agent(config=config))
