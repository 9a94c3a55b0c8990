"""TCE: segments, advantages and likelihoods against plain loops and recordings; its updates; exact resuming."""

from __future__ import annotations

import copy
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.algorithms.on_policy import naive
from tests.algorithms.on_policy.tiny import collected, disturb, gradients_of, make_setup
from tests.algorithms.top_erl.tiny import TinyTask, assert_same
from top_erl.algorithms.on_policy.config import OnPolicyCollectConfig, OnPolicyTrustRegionConfig
from top_erl.algorithms.tce.config import TceConfig, TceLearnConfig, TceSegmentsConfig
from top_erl.algorithms.tce.learner import (
    Pairs,
    TceLearner,
    flat_positions,
    generalized_advantages,
    largest_offset,
    pair_log_prob,
    segment_advantages,
    segment_points,
    segment_sums,
)
from top_erl.errors import UserError
from top_erl.models import PolicyConfig, ValueConfig
from top_erl.primitives import PrimitiveConfig, ProDmp
from top_erl.primitives.distribution import propagate
from top_erl.seeding import episode_seeds
from top_erl.tasks import make_task
from top_erl.trust_region import Gaussian

DATA = Path(__file__).parents[2] / "data"
REACHER = "top_erl/ViaPointReacher-v0"


def _config(**sections: dict[str, Any]) -> TceConfig:
    base = TceConfig(
        collect=OnPolicyCollectConfig(episodes=5),
        policy=PolicyConfig(hidden=(8,)),
        critic=ValueConfig(hidden=(8,)),
        trust_region=OnPolicyTrustRegionConfig(),
        learn=TceLearnConfig(critic_epochs=3, policy_epochs=3),
        segments=TceSegmentsConfig(points=4),
    )
    return replace(base, **{name: replace(getattr(base, name), **changes) for name, changes in sections.items()})


def _learner(config: TceConfig, **parts: Any) -> TceLearner:
    return TceLearner(config, make_setup(parts.pop("task", None) or TinyTask(), **parts))


def _numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def _close(ours: Tensor, expected: Any, atol: float = 1e-10) -> None:
    np.testing.assert_allclose(ours.detach().numpy(), expected, rtol=0, atol=atol)


# ---------------------------------------------------------------------- segments


@pytest.mark.parametrize(("horizon", "interval"), [(100, 4), (250, 10), (500, 20), (50, 2)])
def test_cuts_of_the_papers_tasks(horizon: int, interval: int) -> None:
    """25 instants, so 24 segments, wherever they start."""
    assert largest_offset(horizon, 25) == interval - 1
    for offset in range(interval):
        cut = segment_points(horizon, 25, offset)
        assert cut.tolist() == naive.points(horizon, 25, offset)
        assert len(cut) == 25
        assert int(cut[-1]) < horizon


@pytest.mark.parametrize(("horizon", "count"), [(11, 4), (13, 4), (7, 7), (110, 25)])
def test_cuts_with_a_remainder(horizon: int, count: int) -> None:
    for offset in range(horizon // count + horizon % count):
        cut = segment_points(horizon, count, offset).tolist()
        assert cut == naive.points(horizon, count, offset)
        assert len(cut) >= count
    assert len(segment_points(horizon, count, largest_offset(horizon, count))) == count


def test_offsets_are_uniform_and_repeatable() -> None:
    learner = _learner(_config(segments={"points": 3}))  # every 4 of 12 steps
    offsets = [int(learner.draw_points(iteration)[0]) for iteration in range(1, 201)]
    assert [int(learner.draw_points(iteration)[0]) for iteration in range(1, 21)] == offsets[:20]
    counts = np.bincount(offsets)
    assert len(counts) == 4
    assert (np.abs(counts - 50) < 25).all()  # four standard deviations


@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_segment_sums(discount: float) -> None:
    steps, cut = _numbers(3, 11), [1, 3, 5, 7, 9]
    expected = naive.segment_advantages(steps.numpy(), np.zeros((3, 11)), cut, discount)
    _close(segment_sums(steps, torch.tensor(cut), discount), expected, 1e-13)
    both_ends = segment_sums(steps, torch.tensor(cut), closed=True)
    _close(both_ends[:, 1], steps[:, 3:6].sum(-1), 1e-13)


# ---------------------------------------------------------------------- advantages and targets


@pytest.mark.parametrize(("discount", "trace"), [(1.0, 0.95), (0.9, 0.5), (1.0, 1.0), (1.0, 0.0), (0.99, 0.95)])
@pytest.mark.parametrize("horizon", [1, 2, 500])
def test_generalized_advantages(horizon: int, discount: float, trace: float) -> None:
    reward, value = _numbers(4, horizon), _numbers(4, horizon, seed=1)
    after_the_end = np.full((4, 1), 123.0)  # never used
    expected = naive.gae(reward.numpy(), np.concatenate((value.numpy(), after_the_end), 1), discount, trace)
    _close(generalized_advantages(reward, value, discount, trace), expected)


def test_generalized_advantages_by_hand() -> None:
    reward, value = torch.tensor([[1.0, 2.0]]), torch.tensor([[10.0, 20.0]])
    # δ_1 = 2 - 20 = -18 (the last step has no value after it), δ_0 = 1 + 20 - 10 = 11
    # g_1 = -18, g_0 = 11 + 0.5 · (-18) = 2
    assert generalized_advantages(reward, value, 1.0, 0.5).tolist() == [[2.0, -18.0]]


def test_with_a_full_trace_the_target_is_the_return() -> None:
    reward, value = _numbers(3, 30), _numbers(3, 30, seed=1)
    target = generalized_advantages(reward, value, 1.0, 1.0) + value
    _close(target, reward.flip(1).cumsum(1).flip(1))


@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_segment_advantages(discount: float) -> None:
    reward, value, cut = _numbers(4, 100), _numbers(4, 100, seed=1), naive.points(100, 25, 3)
    ours = segment_advantages(reward, value, torch.tensor(cut), discount)
    _close(ours, naive.segment_advantages(reward.numpy(), value.numpy(), cut, discount))


def test_other_advantages() -> None:
    reward, value, steps = _numbers(4, 12), _numbers(4, 12, seed=1), _numbers(4, 12, seed=2)
    cut = naive.points(12, 4, 1)

    def credit(kind: str) -> Tensor:
        return _learner(_config(segments={"advantage": kind})).credit(reward, value, steps, torch.tensor(cut))

    _close(credit("value_subtraction"), naive.segment_advantages(reward.numpy(), value.numpy(), cut, 1.0))
    _close(credit("accumulate"), naive.accumulated_advantages(steps.numpy(), cut))
    _close(credit("accumulated_rewards"), naive.accumulated_rewards(reward.numpy(), cut))


@pytest.mark.parametrize("advantage", ["accumulate", "accumulated_rewards"])
def test_other_advantages_train(advantage: str) -> None:
    learner = _learner(_config(segments={"advantage": advantage}))
    assert all(np.isfinite(value) for value in learner.iterate(1).numbers.values())


# ---------------------------------------------------------------------- likelihoods

Recording = dict[str, Tensor]


@pytest.fixture(params=["box", "metaworld"])
def recorded(request: pytest.FixtureRequest) -> Recording:
    """Pairs of positions under Gaussian parameters, recorded from mp_pytorch 0.1.4."""
    with np.load(DATA / f"mp_prodmp_{request.param}.npz") as arrays:
        return {key: torch.from_numpy(np.array(arrays[key])) for key in arrays.files}


def _recorded_pairs(rec: Recording) -> Pairs:
    names = ("num_basis", "tau", "bandwidth_factor", "alpha", "alpha_phase", "weights_scale", "goal_scale")
    settings = {name: rec[name].item() for name in (*names, "relative_goal", "table_length_factor")}
    primitive = ProDmp(PrimitiveConfig(**settings), int(rec["num_dof"]), float(rec["dt"]))
    times = rec["pair_times"][0]  # [K, 2], the same in all episodes
    grid = primitive.grid(times.flatten(), torch.zeros(1, dtype=torch.float64))
    ends = torch.arange(times.numel()).unflatten(0, times.shape)
    return Pairs(
        primitive=primitive,
        basis=grid.basis(torch.zeros(len(times), dtype=torch.long), ends),
        tracked=flat_positions(rec["pair_sample_pos"]),
        position=rec["init_pos"],
        velocity=rec["init_vel"],
        regularization=1e-4,
    )


def test_pairs_against_recordings(recorded: Recording) -> None:
    rec, pairs = recorded, _recorded_pairs(recorded)
    assert not rec["init_time"].any()
    gaussian = Gaussian(rec["params"], rec["params_L"])
    joint = pairs.distribution(gaussian)
    _close(joint.mean_position, rec["pair_mean"])
    _close(joint.position_covariance[: len(rec["pair_cov"])], rec["pair_cov"])
    _close(pairs.log_prob(gaussian), rec["pair_logp"])


def test_shared_covariance_is_computed_once(recorded: Recording) -> None:
    rec, pairs = recorded, _recorded_pairs(recorded)
    shared = Gaussian(rec["params"], rec["params_L"][0])
    spread = Gaussian(rec["params"], rec["params_L"][:1].expand(3, -1, -1))
    assert pairs.distribution(shared).position_covariance.dim() == 3
    _close(pairs.log_prob(shared), pairs.log_prob(spread))


def test_single_precision_loses_nothing_but_digits(recorded: Recording) -> None:
    rec, pairs = recorded, _recorded_pairs(recorded)
    gaussian = Gaussian(rec["params"], rec["params_L"][0])
    single = pairs.log_prob(gaussian.to(torch.float32))
    assert single.dtype == torch.float32
    difference = single.double() - pairs.log_prob(gaussian.to(torch.float32).to(torch.float64))
    assert float(difference.abs().max()) < 1e-4


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
@pytest.mark.parametrize("contextual", [False, True], ids=["shared", "contextual"])
@pytest.mark.parametrize(
    "primitive",
    [
        {"relative_goal": False},
        {"relative_goal": True},
        {"kind": "dmp", "weights_scale": 20.0, "relative_goal": True},
        {"kind": "bspline", "relative_goal": True},
        {"kind": "promp", "num_basis": 3},
        {"kind": "promp", "num_basis": 3, "num_zero_start": 1},
    ],
    ids=["absolute", "relative", "dmp", "bspline", "promp", "padded promp"],
)
def test_pairs_against_loops(covariance: str, contextual: bool, primitive: dict[str, Any]) -> None:
    config = _config(
        policy={"covariance": covariance, "contextual": contextual}, learn={"precision": "float64", "policy_epochs": 0}
    )
    learner = _learner(config, **primitive)
    disturb(learner)
    episodes = collected(learner, 3)
    cut = learner.draw_points(2)
    gaussian = learner.policy(episodes.first_state).detach()
    factor = gaussian.matrix_factor().expand(3, -1, -1)
    start = (episodes.position, episodes.velocity)
    mean, spread = naive.pair_gaussians(learner.primitive, gaussian.mean, factor, *start, cut.tolist(), dt=0.1)
    pairs = learner.pairs(episodes, cut)
    joint = pairs.distribution(gaussian)
    _close(joint.mean_position, mean)
    _close(joint.position_covariance.expand_as(spread), spread)
    expected = [
        [float(naive.gaussian_log_prob(pairs.tracked[n, k], mean[n, k], spread[n, k])) for k in range(len(cut) - 1)]
        for n in range(3)
    ]
    _close(pairs.log_prob(gaussian), expected)


def test_tracked_positions_are_those_of_the_reference() -> None:
    learner = _learner(_config(segments={"points": 6}))
    episodes = collected(learner, 2)
    cut = segment_points(12, 6, 1)  # 1, 3, 5, ...
    tracked = learner.pairs(episodes, cut).tracked  # [2, 5, 2D], both ends of the first joint, then of the second
    assert tracked.shape == (2, 5, 4)
    for k, (first, last) in enumerate(pairwise(cut.tolist())):
        for joint in range(2):
            torch.testing.assert_close(tracked[:, k, 2 * joint], episodes.reference[:, first, joint])
            torch.testing.assert_close(tracked[:, k, 2 * joint + 1], episodes.reference[:, last, joint])


def test_regularization_is_a_constant_for_gradients() -> None:
    learner = _learner(_config(learn={"precision": "float64"}))
    pairs = learner.pairs(collected(learner, 2), learner.draw_points(1))
    factor = torch.eye(6, dtype=torch.float64, requires_grad=True)
    joint = pairs.distribution(Gaussian(torch.zeros(2, 6, dtype=torch.float64), factor))
    variances = joint.position_covariance.diagonal(dim1=-2, dim2=-1).sum()
    without = propagate(joint.design[..., 0, :], joint.factor).square().sum()
    assert float(variances.detach()) > float(without.detach())
    first, second = (torch.autograd.grad(total, factor, retain_graph=True)[0] for total in (variances, without))
    torch.testing.assert_close(first, second)


def test_log_prob_of_a_standard_normal() -> None:
    value = _numbers(3, 2, 4)
    expected = -0.5 * value.square().sum(-1) - 2 * np.log(2 * np.pi)
    for covariance in (torch.eye(4, dtype=torch.float64).expand(shape) for shape in ((2, 4, 4), (3, 2, 4, 4))):
        _close(pair_log_prob(value, torch.zeros_like(value), covariance), expected, 1e-12)


# ---------------------------------------------------------------------- an iteration against plain loops


def _naive_log_prob(learner: TceLearner, episodes: Any, cut: list[int]) -> naive.LogProb:
    def log_prob(mean: Tensor, factor: Tensor) -> Tensor:
        start = (episodes.position, episodes.velocity)
        means, spreads = naive.pair_gaussians(learner.primitive, mean, factor, *start, cut, dt=0.1)
        rows = []
        for n in range(len(mean)):
            entries = []
            for k in range(len(cut) - 1):
                ends = (cut[k], cut[k + 1])
                tracked = torch.stack([episodes.reference[n, i, d] for d in range(2) for i in ends])
                entries.append(naive.gaussian_log_prob(tracked, means[n, k], spreads[n, k]))
            rows.append(torch.stack(entries))
        return torch.stack(rows)

    return log_prob


def test_policy_step_against_loops() -> None:
    config = _config(
        trust_region={"mean_bound": 0.05, "covariance_bound": 0.01, "entropy": "linear"},
        learn={"precision": "float64", "policy_epochs": 1, "critic_epochs": 0, "discount": 0.95},
    )
    learner = _learner(config)
    disturb(learner, seed=3)
    episodes = collected(learner, 4)
    disturb(learner)  # so that both bounds are active
    policy, critic = copy.deepcopy(learner.policy), copy.deepcopy(learner.critic)
    numbers = learner.learn(episodes, iteration=2)

    state = episodes.state.numpy()
    rows = state.reshape(-1, state.shape[-1])
    mean, variance = _naive_statistics([rows])
    normal = torch.from_numpy((state - mean) / np.sqrt(variance + 1e-8))
    values = np.array([[critic(step).item() for step in episode] for episode in normal])
    cut = learner.draw_points(2).tolist()
    advantage = naive.normalized(naive.segment_advantages(episodes.reward.numpy(), values, cut, 0.95))
    loss, objective, _ = naive.policy_loss(
        policy,
        episodes.first_state,
        episodes.behaviour,
        _naive_log_prob(learner, episodes, cut),
        advantage,
        bounds=(0.05, 0.01),
        weight=1.0,
        with_covariance=True,
        entropy_bound=learner.entropy_bound(2),
    )
    loss.backward()
    assert numbers["mean_projected"] == 1.0
    assert numbers["covariance_projected"] == 1.0
    assert numbers["policy_loss"] == pytest.approx(loss.item(), rel=1e-10)
    assert numbers["policy_objective"] == pytest.approx(objective.item(), rel=1e-10, abs=1e-11)
    expected = gradients_of(policy)
    for name, gradient in gradients_of(learner.policy).items():
        scale = float(expected[name].abs().max())
        torch.testing.assert_close(gradient, expected[name], rtol=0, atol=1e-10 * max(1.0, scale), msg=name)


def test_critic_step_against_loops() -> None:
    config = _config(learn={"precision": "float64", "policy_epochs": 0, "critic_epochs": 1})
    learner = _learner(config)
    disturb(learner)
    batches = [collected(learner, 3), collected(learner, 4)]
    learner.learn(batches[0], iteration=1)
    critic = copy.deepcopy(learner.critic)
    numbers = learner.learn(batches[1], iteration=2)

    arrays = [batch.state.numpy().reshape(-1, batch.state.shape[-1]) for batch in batches]
    mean, variance = _naive_statistics(arrays)  # with the new states: updated before use
    state = torch.from_numpy((arrays[1] - mean) / np.sqrt(variance + 1e-8))
    values = np.array([critic(step).item() for step in state]).reshape(4, 12)
    after_the_end = np.zeros((4, 1))
    reward = batches[1].reward.numpy()
    target = naive.gae(reward, np.concatenate((values, after_the_end), 1), 1.0, 0.95) + values
    errors = [(critic(step) - goal) ** 2 for step, goal in zip(state, target.ravel(), strict=True)]
    loss = torch.stack(errors).sum() / len(errors)
    loss.backward()
    assert numbers["critic_loss"] == pytest.approx(loss.item(), rel=1e-10)
    assert numbers["critic_target"] == pytest.approx(target.mean(), rel=1e-10)
    share = 1.0 - np.var(target - values) / np.var(target)
    assert numbers["explained_variance"] == pytest.approx(share, rel=1e-10)
    expected = gradients_of(critic)
    for name, gradient in gradients_of(learner.critic).items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-10, atol=1e-10, msg=name)


def _naive_statistics(batches: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Running mean and variance, batch by batch."""
    mean, variance, count = np.zeros(batches[0].shape[1]), np.ones(batches[0].shape[1]), 1e-4
    for rows in batches:
        total = count + len(rows)
        batch_mean, batch_variance = rows.mean(0), rows.var(0, ddof=1)
        spread = (batch_mean - mean) ** 2 * count * len(rows) / total
        variance = (variance * count + batch_variance * len(rows) + spread) / total
        mean = mean + (batch_mean - mean) * len(rows) / total
        count = total
    return mean, variance


def test_policy_sees_raw_states_with_the_time() -> None:
    learner = _learner(_config())
    assert learner.policy.mean_net[0].in_features == 5
    assert learner.critic.net[0].in_features == 5
    learner.iterate(1)
    assert not learner.policy.standardize.fitted
    assert float(learner.normalizer.count) == pytest.approx(5 * 12 + 1e-4)


def test_evaluation_leaves_the_statistics_alone() -> None:
    learner = _learner(_config())
    learner.iterate(1)
    before = learner.normalizer.mean.clone()
    learner.evaluate([1, 2, 3])
    assert torch.equal(before, learner.normalizer.mean)


def test_raw_states_for_the_critic() -> None:
    learner = _learner(_config(learn={"normalize_states": False}))
    learner.iterate(1)
    assert float(learner.normalizer.count) == pytest.approx(1e-4)


def test_standardized_starts_do_not_touch_the_critic() -> None:
    learner = _learner(_config(learn={"standardize": 20}))
    learner.prefill()
    assert learner.policy.standardize.fitted
    assert not learner.critic.standardize.fitted


# ---------------------------------------------------------------------- learning


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_resuming_is_exact(precision: str) -> None:
    config = _config(
        learn={"precision": precision, "final_rate": 0.01, "standardize": 8},
        trust_region={"entropy": "linear"},
        segments={"points": 25},
    )

    def fresh() -> TceLearner:
        return TceLearner(config, make_setup(make_task(REACHER), seed=4))

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


def test_training_improves_the_return() -> None:
    config = _config(
        collect={"episodes": 24},
        policy={"hidden": (32,)},
        critic={"hidden": (32,)},
        trust_region={"mean_bound": 0.2, "covariance_bound": 0.05},
        learn={"critic_epochs": 20, "policy_epochs": 20, "critic_rate": 3e-3, "policy_rate": 3e-3},
        segments={"points": 6},
    )
    learner = _learner(config, task=TinyTask(num_dof=1), total_iterations=40)
    seeds = episode_seeds(0, "evaluation", 0, 20)
    before = learner.evaluate(seeds).returns.mean()
    for iteration in range(1, 41):
        learner.iterate(iteration)
    assert learner.evaluate(seeds).returns.mean() > 0.3 * before  # minus squared distances: at most 30 % is left


def test_columns_hold_all_numbers() -> None:
    learner = _learner(_config())
    stats = learner.iterate(1)
    assert set(stats.numbers) == set(learner.columns)
    assert all(np.isfinite(value) for value in stats.numbers.values())


def test_one_episode_is_enough() -> None:
    learner = _learner(_config(collect={"episodes": 1}))
    assert all(np.isfinite(value) for value in learner.iterate(1).numbers.values())


# ---------------------------------------------------------------------- configuration


@pytest.mark.parametrize(
    ("section", "changes"),
    [
        ("segments", {"points": 1}),
        ("segments", {"regularization": 0.0}),
        ("learn", {"discount": 0.0}),
        ("learn", {"trace": 1.1}),
        ("learn", {"policy_rate": 0.0}),
    ],
)
def test_impossible_settings_are_refused(section: str, changes: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=section):
        _config(**{section: changes})


def test_more_points_than_steps_are_refused() -> None:
    with pytest.raises(UserError, match=r"segments\.points \(13\) must not exceed"):
        _learner(_config(segments={"points": 13}))


def test_defaults() -> None:
    config = TceConfig()
    assert config.segments.points == 25
    assert (config.learn.discount, config.learn.trace) == (1.0, 0.95)
    assert config.trust_region.regression_weight == 1.0
    assert not config.trust_region.set_covariance
    assert config.learn.normalize_states
