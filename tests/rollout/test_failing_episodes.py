"""Episodes that fail are left out, whatever they do and wherever they are played; the others are not touched."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from tests.rollout.failing_tasks import (
    BEGIN,
    CRASHES,
    EXITS,
    HANGS,
    HARMLESS,
    MEASURE,
    NAN,
    PLAY,
    RAISES,
    SHAPE,
    AlwaysFailingSteps,
    FailingSteps,
    FailingTask,
    WrongSpec,
)
from tests.rollout.toy_tasks import PointTask, ToyTask
from top_erl.errors import RunStopped, UserError
from top_erl.models import GaussianPolicy, PolicyConfig
from top_erl.primitives import make_primitive
from top_erl.rollout.collector import EpisodeCollector
from top_erl.rollout.player import LocalPlayer, Player
from top_erl.rollout.pool import WorkerPool
from top_erl.tasks import EpisodeOutcomes, Task

TASKS: dict[type[Task], type[Task]] = {FailingTask: ToyTask, FailingSteps: PointTask}
"""Tasks with episodes that fail, each with the same one where they do not."""
OUR_PATIENCE = 1.0


@pytest.fixture(scope="module", params=TASKS, ids=lambda task: task.__name__)
def pool(request: pytest.FixtureRequest) -> Iterator[WorkerPool]:
    """Two workers that are never closed in between, whatever happens to them."""
    made = WorkerPool(f"tests.rollout.failing_tasks:{request.param.__name__}", 2, OUR_PATIENCE)
    yield made
    made.close()


def _task(pool: WorkerPool) -> type[Task]:
    return next(task for task in TASKS if pool._task_id.endswith(task.__name__))


def _play(player: Player, seeds: list[int], task: type[Task]) -> EpisodeOutcomes:
    """Play references that depend on the row."""
    player.begin(seeds)
    shape = (len(seeds), task.spec.horizon, 2 * task.spec.num_dof)
    player.play(np.linspace(0.1, 0.9, np.prod(shape)).reshape(shape), [7, 8, 9])
    return player.outcomes()


def _assert_good_ones_are_as_ever(outcomes: EpisodeOutcomes, seeds: list[int], task: type[Task]) -> None:
    good = [row for row in range(len(seeds)) if row not in outcomes.failures]
    expected = _play(LocalPlayer(TASKS[task]()), seeds, task)
    np.testing.assert_array_equal(outcomes.observation[good], expected.observation[good])
    np.testing.assert_array_equal(outcomes.reward[good], expected.reward[good])
    if expected.last is not None and good:
        assert outcomes.last is not None
        np.testing.assert_array_equal(outcomes.last[good], expected.last[good])
    for name, values in expected.metrics.items():
        np.testing.assert_array_equal(outcomes.metrics[name][good], values[good])
    for row, failure in outcomes.failures.items():
        assert f"with seed {seeds[row]}" in failure.sentence


def test_the_same_episodes_fail_in_the_same_way_here_and_there(pool: WorkerPool) -> None:
    task = _task(pool)
    bad = [when + what for when in (BEGIN, PLAY) for what in HARMLESS]
    bad += [MEASURE + RAISES, MEASURE + NAN] if task is FailingSteps else []
    seeds = [1, 2, bad[0], 3, *bad[1:], 4, 5]
    here, there = _play(LocalPlayer(task()), seeds, task), _play(pool, seeds, task)
    assert [seeds[row] for row in here.failures] == bad
    assert {row: failure.sentence for row, failure in there.failures.items()} == {
        row: failure.sentence for row, failure in here.failures.items()
    }
    for outcomes in (here, there):
        _assert_good_ones_are_as_ever(outcomes, seeds, task)
    sentences = {seeds[row]: failure.sentence for row, failure in here.failures.items()}
    id = task.spec.id
    assert sentences[BEGIN + RAISES] == (
        f"Task {id} raised ZeroDivisionError at the start of the episode with seed {BEGIN}: the motor fell off"
    )
    assert "raised SystemExit at the start of the episode" in sentences[BEGIN + EXITS]
    assert f"{id} returned NaN in its observation at the start of the episode" in sentences[BEGIN + NAN]
    assert "its spec says" in sentences[BEGIN + SHAPE]
    assert here.failures[seeds.index(PLAY + SHAPE)].contradicts_spec
    assert "in misbehave" in there.failures[seeds.index(PLAY + RAISES)].traceback


def test_nothing_but_episodes_that_cannot_begin(pool: WorkerPool) -> None:
    task = _task(pool)
    for player in (LocalPlayer(task()), pool):
        for seeds in ([BEGIN + RAISES, BEGIN + NAN, BEGIN + EXITS], [BEGIN + RAISES]):
            outcomes = _play(player, seeds, task)
            assert list(outcomes.failures) == list(range(len(seeds)))
            assert outcomes.reward.shape == (len(seeds), task.spec.horizon)
        _assert_good_ones_are_as_ever(_play(player, [7, 8, 9], task), [7, 8, 9], task)  # as announced


def test_an_episode_that_ends_its_process(pool: WorkerPool, caplog: pytest.LogCaptureFixture) -> None:
    task = _task(pool)
    seeds = [1, 2, BEGIN + CRASHES, 3, PLAY + CRASHES, 4, 5]
    outcomes = _play(pool, seeds, task)
    assert list(outcomes.failures) == [2, 4]
    for row in (2, 4):
        assert outcomes.failures[row].sentence == (
            f"Task {task.spec.id} ended its process (exit code 7) in the episode with seed {seeds[row]}"
        )
    _assert_good_ones_are_as_ever(outcomes, seeds, task)
    assert "ended (exit code 7). A new one takes its place" in caplog.text
    _assert_good_ones_are_as_ever(_play(pool, [7, 8, 9], task), [7, 8, 9], task)


def test_an_episode_that_hangs(pool: WorkerPool) -> None:
    task = _task(pool)
    seeds = [1, (BEGIN if task is FailingTask else PLAY) + HANGS, 2, 3]
    outcomes = _play(pool, seeds, task)
    assert list(outcomes.failures) == [1]
    assert f"took more than {OUR_PATIENCE:g} s (collect.timeout) in the episode" in outcomes.failures[1].sentence
    _assert_good_ones_are_as_ever(outcomes, seeds, task)


# ---------------------------------------------------------------------- the collector


def _collector(task: Task) -> tuple[EpisodeCollector, GaussianPolicy]:
    primitive = make_primitive(task.spec.primitive, task.spec.num_dof, task.spec.dt)
    torch.manual_seed(0)
    policy = GaussianPolicy(PolicyConfig(hidden=(8,)), task.spec.observation_dim + 1, primitive.num_params)
    return EpisodeCollector(LocalPlayer(task), task.spec, primitive, seed=0), policy


def test_a_warning_names_seed_and_episode(caplog: pytest.LogCaptureFixture) -> None:
    collector, policy = _collector(FailingSteps())
    scores = collector.evaluate(policy, [1, BEGIN + RAISES, 2])
    assert (len(scores.returns), scores.failures) == (2, 1)
    assert caplog.messages == [
        "Task toy/FailingSteps raised ZeroDivisionError at the start of the episode with seed 1000: the motor fell "
        "off. Evaluation episode 1 is left out, and the run goes on."
    ]
    with pytest.raises(RunStopped, match=r"with seed 1000: the motor fell off: there is nothing to film\."):
        collector.film(policy, BEGIN + RAISES, 2)
    assert len(collector.good_starts([1, BEGIN + NAN, 2]).observation) == 2
    with pytest.raises(RunStopped, match="None of 1 episodes of toy/FailingSteps could be begun"):
        collector.good_starts([BEGIN + NAN])


def test_a_run_of_failures_only_stops_with_a_sentence(caplog: pytest.LogCaptureFixture) -> None:
    collector, policy = _collector(AlwaysFailingSteps())
    for _ in range(3):
        collector.start(policy, 5)
        collector.finish()
    assert collector.episodes_collected == len(caplog.messages) == 15
    collector.start(policy, 5)
    with pytest.raises(RunStopped, match="16 episodes in a row have failed: mend the environment, then resume"):
        collector.finish()


def test_a_task_that_contradicts_its_spec_is_told_at_once() -> None:
    collector, policy = _collector(WrongSpec())
    with pytest.raises(UserError, match=r"shape \(2,\) at the start of the episode .*; its spec says \(3,\)\.") as told:
        collector.evaluate(policy, [1, 2])
    assert not isinstance(told.value, RunStopped)
