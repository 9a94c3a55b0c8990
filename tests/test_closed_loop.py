"""Agents that replan: the next plan from a reference, whole episodes in closed loop, and what they cannot do."""

from __future__ import annotations

import json
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
from top_erl.export.references import export_references
from top_erl.inspection.opening import heading, opened
from top_erl.inspection.reconditioning import reconditioned
from top_erl.inspection.spread import spread_of
from top_erl.primitives import Reference
from top_erl.runtime.backends import Backend
from top_erl.runtime.policy import Policy
from top_erl.seeding import episode_seeds
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


@pytest.mark.parametrize("backend", ["numpy", "onnxruntime"])
def test_an_exported_policy_replans_without_torch(agent: Agent, backend: Backend, tmp_path: Path) -> None:
    """Driven by the exported policy, an episode is the agent's own, plan after plan."""
    file = tmp_path / "policy.onnx"
    _, card = export_policy(agent, file)
    assert (card["format"], card["plan_every"]) == (2, 10)
    policy, task = Policy.load(file, backend), make_task(JUMP)
    now = task.begin([4])
    origin = now.position[0]
    plan = policy(now.observation[0], origin, now.velocity[0])
    tracked = [np.concatenate((plan.position, plan.velocity), axis=-1)[:10]]
    for step in (10, 20, 30, 40):
        now = task.advance(tracked[-1][None])
        plan = policy(now.observation[0], *np.split(tracked[-1][-1], 2), step=step, origin=origin)
        assert plan.position.shape == (50 - step, 5)
        tracked.append(np.concatenate((plan.position, plan.velocity), axis=-1)[:10])
    np.testing.assert_allclose(np.concatenate(tracked), agent.play(seed=4).reference, atol=2e-4)  # single precision


def test_an_exported_policy_refuses_instants_without_a_plan(agent: Agent, tmp_path: Path) -> None:
    file = tmp_path / "policy.onnx"
    export_policy(agent, file)
    policy, start = Policy.load(file), make_task(JUMP).begin([4])
    state = start.observation[0], start.position[0], start.velocity[0]
    for step in (7, 50, -10):
        with pytest.raises(UserError, match=f"plans every 10 of 50 control steps; there is no plan at step {step}"):
            policy(*state, step=step, origin=start.position[0])
    with pytest.raises(UserError, match="needs origin"):
        policy(*state, step=10)
    for step in (10.0, "10", None, [10]):
        with pytest.raises(UserError, match="step must be a whole number of control steps"):
            policy(*state, step=step, origin=start.position[0])  # type: ignore[arg-type]
    elsewhere = policy(*state, origin=start.position[0] + 0.3)  # an episode begins where it begins
    np.testing.assert_array_equal(elsewhere.position, policy(*state).position)
    card = json.loads(file.with_suffix(".json").read_text())
    for every in (0, None, "abc", 50, -5):
        file.with_suffix(".json").write_text(json.dumps({**card, "plan_every": every}))
        with pytest.raises(UserError, match="is not the card of an exported policy"):
            Policy.load(file)
    for changes in ({"plan_every": 7}, {"plan_every": 20}, {"format": 1, "plan_every": 0}):
        file.with_suffix(".json").write_text(json.dumps({**card, **changes}))
        with pytest.raises(UserError, match="another time between two plans than its graph has"):
            Policy.load(file)
    with pytest.raises(UserError, match="no table can hold its references"):
        export_references(agent, tmp_path / "contexts.csv", tmp_path / "references.csv")


def test_policies_that_replan_are_inspected(agent: Agent, tmp_path: Path) -> None:
    """The first plans are drawn; segments are asked for anew where they begin, and begin at the old reference."""
    agent.save(tmp_path / "saved")
    with opened(tmp_path / "saved") as loaded:
        assert "a plan every 10 steps" in heading(loaded)
        np.testing.assert_array_equal(loaded.play(seed=1).reference, agent.play(seed=1).reference)
        starts, spread = loaded.training.task.begin(episode_seeds(0, "fresh", 0, 2)), spread_of(loaded, 0, 2)
        wanted = loaded.predict(starts.observation)
        assert isinstance(wanted, Reference)
        np.testing.assert_allclose(spread.mean[:, 1:], wanted.position.numpy(), atol=1e-5)
        shown = reconditioned(loaded, 0)
        assert shown.plans
        assert shown.jumps()[1].max() < 1e-6
        old = shown.old.state[shown.starts[2]]
        step = shown.starts[2] * loaded.training.learner.collector.stride  # type: ignore[attr-defined]
        assert shown.segments[2].time[0] == pytest.approx(step * loaded.training.spec.dt)
        np.testing.assert_allclose(shown.segments[2].state[0], old, atol=1e-6)
