"""Runs with several plans an episode: the special case of one, workers, going on after a stop."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.experiment.test_exact_resume import _assert_same_run, _numbers, _resume, _train
from top_erl.algorithms.top_erl.learner import TopErlLearner
from top_erl.algorithms.top_erl.planning import PlanningLearner
from top_erl.config.plan import PlanConfig
from top_erl.config.primitive import PrimitiveConfig
from top_erl.config.run import HardwareConfig, RunConfig
from top_erl.errors import UserError
from top_erl.experiment.callbacks import FunctionCallback
from top_erl.experiment.training import Training


@pytest.fixture
def point(tiny: RunConfig) -> RunConfig:
    """A run of 6 iterations on a task that plays in parts; episodes of 8 steps are stored as 4 tokens."""
    task, primitive = "tests.rollout.toy_tasks:PointTask", PrimitiveConfig(num_basis=2, tau=0.8)
    return replace(tiny, task=task, primitive=primitive, total_env_steps=8 * (4 + 6 * 3))  # type: ignore[call-arg]


def _with_plan(config: RunConfig, overlap: bool = False, **plan: object) -> RunConfig:
    algorithm = config.algorithm  # type: ignore[attr-defined]
    collect = replace(algorithm.collect, overlap=overlap)
    changed = replace(algorithm, collect=collect, plan=PlanConfig(**plan))  # type: ignore[arg-type]
    return replace(config, algorithm=changed)  # type: ignore[call-arg]


def test_one_plan_an_episode_is_the_method_as_published(point: RunConfig, tmp_path: Path) -> None:
    _train(point, tmp_path / "none")
    _train(_with_plan(point, every=8, clock="plan", reference_input=False), tmp_path / "horizon")
    _assert_same_run(tmp_path / "horizon", tmp_path / "none")
    training = Training(_with_plan(point, every=8))
    assert type(training.learner) is TopErlLearner
    _train(_with_plan(point, every=4), tmp_path / "two")
    assert _numbers(tmp_path / "two") != _numbers(tmp_path / "none")


@pytest.mark.parametrize("rule", ["random", "by_value"])
def test_workers_overlap_and_stops_change_nothing(rule: str, point: RunConfig, tmp_path: Path) -> None:
    """Plans are made between gradient steps, whenever the workers have answered: by the policy of the start."""
    config = _with_plan(point, overlap=True, every=2, **{rule: True})
    here = replace(config, hardware=HardwareConfig(threads=1, workers=0))
    _train(here, tmp_path / "here")
    _train(here, tmp_path / "stopped", FunctionCallback(lambda row: row["iteration"] < 2))
    assert _resume(tmp_path / "stopped").finished
    _assert_same_run(tmp_path / "stopped", tmp_path / "here")
    there = replace(config, hardware=HardwareConfig(threads=1, workers=2))
    _train(there, tmp_path / "there", FunctionCallback(lambda row: row["iteration"] < 3))
    assert _resume(tmp_path / "there").finished
    # What workers play ahead does not depend on them: only the last checkpoint's counters and tensors count.
    _assert_same_run(tmp_path / "there", tmp_path / "here")


def test_an_overlapped_run_uses_the_policy_from_before_the_update(point: RunConfig) -> None:
    training = Training(_with_plan(point, overlap=True, every=2))
    learner = training.learner
    assert isinstance(learner, PlanningLearner)
    training.advance()
    before = {name: tensor.clone() for name, tensor in learner.policy.state_dict().items()}
    learner.collector.start(learner.policy, 3)
    with torch.no_grad():
        for parameter in learner.policy.parameters():
            parameter.add_(1.0)
    rollout, _ = learner.collector.finish_rollout()
    learner.policy.load_state_dict(before)
    plans = rollout.plans
    assert plans is not None
    last = plans.start == 6
    row = plans.episode[last][0]
    seen = torch.tensor([*rollout.state[row, 6], *rollout.reference[row, 5]], dtype=torch.float32)
    with torch.no_grad():
        torch.testing.assert_close(learner.policy(seen[None]).mean[0], plans.behaviour.mean[last][0])
    training.close()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"every": 3}, r"plan.every \(3 control steps\) must be a multiple of collect.stride \(2\)"),
        ({"every": 10}, "plan.every is 10, but an episode has 8 control steps"),
        ({"every": -1}, "plan.every must be at least 0"),
        ({"every": 4, "tau": -1.0}, "plan.tau must be a number of seconds"),
        ({"random": True}, "need plan.every"),
        ({"every": 4, "random": True, "by_value": True}, "use plan.random or plan.by_value"),
    ],
)
def test_plans_that_make_no_sense(change: dict[str, object], complaint: str, point: RunConfig) -> None:
    with pytest.raises(UserError, match=complaint):
        Training(_with_plan(point, **change))


def test_what_does_not_go_with_plans(tiny: RunConfig, point: RunConfig) -> None:
    with pytest.raises(UserError, match="plays whole episodes only, so nobody can replan"):
        Training(_with_plan(tiny, every=2))
    promp = replace(point, primitive=PrimitiveConfig(kind="promp", num_basis=3, tau=0.8))  # type: ignore[call-arg]
    with pytest.raises(UserError, match="promp cannot start from a reference that moves"):
        Training(_with_plan(promp, every=2))
    config = _with_plan(point, every=2)
    algorithm = config.algorithm  # type: ignore[attr-defined]
    region = replace(algorithm.trust_region, anchor="behaviour")
    with pytest.raises(UserError, match="no behaviour to measure from"):
        Training(replace(config, algorithm=replace(algorithm, trust_region=region)))  # type: ignore[call-arg]
