"""One critic step and one policy step against a second, naive implementation: losses and gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from top_erl.algorithms.top_erl.learner import TopErlLearner
from top_erl.algorithms.top_erl.planning import PlanningLearner
from top_erl.models import TransformerCritic
from top_erl.models.fast.critic import FastCritic
from top_erl.tasks.via_point_reacher.task import ViaPointReacher

from .naive import CriticResult, NaiveTopErl, PolicyResult
from .naive_plans import NaivePlans
from .tiny import TinyTask, batch_of, disturb, gradients, tiny_config, tiny_learner, to_double, weights

EXACT = {"rtol": 1e-10, "atol": 1e-11}
SEEDS = (0, 1)

# Every option at least once with every target, and the pairs that could disturb each other.
CASES: dict[str, dict[str, Any]] = {
    "v": {},
    "v relative positions": {"critic": {"positions": "relative"}},
    "v stride 2": {"collect": {"stride": 2, "reward_scale": 0.5}},
    "v relative goal": {"goal": True},
    "v relative goal, stride 2, relative positions": {
        "goal": True,
        "collect": {"stride": 2},
        "critic": {"positions": "relative"},
    },
    "v discount": {"learn": {"discount": 0.9}},
    "v episode condition": {"learn": {"critic_condition": "episode"}, "goal": True},
    "q": {"learn": {"target": "q"}},
    "q relative positions, stride 2": {
        "learn": {"target": "q"},
        "collect": {"stride": 2},
        "critic": {"positions": "relative"},
    },
    "q relative goal, discount": {"learn": {"target": "q", "discount": 0.8}, "goal": True},
    "q episode condition": {"learn": {"target": "q", "critic_condition": "episode"}, "goal": True},
    "clipped": {"learn": {"target": "clipped"}},
    "clipped relative positions, relative goal": {
        "learn": {"target": "clipped"},
        "critic": {"positions": "relative"},
        "goal": True,
    },
    "clipped stride 2": {"learn": {"target": "clipped"}, "collect": {"stride": 2}},
    "ensemble of 2": {"learn": {"target": "ensemble", "ensemble_size": 2}},
    "ensemble of 3": {"learn": {"target": "ensemble", "ensemble_size": 3}},
    "ensemble of 3, relative positions, stride 2, relative goal": {
        "learn": {"target": "ensemble", "ensemble_size": 3},
        "critic": {"positions": "relative"},
        "collect": {"stride": 2},
        "goal": True,
    },
    "segment condition for the policy": {"learn": {"policy_condition": "segment"}},
    "segment condition for the policy, relative goal": {"learn": {"policy_condition": "segment"}, "goal": True},
    "mean objective": {"learn": {"policy_objective": "mean"}},
    "mean objective, clipped": {"learn": {"policy_objective": "mean", "target": "clipped"}},
    "no layer norm": {"critic": {"layer_norm": False}},
    "w2": {"trust_region": {"projection": "w2"}},
    "frobenius": {"trust_region": {"projection": "frobenius"}},
    "no projection": {"trust_region": {"projection": "none"}},
    "wide region": {"trust_region": {"mean_bound": 1e3, "covariance_bound": 1e3}},
    "regression weight": {"trust_region": {"regression_weight": 7.0}},
    "behaviour anchor": {"trust_region": {"anchor": "behaviour"}},
    "behaviour anchor, w2": {"trust_region": {"anchor": "behaviour", "projection": "w2"}},
    "behaviour anchor, diagonal": {"trust_region": {"anchor": "behaviour"}, "policy": {"covariance": "diagonal"}},
    "diagonal": {"policy": {"covariance": "diagonal"}},
    "diagonal w2": {"policy": {"covariance": "diagonal"}, "trust_region": {"projection": "w2"}},
    "diagonal frobenius": {"policy": {"covariance": "diagonal"}, "trust_region": {"projection": "frobenius"}},
    "contextual": {"policy": {"contextual": True}},
    "contextual diagonal": {"policy": {"contextual": True, "covariance": "diagonal"}},
    "entropy bound": {"bound": 10.0},
    "entropy bound, no projection": {"bound": 10.0, "trust_region": {"projection": "none"}},
    "entropy bound not reached": {"bound": -50.0},
    "fixed count": {"segments": {"kind": "fixed_count", "count": 3}},
    "fixed length": {"segments": {"kind": "fixed_length", "fraction": 0.75}},
    "rests": {"segments": {"kind": "rests"}},
    # several plans an episode of 12 steps
    "plans": {"plan": {"every": 3}, "goal": True},
    "plans, rests": {"plan": {"every": 3}, "segments": {"kind": "rests"}, "goal": True},
    "plans, h steps": {"plan": {"every": 3, "clock": "rest", "look": "plan"}},
    "plans at random": {"plan": {"every": 4, "random": True, "clock": "rest", "look": "plan"}, "goal": True},
    "plans at random, stride 2": {"plan": {"every": 4, "random": True, "clock": "episode"}, "collect": {"stride": 2}},
    "plans by value, own clock": {
        "plan": {"every": 2, "by_value": True, "clock": "plan", "tau": 0.5, "look": "plan"},
        "goal": True,
    },
    "plans, q": {"plan": {"every": 3}, "learn": {"target": "q", "discount": 0.9}},
    "plans, clipped, no reference": {
        "plan": {"every": 5, "reference_input": False, "look": "plan"},
        "learn": {"target": "clipped", "policy_objective": "mean"},
    },
    "plans, contextual": {
        "plan": {"every": 3},
        "policy": {"contextual": True, "covariance": "diagonal"},
        "trust_region": {"projection": "none"},
    },
    "plans, entropy bound": {"plan": {"every": 6}, "bound": 10.0},
}


@pytest.fixture
def _float64() -> Iterator[None]:
    before = torch.get_default_dtype()
    yield
    torch.set_default_dtype(before)


def _prepared(case: dict[str, Any]) -> tuple[TopErlLearner, float | None]:
    """A learner in float64 with a few episodes and networks that differ."""
    case = dict(case)
    goal, bound = case.pop("goal", False), case.pop("bound", None)
    learner = tiny_learner(tiny_config(**case), relative_goal=goal)
    learner.prefill()
    disturb(learner)
    torch.set_default_dtype(torch.float64)
    to_double(learner)
    return learner, bound


def _naive(learner: TopErlLearner) -> NaiveTopErl:
    return NaivePlans(learner) if isinstance(learner, PlanningLearner) else NaiveTopErl(learner)


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _assert_gradients(module: nn.Module, naive: nn.Module, loss: Tensor, tolerance: dict[str, float]) -> None:
    naive.zero_grad()
    loss.backward()
    expected = gradients(naive)
    assert max(float(value.abs().max()) for value in expected.values()) > 1e-3  # there is something to compare
    for name, value in gradients(module).items():
        torch.testing.assert_close(value, expected[name], msg=lambda text, name=name: f"{name}: {text}", **tolerance)


def _compare_critic(learner: TopErlLearner, bound: float | None, seed: int, tolerance: dict[str, float]) -> None:
    batch = batch_of(learner, 0, 2, 2)
    naive = _naive(learner)
    expected: CriticResult = naive.critic_step(batch, _generator(seed), bound)
    stats = learner.critic_step(batch, _generator(seed), bound)
    mean_loss = sum(float(loss.detach()) for loss in expected.losses) / len(expected.losses)
    assert float(stats.loss) == pytest.approx(mean_loss, rel=tolerance["rtol"])
    assert float(stats.value) == pytest.approx(expected.value, rel=tolerance["rtol"], abs=tolerance["atol"])
    one_step = [row[1] for rows in expected.targets for row in rows]
    assert float(stats.target) == pytest.approx(sum(one_step) / len(one_step), rel=tolerance["rtol"])
    _assert_gradients(learner.critics, naive.critics, torch.stack(expected.losses).sum(), tolerance)


def _compare_policy(learner: TopErlLearner, bound: float | None, seed: int, tolerance: dict[str, float]) -> None:
    batch = batch_of(learner, 1, 3, 0)
    naive = _naive(learner)
    expected: PolicyResult = naive.policy_step(batch, _generator(seed), bound)
    stats = learner.policy_step(batch, _generator(seed), bound)
    for name in ("loss", "objective", "regression"):
        got = stats.regression_loss if name == "regression" else getattr(stats, name)
        torch.testing.assert_close(got, getattr(expected, name).detach(), **tolerance)
    for name in ("entropy", "kl_to_anchor", "mean_projected", "covariance_projected"):
        assert float(getattr(stats, name)) == pytest.approx(getattr(expected, name), rel=1e-6)
    _assert_gradients(learner.policy, naive.policy, expected.loss, tolerance)


@pytest.mark.usefixtures("_float64")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_critic_step_equals_the_naive_one(case: dict[str, Any]) -> None:
    learner, bound = _prepared(case)
    for seed in SEEDS:  # other lengths and offsets each time; the networks move on as well
        _compare_critic(learner, bound, seed, EXACT)


@pytest.mark.usefixtures("_float64")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_policy_step_equals_the_naive_one(case: dict[str, Any]) -> None:
    learner, bound = _prepared(case)
    for seed in SEEDS:
        _compare_policy(learner, bound, seed, EXACT)


@pytest.mark.usefixtures("_float64")
def test_cases_have_active_bounds_and_padding() -> None:
    """What the comparisons above would otherwise miss."""
    learner, _ = _prepared({})
    stats = learner.policy_step(batch_of(learner, 0, 1), _generator(0))
    assert float(stats.mean_projected) == 1.0
    assert float(stats.covariance_projected) == 1.0
    assert float(stats.entropy) < 10.0  # so that the bound of the entropy cases acts
    naive = _naive(learner)
    cuts = [naive.cut(12, _generator(seed)) for seed in SEEDS]
    assert any((12 - offset) % length for length, offset in cuts)  # a padded segment
    assert len({length for length, _ in cuts}) > 1


@pytest.mark.parametrize("target", ["v", "q", "clipped", "ensemble"])
def test_single_precision_on_the_reacher(target: str) -> None:
    """Real sizes of the task, in the precision of training."""
    config = tiny_config(
        learn={"target": target},
        collect={"stride": 2, "episodes": 2, "prefill": 4},
        critic={"max_positions": 25},
        segments={"kind": "fixed_count", "count": 3},
    )
    learner = tiny_learner(config, task=ViaPointReacher(), relative_goal=True, num_basis=3)
    learner.prefill()
    disturb(learner)
    tolerance = {"rtol": 1e-5, "atol": 1e-5}
    _compare_critic(learner, None, 0, tolerance)
    _compare_policy(learner, None, 1, tolerance)


@pytest.mark.usefixtures("_float64")
def test_updates_follow_the_naive_gradients() -> None:
    """Adam's first step moves every weight by the rate, against the sign of its gradient."""
    learner, _ = _prepared({"learn": {"critic_decay": 0.0, "policy_decay": 0.0}})
    naive = _naive(learner)
    batch = batch_of(learner, 0, 1, 2)
    for module, naive_module, loss, step, rate in (
        (learner.critics, naive.critics, naive.critic_step(batch, _generator(4)).losses[0], learner.critic_step, 1e-3),
        (learner.policy, naive.policy, None, learner.policy_step, 5e-4),
    ):
        if loss is None:  # the critic has moved on by now
            naive.critics.load_state_dict(learner.critics.state_dict())
            loss = naive.policy_step(batch, _generator(4)).loss
        loss.backward()
        before = weights(module)
        step(batch, _generator(4))
        for name, gradient in gradients(naive_module).items():
            moved = weights(module)[name] - before[name]
            expected = -rate * gradient / (gradient.abs() + 1e-8)
            clear = gradient.abs() > 1e-6
            torch.testing.assert_close(moved[clear], expected[clear], rtol=1e-4, atol=1e-9)
            assert not moved[gradient == 0.0].any()


def test_tiny_task_is_what_the_comparisons_think() -> None:
    task = TinyTask()
    learner = tiny_learner(task=task)
    learner.prefill()
    batch = learner.replay.gather(torch.arange(4))
    assert batch.state.shape == (4, 12, 5)
    assert batch.reference.shape == batch.action.shape == (4, 12, 4)
    torch.testing.assert_close(batch.reference[:, 1:], batch.action[:, :-1])  # the reference before a step
    torch.testing.assert_close(batch.state[..., -1], (0.1 * torch.arange(12.0)).expand(4, 12))


# ---- what is saved on the way changes nothing


@pytest.mark.usefixtures("_float64")
@pytest.mark.parametrize("target", ["v", "q", "clipped", "ensemble"])
@pytest.mark.parametrize("tokens", [1, 40])
def test_a_batch_in_pieces_makes_the_same_steps(target: str, tokens: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The naive implementation knows no pieces; three episodes are cut into two or three here."""
    monkeypatch.setattr(FastCritic, "piece_tokens", tokens)
    learner, bound = _prepared({"learn": {"target": target}})
    for seed in range(3):
        _compare_critic(learner, bound, seed, EXACT)
        _compare_policy(learner, bound, seed, EXACT)


@pytest.mark.usefixtures("_float64")
@pytest.mark.parametrize("target", ["v", "q", "clipped", "ensemble"])
@pytest.mark.parametrize("little", [-1, 1 << 40], ids=["left out", "computed"])
def test_padding_makes_no_difference(target: str, little: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The naive implementation has no padding at all."""
    monkeypatch.setattr("top_erl.models.fast.critic._LITTLE_PADDING", little)
    learner, bound = _prepared({"learn": {"target": target}})
    for seed in range(8):
        _compare_critic(learner, bound, seed, EXACT)


@pytest.mark.usefixtures("_float64")
@pytest.mark.parametrize("target", ["v", "q", "clipped", "ensemble"])
def test_the_plain_critic_makes_the_same_steps(target: str) -> None:
    learner, bound = _prepared({"learn": {"target": target}, "critic": {"backend": "plain"}})
    assert type(learner.critics.members[0]) is TransformerCritic
    for seed in range(3):
        _compare_critic(learner, bound, seed, EXACT)
        _compare_policy(learner, bound, seed, EXACT)


def test_projecting_the_whole_replay_equals_projecting_each_batch() -> None:
    learner = tiny_learner(tiny_config())
    learner.prefill()
    disturb(learner)
    index = torch.tensor([3, 0, 0])
    known = learner._project_replay(11.0)
    expected = learner.project(learner.replay.gather(index), 11.0)[1].gaussian.detach()
    assert known is not None
    torch.testing.assert_close(known.mean[index], expected.mean, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(known.factor, expected.factor, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    "sections", [{"policy": {"contextual": True}}, {"trust_region": {"anchor": "behaviour"}}], ids=str
)
def test_a_covariance_per_episode_is_projected_per_batch(sections: dict[str, Any]) -> None:
    learner = tiny_learner(tiny_config(**sections))
    learner.prefill()
    assert learner._project_replay(None) is None
    learner.iterate(1)
