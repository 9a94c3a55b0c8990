"""Episodes in parts: the same numbers as whole ones, here and in workers, whatever fails on the way."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.rollout.failing_tasks import (
    BEGIN,
    CRASHES,
    EXITS,
    HANGS,
    MEASURE,
    NAN,
    PLAY,
    RAISES,
    SHAPE,
    FailingSteps,
)
from tests.rollout.toy_tasks import PointTask, ToyTask
from top_erl.errors import UserError
from top_erl.rollout.player import LocalPlayer, Player
from top_erl.rollout.pool import WorkerPool
from top_erl.tasks import EpisodeOutcomes, EpisodeStarts, make_task
from top_erl.tasks.contract import Array

HORIZON = PointTask.spec.horizon
HARMLESS = [BEGIN + RAISES, PLAY + RAISES, PLAY + NAN, PLAY + SHAPE, PLAY + EXITS, MEASURE + RAISES]


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    """Two workers that are never closed in between, whatever happens to them."""
    made = WorkerPool("tests.rollout.failing_tasks:FailingSteps", 2, timeout=1.0)
    yield made
    made.close()


def _references(count: int, shape: tuple[int, ...] = (HORIZON, 2)) -> Array:
    return np.linspace(0.1, 0.9, count * np.prod(shape)).reshape(count, *shape)


def _in_parts(player: Player, seeds: list[int], cuts: list[int]) -> tuple[list[EpisodeStarts], EpisodeOutcomes]:
    """Play references with a pause before each of some steps; what was seen there, and what happened."""
    player.begin(seeds)
    reference, seen = _references(len(seeds)), []
    for first, last in zip([0, *cuts], cuts, strict=False):
        player.advance(reference[:, first:last])
        seen.append(player.instant())
    player.play(reference[:, cuts[-1] :], [7, 8, 9])
    return seen, player.outcomes()


def _assert_as_whole(seen: list[EpisodeStarts], outcomes: EpisodeOutcomes, seeds: list[int], cuts: list[int]) -> None:
    """Those that did not fail are as if each had been played whole, without the others."""
    task = PointTask()
    for row, seed in enumerate(seeds):
        if row in outcomes.failures:
            assert f"with seed {seed}" in outcomes.failures[row].sentence
            continue
        task.begin([seed])
        alone = task.play(_references(len(seeds))[row : row + 1])
        np.testing.assert_array_equal(outcomes.observation[row], alone.observation[0])
        np.testing.assert_array_equal(outcomes.reward[row], alone.reward[0])
        assert outcomes.last is not None
        assert alone.last is not None
        np.testing.assert_array_equal(outcomes.last[row], alone.last[0])
        assert outcomes.last[row, 0] == _references(len(seeds))[row, -1, 0]  # where it was told to go at last
        assert outcomes.metrics["distance"][row] == alone.metrics["distance"][0]
        for cut, instant in zip(cuts, seen, strict=True):
            assert row not in instant.failures
            np.testing.assert_array_equal(instant.observation[row], alone.observation[0, cut])
            assert instant.position[row] == alone.observation[0, cut, 0]


def test_here_and_there_and_whole_are_the_same(pool: WorkerPool) -> None:
    seeds, cuts = [1, 2, 3, 4, 5], [2, 3, 6]
    for player in (LocalPlayer(FailingSteps()), pool):
        seen, outcomes = _in_parts(player, seeds, cuts)
        assert not outcomes.failures
        _assert_as_whole(seen, outcomes, seeds, cuts)


@pytest.mark.parametrize("cuts", [[1, 2], [3, 4, 5], [7]], ids=str)
def test_episodes_that_fail_do_not_disturb_the_others(pool: WorkerPool, cuts: list[int]) -> None:
    seeds = [1, *HARMLESS, 2, 3]
    here, there = (_in_parts(player, seeds, cuts) for player in (LocalPlayer(FailingSteps()), pool))
    for seen, outcomes in (here, there):
        assert [seeds[row] for row in outcomes.failures] == HARMLESS
        _assert_as_whole(seen, outcomes, seeds, cuts)
    assert [why.sentence for why in here[1].failures.values()] == [why.sentence for why in there[1].failures.values()]
    assert list(here[0][-1].failures) == list(there[0][-1].failures)


@pytest.mark.parametrize(
    ("seed", "cuts"),
    [(BEGIN + CRASHES, [1]), (PLAY + CRASHES, [2, 4, 6]), (PLAY + CRASHES, [1]), (PLAY + HANGS, [2, 4])],
    ids=str,
)
def test_an_episode_that_takes_its_process_with_it(pool: WorkerPool, seed: int, cuts: list[int]) -> None:
    seeds = [1, 2, 3, seed, 4]
    seen, outcomes = _in_parts(pool, seeds, cuts)
    assert list(outcomes.failures) == [3]
    _assert_as_whole(seen, outcomes, seeds, cuts)
    seen, outcomes = _in_parts(pool, [5, 6, 7], cuts)  # the pool is as good as new
    assert not outcomes.failures
    _assert_as_whole(seen, outcomes, [5, 6, 7], cuts)


def test_a_worker_that_is_killed_between_two_parts(pool: WorkerPool) -> None:
    seeds, reference = [1, 2, 3, 4], _references(4)
    pool.begin(seeds)
    pool.advance(reference[:, :3])
    seen = [pool.instant()]
    pool.crew.processes[1].kill()
    pool.crew.processes[1].join()
    pool.advance(reference[:, 3:5])
    seen.append(pool.instant())
    pool.play(reference[:, 5:])
    _assert_as_whole(seen, pool.outcomes(), seeds, [3, 5])


def test_what_was_not_asked_for_is_no_obstacle(pool: WorkerPool) -> None:
    """An update that fails leaves parts behind."""
    pool.begin([1, 2, 3])
    pool.advance(_references(3)[:, :3])
    seen, outcomes = _in_parts(pool, [4, 5], [2])
    _assert_as_whole(seen, outcomes, [4, 5], [2])


# ---------------------------------------------------------------------- the tasks


@pytest.mark.parametrize(
    "id",
    [
        "top_erl/ViaPointReacher-v0",
        "top_erl/ViaPointReacherJump-v0",
        "top_erl/HopperJumpSparse-v0",
        "top_erl/BoxPushingJumpDense-v0",
        "top_erl/BoxPushingSparse-v1",
        "metaworld/push-jump-v3",
    ],
)
def test_a_task_in_parts_is_the_task(id: str) -> None:
    """Bit for bit, rewards that are moved to events too; what is seen in between is the observation there."""
    task = make_task(id)
    spec, seeds = task.spec, [3, 1]
    starts = task.begin(seeds)
    steps = np.random.default_rng(0).normal(0.0, 0.03, (2, spec.horizon, 2 * spec.num_dof)).cumsum(1)
    steps[..., : spec.num_dof] += starts.position[:, None]
    whole = task.play(steps)
    cuts = [spec.horizon // 5, spec.horizon // 5 + 1, 3 * spec.horizon // 5]
    task.begin(seeds)
    for first, last in zip([0, *cuts], cuts, strict=False):
        now = task.advance(steps[:, first:last])
        np.testing.assert_array_equal(now.observation, whole.observation[:, last])
        assert now.position.shape == now.velocity.shape == (2, spec.num_dof)
    parts = task.play(steps[:, cuts[-1] :])
    np.testing.assert_array_equal(parts.observation, whole.observation)
    np.testing.assert_array_equal(parts.reward, whole.reward)
    assert (whole.last is None) == (spec.goal_rule is None)
    np.testing.assert_array_equal(parts.last, whole.last)  # type: ignore[arg-type]
    for name, values in whole.metrics.items():
        np.testing.assert_array_equal(parts.metrics[name], values)
    task.close()


def test_parts_that_are_none() -> None:
    task = PointTask()
    task.begin([1])
    for bad in (_references(1), np.zeros((1, 0, 2)), np.zeros(3), np.zeros((2, 1, 2))):
        with pytest.raises(UserError, match=r"needs references of shape|a part of its references"):
            task.advance(bad)
    task.advance(np.zeros((1, 3, 2)))
    with pytest.raises(UserError, match=r"needs references of shape \(1, 5, 2\)"):
        task.play(_references(1))
    assert PointTask().plays_in_parts
    assert not ToyTask().plays_in_parts
