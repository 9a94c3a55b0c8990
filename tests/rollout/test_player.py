"""Players: this process and worker processes play the same episodes, and a worker's trouble is told."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.rollout.toy_tasks import SPEC, FailsAtSeed13, ToyTask, UnevenTask
from top_erl.errors import RunStopped, UserError
from top_erl.rollout.player import LocalPlayer, Player
from top_erl.rollout.pool import TaskError, WorkerPool, make_player
from top_erl.tasks import EpisodeOutcomes, EpisodeStarts, make_task, register_task
from top_erl.tasks.contract import Array

REACHER = "top_erl/ViaPointReacher-v0"
TOYS = "tests.rollout.toy_tasks"
ROOT = Path(__file__).parents[2]

MakePool = Callable[[str, int], WorkerPool]


@pytest.fixture
def pool() -> Iterator[MakePool]:
    """Make pools that are closed after the test."""
    made: list[WorkerPool] = []

    def make(task_id: str, workers: int) -> WorkerPool:
        made.append(WorkerPool(task_id, workers))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_players_by_the_number_of_workers() -> None:
    assert isinstance(make_player(ToyTask(), "toy", 0), LocalPlayer)
    pool = make_player(ToyTask(), f"{TOYS}:ToyTask", 2)
    assert isinstance(pool, WorkerPool)
    assert pool.num_workers == 2
    pool.close()


def _still(starts: EpisodeStarts, horizon: int = SPEC.horizon) -> Array:
    """References that stay where the episodes start, plus a little that differs between episodes."""
    here = np.concatenate((starts.position, np.zeros_like(starts.velocity)), axis=1)
    return np.repeat(here[:, None], horizon, axis=1) + np.linspace(0, 0.3, len(here))[:, None, None]


def _play(player: Player, seeds: list[int], horizon: int, next_seeds: list[int] | None = None) -> EpisodeOutcomes:
    player.play(_still(player.begin(seeds), horizon), next_seeds or [])
    return player.outcomes()


def _assert_same(found: EpisodeOutcomes, expected: EpisodeOutcomes) -> None:
    np.testing.assert_array_equal(found.observation, expected.observation)
    np.testing.assert_array_equal(found.reward, expected.reward)
    assert found.metrics.keys() == expected.metrics.keys()
    for name, values in expected.metrics.items():
        np.testing.assert_array_equal(found.metrics[name], values)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_workers_play_the_same_episodes(pool: MakePool, workers: int) -> None:
    local, remote = LocalPlayer(make_task(REACHER)), pool(REACHER, workers)
    for count in (7, 1, 2, 4):  # uneven shares, and fewer episodes than workers
        seeds = list(range(100, 100 + count))
        here, there = local.begin(seeds), remote.begin(seeds)
        for name in ("observation", "position", "velocity"):
            np.testing.assert_array_equal(getattr(there, name), getattr(here, name))
        for player in (local, remote):
            player.play(_still(here, 50))
        _assert_same(remote.outcomes(), local.outcomes())
    local.close()


def test_announced_seeds_are_used(pool: MakePool, monkeypatch: pytest.MonkeyPatch) -> None:
    local, remote = LocalPlayer(ToyTask()), pool(f"{TOYS}:ToyTask", 2)
    _assert_same(_play(remote, [1, 2, 3], 6, [4, 5, 6]), _play(local, [1, 2, 3], 6, [4, 5, 6]))
    sent: list[object] = []
    monkeypatch.setattr(remote, "_send_begin", sent.append)
    starts = remote.begin([4, 5, 6])
    assert not sent  # the workers had begun already
    np.testing.assert_array_equal(starts.observation, local.begin([4, 5, 6]).observation)


def test_announced_seeds_are_forgotten_when_others_come_first(pool: MakePool) -> None:
    local, remote = LocalPlayer(ToyTask()), pool(f"{TOYS}:ToyTask", 3)
    _play(remote, [1, 2, 3], 6, [4, 5, 6])
    for seeds in ([70, 71, 72, 73, 74], [80], [4, 5, 6]):  # an evaluation in two chunks, then the announced ones
        _assert_same(_play(remote, seeds, 6), _play(local, seeds, 6))


def test_announced_while_the_next_batch_has_another_size(pool: MakePool) -> None:
    local, remote = LocalPlayer(ToyTask()), pool(f"{TOYS}:ToyTask", 3)
    _play(remote, [1], 6, [2, 3, 4, 5])
    _assert_same(_play(remote, [2], 6), _play(local, [2], 6))
    _assert_same(_play(remote, [2, 3, 4, 5], 6), _play(local, [2, 3, 4, 5], 6))


@pytest.mark.parametrize("make", [lambda: LocalPlayer(ToyTask()), lambda: WorkerPool(f"{TOYS}:ToyTask", 1)])
def test_outcomes_need_play(make: Callable[[], Player]) -> None:
    player = make()
    player.begin([1])
    with pytest.raises(RuntimeError, match="without play"):
        player.outcomes()
    player.close()


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
def test_an_exception_in_an_episode_leaves_the_others_alone(pool: MakePool, workers: int) -> None:
    failing = pool(f"{TOYS}:FailsAtSeed13", workers) if workers else LocalPlayer(FailsAtSeed13())
    outcomes = _play(failing, [4, 31, 6], 6, [7, 8])
    assert list(outcomes.failures) == [1]
    assert outcomes.failures[1].sentence.endswith("raised LookupError in the episode with seed 31: the tool is lost")
    assert "in play" in outcomes.failures[1].traceback
    good = _play(LocalPlayer(ToyTask()), [4, 5, 6], 6)
    np.testing.assert_array_equal(outcomes.reward[[0, 2]], good.reward[[0, 2]])
    np.testing.assert_array_equal(outcomes.observation[[0, 2]], good.observation[[0, 2]])
    _assert_same(_play(failing, [7, 8], 6), _play(LocalPlayer(ToyTask()), [7, 8], 6))


@pytest.mark.parametrize("bad", [[77, 2, 3], [1, 2, 77]])
def test_a_pool_is_of_use_after_a_complaint(pool: MakePool, bad: list[int]) -> None:
    """Answers that nobody fetched must not be taken for those of the next episodes."""
    local, remote = LocalPlayer(ToyTask()), pool(f"{TOYS}:ComplainsAtSeed77", 3)
    with pytest.raises(RunStopped, match="Plug in the robot"):
        _play(remote, bad, 6, [7, 8])
    for seeds in ([7, 8], [4, 5, 6]):
        _assert_same(_play(remote, seeds, 6), _play(local, seeds, 6))


def test_a_pool_is_of_use_after_an_update_failed(pool: MakePool) -> None:
    """Episodes were being played, and the next announced, when the caller gave up."""
    local, remote = LocalPlayer(ToyTask()), pool(f"{TOYS}:ToyTask", 2)
    remote.play(_still(remote.begin([1, 2])), [3, 4])
    _assert_same(_play(remote, [5, 6, 7], 6), _play(local, [5, 6, 7], 6))


def test_a_failure_in_announced_episodes_is_told(pool: MakePool) -> None:
    player = pool(f"{TOYS}:FailsAtSeed13", 2)
    _play(player, [1, 2], 6, [13, 3])
    assert "the motor fell off" in player.begin([13, 3]).failures[0].sentence


def test_a_sentence_for_the_user_comes_back_as_it_is(pool: MakePool) -> None:
    with pytest.raises(RunStopped, match=r"^Plug in the robot\.$") as caught:
        pool(f"{TOYS}:ComplainsAtSeed77", 2).begin([1, 77])
    assert not isinstance(caught.value, TaskError)


def test_a_killed_worker_is_told_with_its_exit_code(pool: MakePool, caplog: pytest.LogCaptureFixture) -> None:
    outcomes = _play(pool(f"{TOYS}:Dies", 2), [1, 31], 6)
    assert "(exit code -9; -9 often means out of memory) in the episode with seed 31" in outcomes.failures[1].sentence
    assert list(outcomes.failures) == [1]
    assert "Worker process 1 ended (exit code -9; -9 often means out of memory). A new one" in caplog.text


def test_a_worker_killed_between_two_messages(pool: MakePool) -> None:
    """Nobody's fault: the episodes are played by the one that takes its place, announced ones as well."""
    local, remote = LocalPlayer(ToyTask()), pool(f"{TOYS}:ToyTask", 1)
    for player in (local, remote):
        starts = player.begin([1, 2])
        if player is remote:
            process = remote.crew.processes[0]
            process.kill()
            process.join()
        player.play(_still(starts), [3])
    _assert_same(remote.outcomes(), local.outcomes())
    remote.crew.processes[0].kill()
    remote.crew.processes[0].join()
    _assert_same(_play(remote, [3], 6), _play(local, [3], 6))


def test_an_unknown_task_is_told_by_the_worker(pool: MakePool) -> None:
    with pytest.raises(RunStopped, match="Unknown task 'nothing'"):
        pool("nothing", 1).begin([1])


def test_workers_are_small_and_leave_interrupts_to_the_parent(pool: MakePool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    player = pool(f"{TOYS}:Introspective", 2)
    metrics = _play(player, [1, 2], 6).metrics
    assert metrics["torch"].tolist() == [0, 0]
    assert metrics["interrupts_ignored"].tolist() == [1, 1]
    assert metrics["threads"].tolist() == [1, 1]
    assert len({os.getpid(), *metrics["pid"].tolist()}) == 3
    assert (os.environ["OMP_NUM_THREADS"], os.environ.get("MKL_NUM_THREADS")) == ("7", None)
    for pid in metrics["pid"]:
        os.kill(int(pid), signal.SIGINT)
    _play(player, [3, 4], 6)


def test_a_task_registered_at_run_time_works_in_workers(pool: MakePool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("top_erl.tasks.catalogue._TASKS", {})
    register_task("lab/Class-v0", ToyTask)
    register_task("lab/Path-v0", f"{TOYS}:ToyTask")
    expected = _play(LocalPlayer(ToyTask()), [1, 2], 6)
    for name in ("lab/Class-v0", "lab/Path-v0"):
        _assert_same(_play(pool(name, 2), [1, 2], 6), expected)


def test_closing_ends_the_workers(pool: MakePool) -> None:
    player = pool(f"{TOYS}:ToyTask", 2)
    player.begin([1, 2])
    processes = list(player.crew.processes)
    player.close()
    player.close()  # twice does no harm
    assert [process.exitcode for process in processes] == [0, 0]


def test_closing_ends_a_worker_that_does_not_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    player = WorkerPool(f"{TOYS}:ToyTask", 1)
    player.begin([1])
    process = player.crew.processes[0]
    assert process.pid is not None
    os.kill(process.pid, signal.SIGSTOP)
    monkeypatch.setattr(process, "join", lambda timeout=None, join=process.join: join(timeout and 0.1))
    monkeypatch.setattr(process, "terminate", process.kill)  # a stopped process takes no other signal
    player.close()
    assert process.exitcode == -9


def test_local_player_closes_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    task, closed = ToyTask(), []
    monkeypatch.setattr(task, "close", lambda: closed.append(True))
    LocalPlayer(task).close()
    assert closed


def test_workers_go_when_the_parent_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        textwrap.dedent(
            """
            import time
            import numpy as np
            from top_erl.rollout.pool import WorkerPool
            from tests.rollout.failing_tasks import HANGS, PLAY
            if __name__ == "__main__":
                pool = WorkerPool("tests.rollout.failing_tasks:FailingTask", 2)
                pool.begin([1, PLAY + HANGS])  # one will be idle, one in the middle of an episode
                pool.play(np.zeros((2, 6, 4)))
                time.sleep(0.5)
                print(*(process.pid for process in pool.crew.processes), flush=True)
                time.sleep(60)
            """
        )
    )
    environment = {**os.environ, "PYTHONPATH": "."}
    parent = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment)
    assert parent.stdout is not None
    children = [int(word) for word in parent.stdout.readline().split()]
    parent.stdout.close()
    assert len(children) == 2
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 10
    while any(_alive(pid) for pid in children) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(_alive(pid) for pid in children)


def test_a_script_that_closes_nothing_ends_by_itself(tmp_path: Path) -> None:
    """Workers must not keep Python from exiting: neither an idle one, nor one that hangs in an episode."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import numpy as np
            from top_erl.rollout.pool import WorkerPool
            from tests.rollout.failing_tasks import HANGS, PLAY
            if __name__ == "__main__":
                pool = WorkerPool("tests.rollout.failing_tasks:FailingTask", 2)
                pool.begin([1, PLAY + HANGS])
                pool.play(np.zeros((2, 6, 4)))
                print(*(process.pid for process in pool.crew.processes), flush=True)
            """
        )
    )
    done = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": "."},
        timeout=120,
        check=True,
    )
    children = [int(word) for word in done.stdout.split()]
    assert len(children) == 2
    assert done.stderr == ""
    assert not any(_alive(pid) for pid in children)


def test_workers_end_with_a_pool_that_is_forgotten() -> None:
    player = WorkerPool(f"{TOYS}:ToyTask", 1)
    player.begin([1])
    (process,) = player.crew.processes
    del player
    gc.collect()
    assert process.exitcode == 0


def _alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not fetched by its parent does not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_pool_can_be_used_again_after_it_was_closed(pool: MakePool) -> None:
    """As an agent does that is evaluated after `close`; announced episodes are gone with their workers."""
    remote, local = pool(f"{TOYS}:ToyTask", 2), LocalPlayer(ToyTask())
    _play(remote, [1, 2], 6, [3, 4])
    remote.close()
    _assert_same(_play(remote, [3, 4], 6), _play(local, [3, 4], 6))


def test_a_sentence_about_an_episode_names_its_seed() -> None:
    class Explodes(ToyTask):
        def play(self, reference: Array) -> EpisodeOutcomes:
            if 6 in self.seeds:
                raise RunStopped("The simulation exploded.")
            return super().play(reference)

    outcomes = _play(LocalPlayer(Explodes()), [5, 6], 6)
    assert outcomes.failures[1].sentence == "The simulation exploded, in the episode with seed 6"
    assert not outcomes.failures[1].traceback


def test_what_the_user_must_mend_is_not_a_failed_episode() -> None:
    class Unplugged(ToyTask):
        def play(self, reference: Array) -> EpisodeOutcomes:
            raise UserError("Plug in the robot.")

    with pytest.raises(UserError, match="Plug in the robot"):
        _play(LocalPlayer(Unplugged()), [5, 6], 6)


def test_a_pool_films_what_the_task_films() -> None:
    task = make_task("top_erl/ViaPointReacher-v0")
    starts = task.begin([5])
    reference = _still(starts, task.spec.horizon)[0]
    expected = task.frames(5, reference, every=20)
    found = WorkerPool("top_erl/ViaPointReacher-v0", 1).frames(5, reference, every=20)
    assert len(found) == len(expected) == 3
    assert all(np.array_equal(mine, theirs) for mine, theirs in zip(found, expected, strict=True))


def test_a_worker_that_is_done_helps_the_others(pool: MakePool) -> None:
    local, remote = LocalPlayer(UnevenTask()), pool(f"{TOYS}:UnevenTask", 2)
    seeds = [*range(50, 58), *range(150, 158)]  # the first worker's episodes take 80 ms each, the second's none
    reference = np.random.default_rng(0).normal(size=(16, 8, 2))
    for player in (local, remote):
        for _ in range(2):  # announced ones as well
            player.begin(seeds)
            player.play(reference, seeds)
            outcomes = player.outcomes()
        if player is local:
            expected = outcomes
    np.testing.assert_array_equal(outcomes.observation, expected.observation)
    np.testing.assert_array_equal(outcomes.reward, expected.reward)
    np.testing.assert_array_equal(outcomes.metrics["distance"], expected.metrics["distance"])
    pids = outcomes.metrics["pid"]
    assert len(set(pids)) == 2
    assert pids[0] == pids[3] != pids[8]  # the first half of a share is taken at once
    assert pids[7] == pids[8]  # and its last episode by the one who has nothing to do


def test_a_failed_episode_of_a_part_leaves_the_others_alone(pool: MakePool) -> None:
    local, remote = LocalPlayer(UnevenTask()), pool(f"{TOYS}:UnevenTask", 2)
    seeds = [65, 66, 67, 68, 69, 70, 166, 167, 168, 169, 170, 171]
    reference = np.random.default_rng(0).normal(size=(12, 8, 2))
    outcomes = []
    for player in (local, remote):
        player.begin(seeds)
        player.play(reference)
        outcomes.append(player.outcomes())
    assert list(outcomes[0].failures) == list(outcomes[1].failures) == [1]
    assert outcomes[0].failures[1].sentence == outcomes[1].failures[1].sentence
    np.testing.assert_array_equal(outcomes[0].observation, outcomes[1].observation)
    np.testing.assert_array_equal(outcomes[0].reward, outcomes[1].reward)


def test_play_needs_begin(pool: MakePool) -> None:
    remote = pool(f"{TOYS}:ToyTask", 2)
    with pytest.raises(RuntimeError, match="without begin"):
        remote.play(np.zeros((1, 6, 4)))
    remote.begin([1])
    remote.close()
    with pytest.raises(RuntimeError, match="without begin"):
        remote.play(np.zeros((1, 6, 4)))
    _assert_same(_play(remote, [1, 2], 6), _play(LocalPlayer(ToyTask()), [1, 2], 6))


@pytest.mark.parametrize("count", [2, 5])
def test_every_episode_needs_a_reference(pool: MakePool, count: int) -> None:
    remote = pool(f"{TOYS}:PointTask", 2)
    remote.begin([21, 22, 23, 24])
    with pytest.raises(UserError, match=f"has begun 4 episodes and needs a reference for each, got {count}"):
        remote.play(np.zeros((count, 8, 2)))


def test_a_pool_is_of_use_after_an_interruption(pool: MakePool, monkeypatch: pytest.MonkeyPatch) -> None:
    remote = pool(f"{TOYS}:ToyTask", 2)
    starts = remote.begin([1, 2])
    remote.play(_still(starts, 6), [3, 4])

    def interrupt() -> object:
        raise KeyboardInterrupt

    second = remote.crew._members[1].pipe
    monkeypatch.setattr(second, "recv", interrupt)  # after the first worker's answer, before the second's
    with pytest.raises(KeyboardInterrupt):
        remote.outcomes()
    _assert_same(_play(remote, [5, 6], 6), _play(LocalPlayer(ToyTask()), [5, 6], 6))
