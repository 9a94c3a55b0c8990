"""Prediction with every method: what an agent answers is what its evaluation plays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from top_erl import Agent, make_task, preset
from top_erl.algorithms.registry import METHODS
from top_erl.config.changes import changed
from top_erl.errors import UserError
from top_erl.primitives import Reference
from top_erl.tasks.stepping import StepEnvironment

REACHER = "top_erl/ViaPointReacher-v0"
HORIZON, SEED = 50, 12
EPISODIC = [method.name for method in METHODS if not method.acts_by_steps]
STEPWISE = [method.name for method in METHODS if method.acts_by_steps]
STEPS = {"collect.environments": 2, "collect.steps": 200, "learn.batch_size": 50}
ROUNDS = {**STEPS, "learn.update_every": 50, "learn.gradient_steps": 1, "learn.learning_starts": 50}
PASSES = {**STEPS, "learn.epochs": 2}
EPOCHS = {"collect.episodes": 4, "learn.critic_epochs": 2, "learn.policy_epochs": 2}
SHORT: dict[str, dict[str, Any]] = {
    "top_erl": {"collect.prefill": 4, "learn.batch_size": 4, "learn.critic_steps": 2, "learn.policy_steps": 2},
    **dict.fromkeys(("tce", "bbrl_cov", "bbrl_std"), EPOCHS),
    **dict.fromkeys(("ppo", "gsde", "gtrxl"), PASSES),
    **dict.fromkeys(("sac", "pink"), ROUNDS),
    "t_sac": {**STEPS, "learn.critic_starts": 2, "learn.policy_starts": 2, "learn.policy_start": 0},
}


@pytest.fixture(scope="module")
def agents() -> Iterator[dict[str, Agent]]:
    """An agent of each method that has learned for an iteration: inputs are standardised or normalised by then."""
    made = {}
    for name, short in SHORT.items():
        changes = {f"algorithm.{key}": value for key, value in short.items()}
        config = changed(preset(name, REACHER, "laptop"), {**changes, "hardware.threads": 1, "hardware.workers": 0})
        made[name] = Agent(config=config).learn(200, progress_bar=False)
    yield made
    for agent in made.values():
        agent.close()


def _actions(agent: Agent, seed: int, steps: int = HORIZON) -> tuple[list[Any], float]:
    """Play an episode by hand; actions and return."""
    environment, total, actions = StepEnvironment(make_task(REACHER)), 0.0, []
    observation = environment.reset(seed)
    for step in range(steps):
        actions.append(agent.predict(observation, step=step))
        made = environment.step(actions[-1])
        observation, total = made.observation, total + made.reward
    environment.close()
    return actions, total


def test_every_method_is_asked() -> None:
    assert sorted(SHORT) == sorted(EPISODIC + STEPWISE)


@pytest.mark.parametrize("method", EPISODIC)
def test_a_reference_is_what_the_evaluation_plays(agents: dict[str, Agent], method: str) -> None:
    agent, task = agents[method], make_task(REACHER)
    starts = task.begin([SEED, SEED + 1])
    reference = agent.predict(starts.observation)
    assert isinstance(reference, Reference)
    assert reference.position.shape == (2, HORIZON, 5)
    played = task.play(reference.stacked().numpy())
    expected = agent.training.learner.evaluate([SEED, SEED + 1]).returns
    np.testing.assert_array_equal(played.reward.sum(-1), expected)
    with pytest.raises(UserError, match="one plan an episode predicts whole movements, at step 0"):
        agent.predict(starts.observation, step=1)


@pytest.mark.parametrize("method", STEPWISE)
def test_actions_are_what_the_evaluation_plays(agents: dict[str, Agent], method: str) -> None:
    agent = agents[method]
    actions, total = _actions(agent, SEED)
    assert all(action.shape == (5,) for action in actions)
    assert len({action.tobytes() for action in actions}) > 10
    assert total == pytest.approx(float(agent.training.learner.evaluate([SEED]).returns[0]), rel=1e-9)


@pytest.mark.parametrize("method", STEPWISE)
def test_a_batch_of_actions_and_their_bounds(agents: dict[str, Agent], method: str) -> None:
    agent, space = agents[method], StepEnvironment(make_task(REACHER)).action_space
    observations = make_task(REACHER).begin([1, 2, 3]).observation
    actions = np.asarray(agent.predict(observations))
    assert actions.shape == (3, 5)
    assert ((space.low <= actions) & (actions <= space.high)).all()
    np.testing.assert_allclose(actions[1], np.asarray(agent.predict(observations[1])), atol=1e-5)
    far = np.asarray(agent.predict(observations * 100.0))
    assert ((space.low <= far) & (far <= space.high)).all()


@pytest.mark.parametrize("method", [name for name in STEPWISE if name != "gtrxl"])  # whose steps come in order
def test_the_time_is_part_of_what_the_policy_is_given(agents: dict[str, Agent], method: str) -> None:
    agent, observation = agents[method], make_task(REACHER).begin([1]).observation[0]
    assert agent.config.algorithm.collect.observe_time  # type: ignore[attr-defined]
    early = np.asarray(agent.predict(observation))
    assert not np.array_equal(early, np.asarray(agent.predict(observation, step=40)))


def test_a_memory_is_kept_in_order(agents: dict[str, Agent]) -> None:
    agent, observation = agents["gtrxl"], make_task(REACHER).begin([1]).observation[0]
    first = [np.asarray(agent.predict(observation, step=step)) for step in (0, 1, 2)]
    again = [np.asarray(agent.predict(observation, step=step)) for step in (0, 1, 2)]
    np.testing.assert_array_equal(first, again)  # step 0 forgets
    sentence = "in order from 0, with nothing in between; step"
    for step in (2, 4):  # the next is 3
        with pytest.raises(UserError, match=f"{sentence} {step} does not follow"):
            agent.predict(observation, step=step)
    with pytest.raises(UserError, match=sentence):  # two episodes cannot follow one
        agent.predict(np.stack([observation, observation]), step=3)
    agent.predict(observation, step=3)
    agent.evaluate(1)
    with pytest.raises(UserError, match=sentence):
        agent.predict(observation, step=4)


@pytest.mark.parametrize("method", STEPWISE)
def test_what_a_step_based_method_cannot_answer(agents: dict[str, Agent], method: str) -> None:
    agent, observation = agents[method], np.zeros(16)
    for wrong in ({"deterministic": False}, {"position": np.zeros(5)}, {"velocity": np.zeros(5)}):
        with pytest.raises(UserError, match=f"{method} predicts its mean action"):
            agent.predict(observation, **wrong)  # type: ignore[arg-type]
    for step in (-1, HORIZON):
        with pytest.raises(UserError, match=f"has steps 0 to 49, not {step}"):
            agent.predict(observation, step=step)
    with pytest.raises(UserError, match="has observations of 16 entries"):
        agent.predict(np.zeros(15))
