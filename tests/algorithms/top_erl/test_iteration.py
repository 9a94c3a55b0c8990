"""One iteration: what is collected, trained and moved, in which order, and how it repeats, stops and resumes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from top_erl.algorithms.top_erl.learner import TopErlLearner
from top_erl.models import Sequences
from top_erl.models.standardizer import Standardizer

from .tiny import assert_same, batch_of, disturb, gradients, snapshot, started, tiny_config, tiny_learner, weights


def _spied(
    learner: TopErlLearner, name: str, monkeypatch: pytest.MonkeyPatch, look: Callable[[], object]
) -> list[object]:
    """Look at something before every call of a method; the list fills as it is called."""
    seen: list[object] = []
    method = getattr(learner, name)

    def spied(*args: object, **keywords: object) -> object:
        seen.append(look())
        return method(*args, **keywords)

    monkeypatch.setattr(learner, name, spied)
    return seen


# ---- how it starts


def test_copies_start_equal_and_frozen() -> None:
    learner = tiny_learner()
    for slow, fast in ((learner.anchor, learner.policy), (learner.target_critics, learner.critics)):
        assert_same(weights(slow), weights(fast))
        assert not any(parameter.requires_grad for parameter in slow.parameters())
        assert not slow.training


def test_networks_depend_on_the_seed_alone() -> None:
    torch.manual_seed(1)
    first = snapshot(tiny_learner(seed=4))
    torch.manual_seed(2)
    assert_same(first, snapshot(tiny_learner(seed=4)))
    other = snapshot(tiny_learner(seed=5))
    assert not torch.equal(first["policy.mean_net.0.weight"], other["policy.mean_net.0.weight"])


def test_members_of_an_ensemble_start_differently() -> None:
    first, second = tiny_learner(tiny_config(learn={"target": "clipped"})).critics.members
    assert not torch.equal(first.head.weight, second.head.weight)  # type: ignore[arg-type]


# ---- prefill


@pytest.mark.parametrize(("wanted", "rounds"), [(0, []), (4, [4]), (20, [16, 4]), (33, [16, 16, 1])])
def test_prefill_collects_what_is_missing(wanted: int, rounds: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    learner = tiny_learner(tiny_config(collect={"prefill": wanted}))
    counts: list[int] = []
    start = learner.collector.start

    def counted(policy: Any, count: int, next_count: int = 0) -> None:
        counts.append(count)
        start(policy, count, next_count)

    monkeypatch.setattr(learner.collector, "start", counted)
    learner.prefill()
    learner.prefill()
    assert counts == rounds
    assert len(learner.replay) == learner.collector.episodes_collected == wanted


def test_standardised_inputs_come_from_the_prefill() -> None:
    learner = started(learn={"standardize": True, "target": "clipped"})
    batch = batch_of(learner, 0, 1, 2, 3)
    states, actions = batch.state.reshape(-1, 5), batch.action.reshape(-1, 4)

    def assert_fitted(standardizer: Standardizer, rows: Tensor) -> None:
        torch.testing.assert_close(standardizer.mean, rows.mean(0))
        torch.testing.assert_close(standardizer.spread, rows.std(0).clamp_min(0.01))
        assert standardizer.fitted

    for policy in (learner.policy, learner.anchor):
        assert_fitted(policy.standardize, states)
    for critic in (*learner.critics.members, *learner.target_critics.members):
        assert_fitted(critic.standardize_state, states)  # type: ignore[arg-type]
        assert_fitted(critic.standardize_action, actions)  # type: ignore[arg-type]
    plain = started()
    assert not plain.policy.standardize.fitted


def test_the_policys_inputs_may_be_standardised_by_what_it_sees() -> None:
    """First states only; what does not vary there, such as the time, stays small."""
    learner = started(learn={"standardize": True, "policy_statistics": "contexts"})
    batch = batch_of(learner, 0, 1, 2, 3)
    contexts, states = batch.state[:, 0], batch.state.reshape(-1, 5)
    for policy in (learner.policy, learner.anchor):
        torch.testing.assert_close(policy.standardize.mean, contexts.mean(0))
        torch.testing.assert_close(policy.standardize.spread, contexts.std(0).clamp_min(0.01))
    assert contexts[:, -1].std() == 0.0
    seen = learner.policy.standardize(contexts)
    varies = contexts.std(0) > 0.01
    torch.testing.assert_close(seen[:, varies].std(0), torch.ones(int(varies.sum())))
    assert seen[:, ~varies].abs().max() <= 1.0
    for critic in learner.critics.members:
        torch.testing.assert_close(critic.standardize_state.mean, states.mean(0))  # type: ignore[union-attr]


def test_a_loaded_policy_keeps_its_standardisation() -> None:
    """Without its replay it collects anew; other statistics would make it another policy."""
    learner = started(learn={"standardize": True})
    resumed = tiny_learner(learner.config, seed=7)
    resumed.load_state_dict(snapshot(learner))
    resumed.prefill()
    assert len(resumed.replay) == 4
    assert_same(snapshot(learner), snapshot(resumed))


# ---- warm-up


def test_warm_up() -> None:
    learner = started(learn={"critic_start": 2, "policy_start": 3})
    start = snapshot(learner)
    first = learner.iterate(1)
    assert not first.numbers
    assert_same(start, snapshot(learner))
    second = learner.iterate(2)
    assert "critic_loss" in second.numbers
    assert "policy_loss" not in second.numbers
    assert_same(weights(learner.policy), weights(learner.anchor))
    third = learner.iterate(3)
    assert set(third.numbers) == set(TopErlLearner.columns)
    assert len(learner.replay) == 4 + 3 * 2
    assert all(len(stats.exploration.returns) == 2 for stats in (first, second, third))


@pytest.mark.parametrize(("critic", "policy"), [(0, 0), (1, 0), (0, 2), (5, 3)])
def test_number_of_steps(critic: int, policy: int, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = started(learn={"critic_steps": critic, "policy_steps": policy})
    order: list[str] = []
    for name in ("critic_step", "policy_step"):
        method = getattr(learner, name)

        def spied(*args: object, method: Any = method, name: str = name, **keywords: object) -> object:
            order.append(name)
            return method(*args, **keywords)

        monkeypatch.setattr(learner, name, spied)
    learner.iterate(1)
    assert order == ["critic_step"] * critic + ["policy_step"] * policy  # one block, then the other


def test_every_step_has_a_fresh_batch_of_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = started(collect={"prefill": 32}, learn={"batch_size": 5})
    drawn: list[Tensor] = []
    draw = learner.replay.draw
    monkeypatch.setattr(learner.replay, "draw", lambda *args: drawn.append(draw(*args)) or drawn[-1])
    learner.iterate(1)
    assert [len(index) for index in drawn] == [5] * (3 + 2)
    assert len({tuple(index.tolist()) for index in drawn}) == 5


# ---- collecting before or during the update


@pytest.mark.parametrize("overlap", [False, True])
def test_when_episodes_enter_the_replay(overlap: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = started(collect={"overlap": overlap})
    sizes = _spied(learner, "critic_step", monkeypatch, lambda: len(learner.replay))
    learner.iterate(1)
    assert sizes == [4 if overlap else 6] * 3
    assert len(learner.replay) == 6


@pytest.mark.parametrize("overlap", [False, True])
def test_episodes_come_from_the_policy_before_the_update(overlap: bool) -> None:
    learner = started(
        collect={"overlap": overlap}, trust_region={"anchor": "behaviour"}, learn={"policy_rate": 0.05, "batch_size": 4}
    )
    for iteration in (1, 2):
        before = {name: value.clone() for name, value in learner.policy.state_dict().items()}
        learner.iterate(iteration)
        newest = batch_of(learner, 2 + 2 * iteration, 3 + 2 * iteration)
        assert newest.behaviour is not None
        after = learner.policy(newest.state[:, 0]).mean
        learner_before = tiny_learner(learner.config).policy
        learner_before.load_state_dict(before)
        torch.testing.assert_close(newest.behaviour.mean, learner_before(newest.state[:, 0]).mean)
        assert (newest.behaviour.mean - after).abs().max() > 1e-3  # the update did move the policy


def test_scores_are_those_of_the_new_episodes() -> None:
    for overlap in (False, True):
        learner = started(collect={"overlap": overlap, "reward_scale": 0.5})
        scores = learner.iterate(1).exploration
        stored = batch_of(learner, 4, 5).reward.sum(-1).numpy()
        np.testing.assert_allclose(scores.returns, 2.0 * stored, rtol=1e-5)  # unscaled
        assert set(scores.metrics) == {"distance"}


# ---- slow copies


def test_target_critics_move_after_every_critic_step_by_their_rate() -> None:
    learner = started(learn={"critic_rate": 0.01})
    for seed in range(3):
        slow = weights(learner.target_critics)
        learner.critic_step(batch_of(learner, 0, 1), torch.Generator().manual_seed(seed))
        fast = weights(learner.critics)
        for name, value in weights(learner.target_critics).items():
            torch.testing.assert_close(value, 0.995 * slow[name] + 0.005 * fast[name], rtol=1e-5, atol=1e-8)
        assert not torch.equal(slow["members.0.head.weight"], weights(learner.target_critics)["members.0.head.weight"])


def test_policy_steps_do_not_move_the_slow_copies() -> None:
    learner = started()
    disturb(learner)
    before = weights(learner.target_critics), weights(learner.anchor)
    learner.policy_step(batch_of(learner, 0, 1), torch.Generator().manual_seed(0))
    assert_same(before[0], weights(learner.target_critics))
    assert_same(before[1], weights(learner.anchor))


def test_anchor_moves_once_per_iteration() -> None:
    learner = started(trust_region={"anchor_rate": 0.25}, learn={"policy_steps": 4, "policy_rate": 0.01})
    for iteration in (1, 2):
        slow = weights(learner.anchor)
        learner.iterate(iteration)
        fast = weights(learner.policy)
        for name, value in weights(learner.anchor).items():
            torch.testing.assert_close(value, 0.75 * slow[name] + 0.25 * fast[name], rtol=1e-5, atol=1e-7)
        assert not torch.equal(slow["raw_covariance"], learner.anchor.raw_covariance)


@pytest.mark.parametrize("learn", [{"policy_steps": 0}, {"policy_start": 2}], ids=str)
def test_anchor_stays_without_policy_steps(learn: dict[str, int]) -> None:
    learner = started(learn=learn)
    disturb(learner)
    before = weights(learner.anchor)
    learner.iterate(1)
    assert_same(before, weights(learner.anchor))


# ---- who is trained by what


def test_policy_step_leaves_the_critics_alone() -> None:
    learner = started(learn={"target": "clipped"})
    learner.critic_step(batch_of(learner, 0, 1), torch.Generator().manual_seed(0))
    before, slopes = weights(learner.critics), gradients(learner.critics)
    moments = {name: value for name, value in snapshot(learner).items() if name.startswith("critic_optimizer")}
    policy = weights(learner.policy)
    learner.policy_step(batch_of(learner, 0, 1), torch.Generator().manual_seed(0))
    assert_same(before, weights(learner.critics))
    assert_same(slopes, gradients(learner.critics))
    after = {name: value for name, value in snapshot(learner).items() if name.startswith("critic_optimizer")}
    assert_same(moments, after)
    assert all(parameter.requires_grad for parameter in learner.critics.parameters())
    for name, value in weights(learner.policy).items():
        assert not torch.equal(value, policy[name]), name


def test_critic_step_leaves_the_policy_alone() -> None:
    learner = started()
    before = weights(learner.policy)
    learner.critic_step(batch_of(learner, 0, 1), torch.Generator().manual_seed(0))
    assert_same(before, weights(learner.policy))
    assert all(parameter.grad is None for parameter in learner.policy.parameters())
    assert all(parameter.grad is None for parameter in learner.target_critics.parameters())


def test_with_q_the_value_output_is_not_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch whose Q errors vanish gives no gradient, whatever V says."""
    for target, trained in (("q", False), ("v", True)):
        learner = started(learn={"target": target})
        with torch.no_grad():
            for module in (learner.critics, learner.target_critics):
                module.members[0].action_encoder.weight.zero_()  # type: ignore[union-attr, operator]
        batch = batch_of(learner, 0, 1)
        values = learner.critics(
            Sequences(batch.state, torch.tensor([0]), batch.action[:, None], counts=torch.tensor([12]))
        )[0]  # [B, 1, 13]
        assert values[..., 0].abs().max() > 1e-3
        kind = type(learner.target)
        monkeypatch.setattr(kind, "__call__", lambda *_, values=values: values.detach() + torch.eye(13)[0])
        learner.segmentation = tiny_config(segments={"kind": "fixed_length", "fraction": 1.0}).segments.build()
        learner.critic_step(batch, torch.Generator().manual_seed(0))
        largest = max(float(gradient.abs().max()) for gradient in gradients(learner.critics).values())
        assert (largest > 1e-3) == trained


# ---- entropy


def test_entropy_bound_follows_its_schedule() -> None:
    size = 6
    start = size * (0.5 * math.log(2 * math.pi * math.e))  # standard deviation 1
    learner = tiny_learner(tiny_config(trust_region={"entropy": "linear", "entropy_target": 0.5}), total_iterations=8)
    assert learner.initial_entropy == pytest.approx(start, rel=1e-6)
    assert learner.entropy_bound(2) == pytest.approx(start + 0.25 * (size * 0.5 - start), rel=1e-6)
    assert learner.entropy_bound(8) == pytest.approx(3.0, rel=1e-6)
    exponential = tiny_config(trust_region={"entropy": "exponential", "entropy_temperature": 0.7})
    bound = tiny_learner(exponential, total_iterations=20).entropy_bound(4)
    assert bound == pytest.approx(start * 0.7**2, rel=1e-6)
    assert tiny_learner().entropy_bound(1) is None


def test_entropy_bound_reaches_both_kinds_of_step(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = started(trust_region={"entropy": "linear", "entropy_target": 9.0})  # 54 at the end: it must widen
    bounds: list[float | None] = []
    project = learner.project
    monkeypatch.setattr(learner, "project", lambda batch, bound: bounds.append(bound) or project(batch, bound))
    stats = learner.iterate(5)
    assert bounds == [learner.entropy_bound(5)] * 3  # all three critic steps share one projection
    assert stats.numbers["entropy"] == pytest.approx(learner.entropy_bound(5), rel=1e-5)


# ---- repeating and resuming


@pytest.mark.parametrize(
    "sections",
    [
        {},
        {"learn": {"target": "q"}},
        {"learn": {"target": "clipped"}, "collect": {"overlap": True}},
        {"trust_region": {"anchor": "behaviour"}},
        {"critic": {"dropout": 0.2}},
        {"learn": {"standardize": True}},
        {"collect": {"reward_spread": 10.0, "wide_share": 0.5}},
        {"learn": {"hindsight": 0.8}},
        {
            "learn": {"hindsight": 0.8, "standardize": True},
            "collect": {"reward_spread": 10.0, "wide_share": 0.5},
            "segments": {"kind": "rests"},
            "plan": {"every": 4},
        },
        {"collect": {"reward_spread": 10.0, "reward_trim": 0.1}},
    ],
    ids=str,
)
def test_same_seed_same_numbers_and_resuming_goes_on_exactly(sections: dict[str, Any]) -> None:
    torch.manual_seed(1)
    whole = started(**sections)
    for iteration in (1, 2):
        whole.iterate(iteration)
    saved, replay = snapshot(whole), {name: value.clone() for name, value in whole.replay.state_dict().items()}
    episodes = whole.collector.episodes_collected
    numbers = [whole.iterate(iteration) for iteration in (3, 4)]

    torch.manual_seed(2)  # the global generator must not matter
    resumed = tiny_learner(tiny_config(**sections))
    resumed.load_state_dict(saved)
    resumed.replay.load_state_dict(replay)
    resumed.collector.episodes_collected = episodes
    again = [resumed.iterate(iteration) for iteration in (3, 4)]

    torch.manual_seed(3)
    repeated = started(**sections)
    for iteration in (1, 2, 3, 4):
        repeated.iterate(iteration)
    for other in (resumed, repeated):
        assert_same(snapshot(whole), snapshot(other))
        assert_same(whole.replay.state_dict(), other.replay.state_dict())
    for first, second in zip(numbers, again, strict=True):
        assert np.array_equal(first.exploration.returns, second.exploration.returns)
        assert first.numbers == second.numbers
    assert not torch.equal(saved["policy.mean_net.0.weight"], snapshot(whole)["policy.mean_net.0.weight"])


def test_another_seed_other_numbers() -> None:
    first, second = started(seed=1), started(seed=2)
    first.iterate(1)
    second.iterate(1)
    assert not torch.equal(batch_of(first, 4).reward, batch_of(second, 4).reward)


def test_a_state_does_not_fit_other_networks() -> None:
    saved = snapshot(tiny_learner())
    with pytest.raises(RuntimeError, match="size mismatch"):
        tiny_learner(tiny_config(policy={"hidden": (9,)})).load_state_dict(saved)


def test_dropout_follows_the_run_seed_and_leaves_the_global_generator_alone() -> None:
    results = {}
    for global_seed in (1, 2):
        learner = started(critic={"dropout": 0.3})
        torch.manual_seed(global_seed)
        learner.iterate(1)
        after = torch.rand(1)
        torch.manual_seed(global_seed)
        assert torch.equal(torch.rand(1), after)
        results[global_seed] = snapshot(learner)
    assert_same(results[1], results[2])
    plain = started()
    plain.iterate(1)
    name = "critics.members.0.head.weight"
    assert not torch.equal(snapshot(plain)[name], results[1][name])  # dropout does something
