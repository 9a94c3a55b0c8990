"""BBRL: its losses against plain loops, what its networks see, the covariance that is written back, a solved bandit."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.algorithms.on_policy import naive
from tests.algorithms.on_policy.tiny import Bandit, collected, disturb, gradients_of, make_setup
from tests.algorithms.top_erl.tiny import TinyTask, assert_same
from top_erl.algorithms.bbrl.config import BbrlConfig
from top_erl.algorithms.bbrl.learner import BbrlLearner, context_entries
from top_erl.algorithms.divergence import Diverged
from top_erl.algorithms.on_policy.config import (
    OnPolicyCollectConfig,
    OnPolicyConfig,
    OnPolicyLearnConfig,
    OnPolicyTrustRegionConfig,
)
from top_erl.algorithms.on_policy.learner import Episodes, explained_variance, normalized, ratio_objective, value_loss
from top_erl.errors import UserError
from top_erl.models import PolicyConfig, ValueConfig
from top_erl.seeding import episode_seeds
from top_erl.tasks import EpisodeOutcomes, make_task
from top_erl.tasks.contract import Array, EpisodeFailure
from top_erl.trust_region import kl_covariance_part

REACHER = "top_erl/ViaPointReacher-v0"
BOTH = pytest.mark.parametrize("covariance", ["diagonal", "full"])


def _config(**sections: dict[str, Any]) -> BbrlConfig:
    base = BbrlConfig(
        collect=OnPolicyCollectConfig(episodes=5),
        policy=PolicyConfig(hidden=(8,)),
        critic=ValueConfig(hidden=(8,)),
        trust_region=OnPolicyTrustRegionConfig(regression_weight=10.0, set_covariance=True),
        learn=OnPolicyLearnConfig(critic_epochs=3, policy_epochs=3),
    )
    return replace(base, **{name: replace(getattr(base, name), **changes) for name, changes in sections.items()})


def _learner(config: BbrlConfig, **parts: Any) -> BbrlLearner:
    return BbrlLearner(config, make_setup(parts.pop("task", None) or TinyTask(), **parts))


def _numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


# ---------------------------------------------------------------------- pure functions


@pytest.mark.parametrize("shape", [(7,), (3, 4), (1,)])
def test_normalized(shape: tuple[int, ...]) -> None:
    values = 3.0 + 2.0 * _numbers(*shape)
    np.testing.assert_allclose(normalized(values).numpy(), naive.normalized(values.numpy()), rtol=0, atol=1e-12)


def test_equal_advantages_become_zero() -> None:
    assert normalized(torch.full((4,), 2.5)).abs().max() == 0.0


def test_ratio_objective_by_hand() -> None:
    new, old = torch.tensor([0.0, np.log(2.0)]), torch.tensor([np.log(4.0), 0.0])
    advantage = torch.tensor([3.0, -5.0])
    assert float(ratio_objective(new, old, advantage)) == pytest.approx((0.25 * 3.0 - 2.0 * 5.0) / 2)


def test_value_loss_by_hand() -> None:
    assert float(value_loss(torch.tensor([1.0, 2.0]), torch.tensor([4.0, 0.0]))) == pytest.approx((9.0 + 4.0) / 2)


def test_explained_variance() -> None:
    target = _numbers(50)
    assert float(explained_variance(target, target)) == 1.0
    assert float(explained_variance(torch.zeros(50), target)) == pytest.approx(0.0, abs=1e-12)
    assert float(explained_variance(-target, target)) == pytest.approx(-3.0)
    assert np.isfinite(float(explained_variance(target[:1], target[:1])))  # one episode has no variance


# ---------------------------------------------------------------------- an iteration against plain loops


@BOTH
def test_policy_step_against_loops(covariance: str) -> None:
    config = _config(
        policy={"covariance": covariance},
        trust_region={"mean_bound": 0.05, "covariance_bound": 0.01},
        learn={"precision": "float64", "policy_epochs": 1, "critic_epochs": 0},
    )
    learner = _learner(config)
    disturb(learner, seed=3)
    episodes = collected(learner, 5)
    disturb(learner)  # so that both bounds are active
    policy, critic = copy.deepcopy(learner.policy), copy.deepcopy(learner.critic)
    numbers = learner.learn(episodes, iteration=1)

    context = episodes.first_state
    returns = np.array([sum(float(r) for r in episode) for episode in episodes.reward])
    values = np.array([critic(state).item() for state in context])

    def log_prob(mean: Tensor, factor: Tensor) -> Tensor:
        return torch.stack(
            [naive.gaussian_log_prob(w, m, f @ f.T) for w, m, f in zip(episodes.params, mean, factor, strict=True)]
        )

    loss, objective, factors = naive.policy_loss(
        policy,
        context,
        episodes.behaviour,
        log_prob,
        naive.normalized(returns - values),
        bounds=(0.05, 0.01),
        weight=10.0,
        with_covariance=False,
    )
    loss.backward()
    assert numbers["mean_projected"] == 1.0
    assert numbers["covariance_projected"] == 1.0
    assert numbers["policy_loss"] == pytest.approx(loss.item(), rel=1e-10)
    assert numbers["policy_objective"] == pytest.approx(objective.item(), rel=1e-10)
    expected = gradients_of(policy)
    for name, gradient in gradients_of(learner.policy).items():
        scale = float(expected[name].abs().max())
        torch.testing.assert_close(gradient, expected[name], rtol=0, atol=1e-10 * max(1.0, scale), msg=name)
    for factor in factors:  # one projection for all: every episode's own is the same
        torch.testing.assert_close(factor, factors[0], rtol=0, atol=1e-12)


def test_critic_step_against_loops() -> None:
    config = _config(learn={"precision": "float64", "policy_epochs": 0, "critic_epochs": 1})
    learner = _learner(config)
    disturb(learner)
    episodes = collected(learner, 5)
    critic = copy.deepcopy(learner.critic)
    numbers = learner.learn(episodes, iteration=1)

    returns = [sum(float(r) for r in episode) for episode in episodes.reward]
    errors = [(critic(state) - target) ** 2 for state, target in zip(episodes.first_state, returns, strict=True)]
    loss = torch.stack(errors).sum() / len(errors)
    loss.backward()
    assert numbers["critic_loss"] == pytest.approx(loss.item(), rel=1e-12)
    assert numbers["critic_target"] == pytest.approx(np.mean(returns), rel=1e-12)
    expected = gradients_of(critic)
    for name, gradient in gradients_of(learner.critic).items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-10, atol=1e-10, msg=name)


def test_advantages_come_from_the_values_before_the_critic_learns() -> None:
    """The policy's first step does not depend on how long the critic was trained."""
    moved = []
    for epochs in (0, 7):
        learner = _learner(_config(learn={"critic_epochs": epochs, "policy_epochs": 1}))
        learner.iterate(1)
        moved.append({name: value for name, value in learner.state_dict().items() if name.startswith("policy.")})
    assert_same(*moved)


def test_reward_scale_reaches_the_critic_not_the_scores() -> None:
    plain, scaled = (_learner(_config(collect={"reward_scale": s}, learn={"precision": "float64"})) for s in (1.0, 0.1))
    first, second = plain.iterate(1), scaled.iterate(1)
    np.testing.assert_array_equal(first.exploration.returns, second.exploration.returns)
    assert second.numbers["critic_target"] == pytest.approx(0.1 * first.numbers["critic_target"], rel=1e-9)


# ---------------------------------------------------------------------- the covariance


@BOTH
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_projected_covariance_is_written_back(covariance: str, precision: str) -> None:
    learner = _learner(_config(policy={"covariance": covariance}, learn={"precision": precision}))
    episodes = collected(learner, 5)
    disturb(learner)
    rate_free = learner.policy.mean_net[0].weight.detach().clone()
    learner.learn(episodes, iteration=1)
    assert not torch.equal(rate_free, learner.policy.mean_net[0].weight)
    now = learner.policy(episodes.first_state).detach()
    distance = float(kl_covariance_part(now.to(torch.float64), episodes.behaviour.to(torch.float64)))
    bound = learner.config.trust_region.covariance_bound
    assert distance == pytest.approx(bound, rel=1e-3 if precision == "float32" else 1e-8)
    again = learner.project(episodes, None)[1].gaussian.detach()
    torch.testing.assert_close(again.factor, now.factor, rtol=1e-5, atol=1e-6)


def test_without_writing_back_the_loss_pulls_the_covariance() -> None:
    changes = {"set_covariance": False, "covariance_bound": 1e-4}
    learner = _learner(_config(trust_region=changes, learn={"precision": "float64", "policy_epochs": 1}))
    episodes = collected(learner, 5)
    disturb(learner)
    new, projected = learner.project(episodes, None)
    mean_only = learner.projection.regression_loss(new, projected.gaussian, include_covariance=False).item()
    numbers = learner.learn(episodes, iteration=1)
    assert numbers["trust_region_loss"] > mean_only + 0.01
    distance = kl_covariance_part(learner.policy(episodes.first_state).detach(), episodes.behaviour)
    assert float(distance) > 1e-3  # far outside still


def test_no_epochs_leave_the_policy_alone() -> None:
    learner = _learner(_config(learn={"policy_epochs": 0, "critic_epochs": 0}))
    before = {name: value.clone() for name, value in learner.state_dict().items()}
    stats = learner.iterate(1)
    assert_same(before, learner.state_dict())
    assert set(stats.numbers) == {"explained_variance"}


# ---------------------------------------------------------------------- what the networks see


def test_context_is_the_mask_without_the_time() -> None:
    learner = BbrlLearner(_config(), make_setup(make_task(REACHER)))
    state = torch.zeros(2, 17)
    others = [index for index in range(17) if index not in (12, 13, 14, 15)]
    state[1, others] = 5.0
    assert learner.policy.mean_net[0].in_features == 4
    for network in (lambda s: learner.policy(s).mean, learner.critic):
        first, second = network(state)
        torch.testing.assert_close(first, second, rtol=0, atol=0)
        assert not torch.equal(network(state)[0], network(state + 1.0)[0])


def test_without_a_mask_all_but_the_time_is_context() -> None:
    assert context_entries(TinyTask().spec) == (0, 1, 2, 3)
    assert _learner(_config()).policy.mean_net[0].in_features == 4


def test_standardized_contexts_cost_no_episodes() -> None:
    learner = BbrlLearner(_config(learn={"standardize": 40}), make_setup(make_task(REACHER)))
    learner.prefill()
    assert learner.episodes_collected == 0
    starts = make_task(REACHER).begin(episode_seeds(0, "contexts", 0, 40)).observation[:, 12:16]
    for network in (learner.policy, learner.critic):
        np.testing.assert_allclose(network.standardize.mean.numpy(), starts.mean(0), rtol=0, atol=1e-6)
        np.testing.assert_allclose(network.standardize.spread.numpy(), starts.std(0, ddof=1), rtol=1e-5)
    before = learner.policy.standardize.mean.clone()
    learner.iterate(1)
    learner.prefill()
    torch.testing.assert_close(learner.policy.standardize.mean, before, rtol=0, atol=0)


# ---------------------------------------------------------------------- schedules


def test_learning_rates_are_constant_unless_told_otherwise() -> None:
    learner = _learner(_config())
    learner.set_learning_rates(9)
    assert learner.policy_optimizer.param_groups[0]["lr"] == 3e-4


@pytest.mark.parametrize(
    ("iterations", "iteration", "factor"),
    [(0, 1, 1.0), (0, 6, 0.505), (0, 11, 0.01), (0, 50, 0.01), (100, 1, 1.0), (100, 11, 0.901)],
)
def test_falling_learning_rates(iterations: int, iteration: int, factor: float) -> None:
    """From 1 to 1 % over the run of 10 iterations, or over as many as asked for."""
    learn = {"final_rate": 0.01, "rate_iterations": iterations, "critic_rate": 1e-3}
    learner = _learner(_config(learn=learn), total_iterations=10)
    learner.set_learning_rates(iteration)
    assert learner.policy_optimizer.param_groups[0]["lr"] == pytest.approx(3e-4 * factor)
    assert learner.critic_optimizer.param_groups[0]["lr"] == pytest.approx(1e-3 * factor)


def test_entropy_bound() -> None:
    learner = _learner(_config(trust_region={"entropy": "linear"}), total_iterations=10)
    start = 6 * 0.5 * np.log(2 * np.pi * np.e)  # 6 parameters with a std of 1
    assert learner.entropy_bound(1) == pytest.approx(0.9 * start)
    assert learner.entropy_bound(10) == pytest.approx(0.0, abs=1e-6)
    assert _learner(_config()).entropy_bound(1) is None
    episodes = collected(learner, 5)
    learner.policy.raw_covariance.data[:6] = -3.0  # a std of 0.05
    numbers = learner.learn(episodes, iteration=1)
    assert numbers["entropy"] >= 0.9 * start - 1e-4


# ---------------------------------------------------------------------- learning


@BOTH
def test_a_bandit_is_solved(covariance: str) -> None:
    best = (1.0, -0.6, 0.8, -1.2)
    config = _config(
        collect={"episodes": 24},
        policy={"covariance": covariance},
        trust_region={"mean_bound": 0.1, "covariance_bound": 0.05},
        learn={"critic_epochs": 10, "policy_epochs": 20, "critic_rate": 1e-2, "policy_rate": 1e-2},
    )
    learner = _learner(config, task=Bandit(best), num_basis=1, total_iterations=50)
    first = learner.iterate(1)
    for iteration in range(2, 51):
        last = learner.iterate(iteration)
    assert first.exploration.returns.mean() < -5.0  # |best|² + 4 σ² = 7.4 expected
    assert last.exploration.returns.mean() > -0.1
    mean = learner.policy(torch.tensor([[1.0, 1.0, 0.0]])).mean[0].detach().numpy()
    np.testing.assert_allclose(mean, best, rtol=0, atol=0.15)
    assert float(learner.evaluate([1]).returns[0]) > -0.05


@BOTH
def test_resuming_is_exact(covariance: str) -> None:
    config = _config(policy={"covariance": covariance}, learn={"standardize": 8, "final_rate": 0.1})

    def fresh() -> BbrlLearner:
        return BbrlLearner(config, make_setup(make_task(REACHER), seed=4))

    whole = fresh()
    whole.prefill()
    for iteration in (1, 2):
        whole.iterate(iteration)
    saved, episodes, steps = copy.deepcopy(whole.state_dict()), whole.episodes_collected, whole.env_steps
    expected = whole.iterate(3)

    resumed = fresh()
    resumed.load_state_dict(saved)
    resumed.episodes_collected = episodes
    resumed.env_steps = steps
    resumed.prefill()
    found = resumed.iterate(3)
    assert found.numbers == expected.numbers
    np.testing.assert_array_equal(found.exploration.returns, expected.exploration.returns)
    assert_same(whole.state_dict(), resumed.state_dict())


def test_columns_hold_all_numbers() -> None:
    learner = _learner(_config())
    stats = learner.iterate(1)
    assert set(stats.numbers) == set(learner.columns)
    assert all(np.isfinite(value) for value in stats.numbers.values())
    assert (learner.episodes_collected, learner.env_steps) == (5, 60)


# ---------------------------------------------------------------------- what can go wrong


class Failing(TinyTask):
    """Some of the first batch's episodes fail."""

    def __init__(self, failing: Sequence[int]) -> None:
        super().__init__()
        self.failing = failing

    def play(self, reference: Array) -> EpisodeOutcomes:
        outcomes = super().play(reference)
        failures = {index: EpisodeFailure("It broke") for index in self.failing if index < len(reference)}
        return replace(outcomes, failures=failures)


@pytest.mark.parametrize("left", [0, 1, 2])
def test_failed_episodes_are_left_out(left: int) -> None:
    learner = _learner(_config(collect={"episodes": 3}), task=Failing(range(left, 3)))
    before = {name: value.clone() for name, value in learner.state_dict().items()}
    stats = learner.iterate(1)
    assert len(stats.exploration.returns) == left
    assert stats.exploration.failures == 3 - left
    assert learner.episodes_collected == 3
    if left == 0:
        assert stats.numbers == {}
        assert_same(before, learner.state_dict())
    else:
        assert all(np.isfinite(value) for value in stats.numbers.values())


def _with_reward(episodes: Episodes, value: float) -> Episodes:
    reward = episodes.reward.clone()
    reward[0, 0] = value
    return replace(episodes, reward=reward)


def test_a_loss_that_explodes_is_reported() -> None:
    learner = _learner(_config())
    episodes = collected(learner, 3)
    with pytest.raises(Diverged, match="critic step 1 diverged: its loss is nan") as caught:
        learner.learn(_with_reward(episodes, float("nan")), iteration=1)
    assert caught.value.batch["state"].shape == (3, 12, 5)
    assert caught.value.batch["params"].shape == (3, 6)
    assert caught.value.remedy == "--learn.critic-rate 0.0001"


def test_a_broken_policy_is_reported() -> None:
    learner = _learner(_config())
    episodes = collected(learner, 3)
    learner.policy.mean_net[-1].bias.data.fill_(float("nan"))
    with pytest.raises(Diverged, match="policy step 1 diverged: the mean of the new policy"):
        learner.learn(episodes, iteration=1)


@pytest.mark.parametrize(
    ("section", "changes"),
    [
        ("collect", {"episodes": 0}),
        ("collect", {"reward_scale": 0.0}),
        ("trust_region", {"mean_bound": 0.0}),
        ("trust_region", {"regression_weight": -1.0}),
        ("learn", {"policy_epochs": -1}),
        ("learn", {"policy_rate": 0.0}),
        ("learn", {"critic_decay": -1.0}),
        ("learn", {"final_rate": 1.5}),
        ("learn", {"standardize": 1}),
        ("critic", {"hidden": ()}),
    ],
)
def test_impossible_settings_are_refused(section: str, changes: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=section):
        _config(**{section: changes})


def test_a_contextual_covariance_cannot_be_written_back() -> None:
    with pytest.raises(UserError, match="set_covariance"):
        _config(policy={"contextual": True})
    config = _config(trust_region={"set_covariance": False})
    learner = _learner(replace(config, policy=PolicyConfig(hidden=(8,), contextual=True)))
    assert np.isfinite(learner.iterate(1).numbers["policy_loss"])


def test_what_a_run_asks_of_the_configuration() -> None:
    config: OnPolicyConfig = _config()
    assert config.prefill_episodes == 0
    assert config.episodes_per_iteration(50) == 5
    assert BbrlConfig().trust_region.regression_weight == 10.0
    assert BbrlConfig().trust_region.set_covariance
