"""Updates on another device than the CPU: the `meta` device has shapes but no numbers, so that reading one fails."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
import torch

from tests.algorithms.top_erl.tiny import disturb, tiny_config, tiny_learner
from top_erl.algorithms.top_erl.learner import TopErlLearner
from top_erl.algorithms.top_erl.regeneration import Regeneration
from top_erl.hardware.devices import send
from top_erl.rollout.replay import EpisodeBatch
from top_erl.trust_region import FactorizationError
from top_erl.trust_region.factor import check_factor, check_mean, factorize
from top_erl.trust_region.kl import _newton, solve_weight

META = torch.device("meta")


def _on_meta(learner: TopErlLearner) -> TopErlLearner:
    """Move everything an update touches."""
    learner.device = learner.replay.device = META
    for module in (learner.policy, learner.anchor, learner.critics, learner.target_critics):
        module.to(META)
    grid = learner.regenerate.grid
    grid = replace(grid, **{field.name: getattr(grid, field.name).to(META) for field in fields(grid)})
    learner.regenerate = Regeneration(learner.primitive, grid)
    learner.replay._steps = learner.replay._steps.to(META)
    # The fused optimisers exist for real devices only.
    learner.critic_optimizer = torch.optim.SGD(learner.critics.parameters())
    learner.policy_optimizer = torch.optim.SGD(learner.policy.parameters())
    return learner


@pytest.mark.parametrize("target", ["v", "q", "clipped", "ensemble"])
def test_no_step_reads_a_number_from_the_device(target: str) -> None:
    learner = tiny_learner(tiny_config(learn={"target": target}, critic={"backend": "plain"}))
    learner.prefill()
    learner = _on_meta(learner)
    generator = torch.Generator().manual_seed(0)
    batch = learner.replay.gather(learner.replay.draw(3, generator))
    assert batch.state.device == META
    learner.critic_step(batch, generator, bound=-5.0)
    learner.policy_step(batch, generator, bound=-5.0)


def test_the_meta_device_does_notice_a_read() -> None:
    with pytest.raises(RuntimeError):
        bool(torch.zeros((), device=META) > 0)


def test_elsewhere_the_bound_is_found_without_looking() -> None:
    excess = torch.rand(5, 4, dtype=torch.float64) * 3 - 0.5
    for bound in (1e-4, 0.05, 10.0):
        weight, active = solve_weight(excess, bound)
        blind, blind_active = _newton(torch, excess, bound, steps=20, stop_early=False)
        torch.testing.assert_close(blind, weight, rtol=1e-12, atol=0)
        assert torch.equal(blind_active, active)


def test_elsewhere_a_broken_factor_becomes_nan_instead_of_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = torch.tensor([[[1.0, 2.0], [2.0, 1.0]], [[4.0, 0.0], [0.0, 9.0]]])
    with pytest.raises(FactorizationError):
        factorize(broken, "the covariance")
    monkeypatch.setattr("top_erl.trust_region.factor._must_not_wait", lambda data: True)
    factor = factorize(broken, "the covariance")
    assert factor[0].isnan().all()
    assert torch.equal(factor[1], torch.tensor([[2.0, 0.0], [0.0, 3.0]]))
    check_factor(torch.full((2,), float("nan")), True, "the covariance")
    check_mean(torch.full((2,), float("nan")), "the mean")


def test_send_leaves_alone_what_is_there() -> None:
    data = torch.zeros(2)
    assert send(data, torch.device("cpu")) is data
    assert send(data, META).device == META


def test_a_step_in_low_precision_is_close_to_one_in_full() -> None:
    learners = []
    for low in (False, True):
        learner = tiny_learner()
        learner.prefill()
        disturb(learner)
        if low:
            learner.use_bf16()
        learners.append(learner)
    losses = []
    for learner in learners:
        generator = torch.Generator().manual_seed(0)
        batch: EpisodeBatch = learner.replay.gather(torch.tensor([0, 1, 2]))
        losses.append(
            torch.stack((learner.critic_step(batch, generator).loss, learner.policy_step(batch, generator).loss))
        )
    assert not torch.equal(losses[0], losses[1])
    torch.testing.assert_close(losses[1], losses[0], rtol=0.03, atol=0.03)
    assert all(parameter.dtype == torch.float32 for parameter in learners[1].critics.parameters())
