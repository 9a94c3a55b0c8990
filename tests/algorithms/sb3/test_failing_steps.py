"""Step-based methods leave out episodes that fail, and go on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.algorithms.sb3.step_tasks import make_learner as _make_learner
from tests.algorithms.sb3.step_tasks import ppo_config, sac_config, with_collect
from tests.rollout.failing_tasks import (
    BEGIN,
    EXITS,
    HARMLESS,
    MEASURE,
    NAN,
    PLAY,
    RAISES,
    AlwaysFailingSteps,
    FailingSteps,
    WrongSpec,
)
from tests.rollout.toy_tasks import PointTask
from top_erl.algorithms.sb3.environments import StepVecEnv
from top_erl.algorithms.sb3.learner import StepLearner
from top_erl.algorithms.stepwise.environments import EnvironmentPool, Observer
from top_erl.errors import RunStopped, UserError
from top_erl.tasks import Task

HORIZON = PointTask.spec.horizon
COLLECT = with_collect(ppo_config(), bootstrap=False, observe_time=False).collect


def _environments(monkeypatch: pytest.MonkeyPatch, task: Task, seeds: list[int], steps: int = 99) -> StepVecEnv:
    """Two environments that play the given seeds, one after another."""
    where = "top_erl.algorithms.stepwise.environments.episode_seeds"
    monkeypatch.setattr(where, lambda seed, stream, first, count: [seeds[first]])
    made = StepVecEnv(EnvironmentPool(task).take(2), Observer(task.spec, False), replace(COLLECT, environments=2), 0)
    made.begin(0, steps)
    return made


def _step(environments: StepVecEnv, place: float) -> tuple[Any, ...]:
    environments.step_async(np.full((2, 1), place, dtype=np.float32))
    return environments.step_wait()


def test_a_step_that_fails_is_a_time_limit(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    environments = _environments(monkeypatch, FailingSteps(), [5, PLAY + RAISES, 6, 7])
    environments.reset()
    _step(environments, 0.1)
    before, *_ = _step(environments, 0.2)
    after, rewards, dones, infos = _step(environments, 0.3)
    assert dones.tolist() == [False, True]
    assert rewards[0] < 0 == rewards[1]
    assert infos[1]["TimeLimit.truncated"]  # although `bootstrap` is off: the episode did not end there
    np.testing.assert_array_equal(infos[1]["terminal_observation"], before[1])
    assert environments.episodes == [0, 2]
    np.testing.assert_array_equal(after[1, 0], 0.0)  # the next episode begins
    for _ in range(HORIZON - 3):
        _step(environments, 0.3)
    scores = environments.scores()
    assert (len(scores.returns), scores.failures) == (1, 1)
    assert caplog.messages == [
        f"Task toy/FailingSteps raised ZeroDivisionError at step 2 of the episode with seed {PLAY}: the motor fell "
        "off. Episode 1 is left out, and the run goes on."
    ]


def test_what_cannot_begin_makes_way(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = [BEGIN + what for what in HARMLESS]
    environments = _environments(monkeypatch, FailingSteps(), [5, *bad, 6, 7, 8, 9])
    environments.reset()
    assert environments.episodes == [0, 1 + len(bad)]
    assert environments.scores().failures == len(bad)


@pytest.mark.parametrize("config", [ppo_config(), sac_config()], ids=["ppo", "sac"])
def test_an_iteration_with_episodes_that_fail(monkeypatch: pytest.MonkeyPatch, config: Any) -> None:
    bad = [PLAY + EXITS, PLAY + NAN, MEASURE + RAISES, MEASURE + NAN]
    seeds = [1, bad[3], bad[0], 3, 4, bad[1], 5, bad[2], *range(10, 50)]
    where = "top_erl.algorithms.stepwise.environments.episode_seeds"
    monkeypatch.setattr(where, lambda seed, stream, first, count: [seeds[first]])
    learner: StepLearner = _make_learner(config, FailingSteps())
    first = learner.iterate(1)
    second = learner.iterate(2)
    assert first.exploration.failures + second.exploration.failures == len(bad)
    assert learner.episodes_collected > 16  # those that were cut short made way for others
    scores = learner.evaluate([1, 2, BEGIN + RAISES, 3, PLAY + RAISES, MEASURE + RAISES])
    assert (len(scores.returns), scores.failures) == (3, 3)
    good = learner.evaluate([1, 2, 3])
    np.testing.assert_allclose(scores.returns, good.returns, rtol=1e-5)
    with pytest.raises(RunStopped, match="None of the 2 episodes of toy/FailingSteps could be played to the end"):
        learner.evaluate([BEGIN + RAISES, PLAY + RAISES])
    learner.close()


def test_nothing_but_failures_stops_the_run() -> None:
    learner = _make_learner(ppo_config(), AlwaysFailingSteps())
    assert learner.iterate(1).exploration.failures == 8
    with pytest.raises(RunStopped, match="16 episodes in a row have failed: mend the environment, then resume"):
        learner.iterate(2)


def test_a_task_that_contradicts_its_spec_is_told_at_once() -> None:
    learner = _make_learner(ppo_config(), WrongSpec())
    with pytest.raises(UserError, match=r"shape \(2,\) at the start of the episode .*; its spec says \(3,\)\.") as told:
        learner.iterate(1)
    assert not isinstance(told.value, RunStopped)
