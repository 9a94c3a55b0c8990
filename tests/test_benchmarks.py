"""The plain reference that speed is measured against computes the same numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from benchmarks.plain_reference import PlainUpdates
from benchmarks.sizes import LAPTOP, METAWORLD, Size
from benchmarks.synthetic import make_learner
from top_erl.models.fast.critic import FastCritic
from top_erl.trust_region import Gaussian

SIZES = [
    replace(LAPTOP, batch=5),
    replace(METAWORLD, batch=3, horizon=20, width=32, heads=4, dt=0.3125),
    replace(LAPTOP, batch=4, layers=2, relative_goal=False),
]


@pytest.mark.parametrize("size", SIZES, ids=lambda size: size.name)
def test_plain_reference_takes_the_same_steps(size: Size, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FastCritic, "piece_tokens", 2 * size.horizon)  # several pieces
    learner = make_learner(size)
    plain = PlainUpdates(learner)
    for seed in range(4):
        losses = []
        for updates in (learner, plain):
            generator = torch.Generator().manual_seed(seed)
            batch = learner.replay.gather(learner.replay.draw(size.batch, generator))
            critic = updates.critic_step(batch, generator)
            policy = updates.policy_step(batch, generator)
            losses.append([float(getattr(step, "loss", step)) for step in (critic, policy)])
        assert losses[0] == pytest.approx(losses[1], rel=2e-4, abs=1e-4)
    for ours, theirs in zip(learner.critics.members[0].parameters(), plain.critic.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=5e-5)  # Adam magnifies rounding where gradients vanish


def test_plain_policy_steps_freeze_the_critic_and_project_a_shared_covariance_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    learner = make_learner(SIZES[0])
    plain, project, shapes = PlainUpdates(learner), type(learner.projection).project, []

    def counted(self: object, new: Gaussian, *others: object) -> object:
        shapes.append(new.factor.shape)
        return project(self, new, *others)

    monkeypatch.setattr(type(learner.projection), "project", counted)
    plain.policy_step(learner.replay.gather(torch.arange(5)), torch.Generator().manual_seed(0))
    assert all(parameter.grad is None for parameter in plain.critic.parameters())
    (shape,) = shapes
    assert shape.numel() == learner.primitive.num_params**2
