"""Agents that replan: the next plan from a reference, whole episodes in closed loop, and what they cannot do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.rollout.toy_tasks import PointEnv, PointTask, ToyTask
from top_erl import Agent
from top_erl.config.plan import PlanConfig
from top_erl.config.primitive import PrimitiveConfig
from top_erl.config.run import RunConfig
from top_erl.errors import UserError
from top_erl.experiment.presets import preset
from top_erl.export.export import export_policy
from top_erl.inspection.opening import opened
from top_erl.primitives import Reference
from top_erl.tasks import make_task

JUMP = "top_erl/ViaPointReacherJump-v0"


@pytest.fixture(scope="module")
def agent() -> Iterator[Agent]:
    """An agent that replans every 10 of 50 steps, untrained."""
    config = preset("top_erl", JUMP, "laptop", 0)
    algorithm = replace(config.algorithm, plan=PlanConfig(every=10))  # type: ignore[attr-defined]
    hardware = replace(config.hardware, threads=1, workers=0)
    with Agent(config=replace(config, algorithm=algorithm, hardware=hardware)) as made:  # type: ignore[call-arg]
        yield made


def test_plans_asked_for_one_by_one_are_the_episode(agent: Agent) -> None:
    """As a robot's own program would: observe, ask, track ten steps, ask again."""
    task = make_task(JUMP)
    starts = task.begin([4])
    plan = agent.predict(starts.observation[0])
    assert isinstance(plan, Reference)
    assert plan.position.shape == (50, 5)
    tracked = [plan.stacked().numpy()[:10]]
    for step in (10, 20, 30, 40):
        now = task.advance(tracked[-1][None])
        plan = agent.predict(now.observation[0], step=step, reference=tracked[-1][-1], origin=starts.position[0])
        assert isinstance(plan, Reference)
        assert plan.position.shape == (50 - step, 5)
        tracked.append(plan.stacked().numpy()[:10])
    outcomes = task.play(tracked[-1][None])
    played = agent.play(seed=4)
    np.testing.assert_allclose(np.concatenate(tracked), played.reference, atol=1e-12)
    np.testing.assert_allclose(outcomes.reward[0], played.reward, atol=1e-9)
    assert played.plans == (0, 10, 20, 30, 40)
    assert played.metrics["goal_distance"] == pytest.approx(outcomes.metrics["goal_distance"][0])
    assert agent.training.learner.evaluate([4]).returns[0] == pytest.approx(played.reward.sum())
    assert len(agent.training.learner.film(4, 25)) == 2


def test_a_batch_and_samples(agent: Agent) -> None:
    starts = make_task(JUMP).begin([1, 2, 3])
    current = np.concatenate((starts.position, starts.velocity), axis=-1)
    batch = agent.predict(starts.observation, step=20, reference=current, origin=starts.position)
    assert isinstance(batch, Reference)
    assert batch.position.shape == (3, 30, 5)
    one = agent.predict(starts.observation[1], step=20, reference=current[1], origin=starts.position[1])
    assert isinstance(one, Reference)
    np.testing.assert_allclose(one.position, batch.position[1], atol=1e-5)
    sample = agent.predict(starts.observation, step=20, reference=current, origin=starts.position, deterministic=False)
    assert isinstance(sample, Reference)
    assert not np.allclose(sample.position, batch.position)


def test_what_is_wrong_with_a_question(agent: Agent) -> None:
    observation = make_task(JUMP).begin([1]).observation[0]
    for wrong, complaint in (
        ({"step": 10}, r"To replan at step 10, .* needs reference="),
        ({"step": 10, "reference": np.zeros(3)}, r"of shape \(10,\), not \(3,\)"),
        ({"step": 50, "reference": np.zeros(10)}, "has steps 0 to 49, not 50"),
        ({"step": 10, "reference": np.full(10, np.nan)}, "reference for .* holds NaN"),
        (
            {"step": 10, "reference": np.zeros(10)},
            r"needs origin=, the position at the .* of shape \(5,\): goals count",
        ),
        ({"step": 10, "reference": np.zeros(10), "origin": np.zeros(2)}, r"of shape \(5,\).*; \(2,\) was given"),
    ):
        with pytest.raises(UserError, match=complaint):
            agent.predict(observation, **wrong)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="not made of a step environment"):
        agent.play(PointEnv())
    with pytest.raises(UserError, match=r"those of toy are \(3, 2, 6, 0.1\)"):
        agent.play(ToyTask())
    with pytest.raises(UserError, match="a task or an environment, not a str"):
        agent.play("here")  # type: ignore[arg-type]


def test_an_environment_of_ones_own(tiny: RunConfig) -> None:
    task, primitive = "tests.rollout.toy_tasks:PointTask", PrimitiveConfig(num_basis=2, tau=0.8)
    algorithm = replace(tiny.algorithm, plan=PlanConfig(every=2))  # type: ignore[attr-defined]
    config = replace(tiny, task=task, primitive=primitive, algorithm=algorithm)  # type: ignore[call-arg]
    with Agent(config=config) as agent:
        env = PointEnv()
        played = agent.play(env, seed=3)
        assert env.place[0] == played.reference[-1, 0]
        np.testing.assert_array_equal(played.reward, agent.play(PointTask(), seed=3).reward)
        assert played.plans == (0, 2, 4, 6)


def test_what_shows_one_plan_is_refused(agent: Agent, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="replans every 10 steps, and an export has one plan"):
        export_policy(agent, tmp_path / "policy.onnx")
    agent.save(tmp_path / "saved")
    with pytest.raises(UserError, match="It replans every 10 steps"), opened(tmp_path / "saved"):
        pass
    with Agent.load(tmp_path / "saved") as loaded:
        np.testing.assert_array_equal(loaded.play(seed=1).reference, agent.play(seed=1).reference)
