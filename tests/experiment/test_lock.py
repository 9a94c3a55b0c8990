"""A run's folder belongs to one process at a time, and its status file says how far it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from top_erl import TopErl
from top_erl.cli import main
from top_erl.config.run import RunConfig
from top_erl.errors import FolderBusy, RunStopped, UserError
from top_erl.experiment.folder import RunFolder
from top_erl.experiment.lock import FolderLock, is_locked
from top_erl.experiment.run import resume_training, run_training
from top_erl.experiment.status_file import StatusFile, read_status
from top_erl.experiment.training import Training

Make = Callable[[RunConfig], Training]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that holds `tmp_path / "run"`."""
    code = "import sys, pathlib, time; from top_erl.experiment.lock import FolderLock\n"
    code += "lock = FolderLock(pathlib.Path(sys.argv[1])); print('held', flush=True); time.sleep(60)"
    command = [sys.executable, "-c", code, str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


def test_the_second_process_is_told_and_a_killed_one_lets_go(
    tmp_path: Path, holder: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("top_erl.experiment.lock._PATIENCE", 0.1)
    assert is_locked(tmp_path / "run")
    with pytest.raises(FolderBusy, match=f"in use by another process \\(process {holder.pid} on "):
        FolderLock(tmp_path / "run")
    holder.kill()
    holder.wait()
    assert not is_locked(tmp_path / "run")
    FolderLock(tmp_path / "run").release()
    assert not is_locked(tmp_path / "run")
    assert not is_locked(tmp_path / "nowhere")


def test_two_trainings_do_not_share_a_folder(
    tmp_path: Path, tiny: RunConfig, trainings: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("top_erl.experiment.lock._PATIENCE", 0.1)
    folder = RunFolder(tmp_path / "run")
    training = trainings(tiny)
    folder.create(training)
    with pytest.raises(FolderBusy):
        resume_training(RunFolder(folder.path), task=tiny.task)
    run_training(training, folder)
    assert not is_locked(folder.path)
    again = resume_training(RunFolder(folder.path), task=tiny.task)
    assert again.progress == training.progress
    again.close()


def test_the_status_file_follows_a_run(tmp_path: Path, tiny: RunConfig, trainings: Make) -> None:
    folder = RunFolder(tmp_path / "run")
    training = trainings(tiny)
    folder.create(training)
    seen = []

    class Look(StatusFile):
        def say(self, *arguments: object, **more: object) -> None:
            super().say(*arguments, **more)  # type: ignore[arg-type]
            seen.append(read_status(folder.path))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("top_erl.experiment.run.StatusFile", Look)
        patch.setattr("top_erl.experiment.status_file._EVERY", 0.0)
        end = run_training(training, folder)
    states = [(each.state, each.iteration) for each in seen if each is not None]
    assert states == [("running", 0), *(("running", i) for i in range(1, 7)), ("finished", 6)]
    last = seen[-1]
    assert last is not None
    assert last.success == end.last_row.get("evaluation_success")
    assert last.score == end.last_row["evaluation_return"]
    assert last.seconds_left == 0.0


def test_a_run_that_stops_says_why(tmp_path: Path, tiny: RunConfig, trainings: Make) -> None:
    folder = RunFolder(tmp_path / "run")
    training = trainings(tiny)
    folder.create(training)

    def full() -> dict[str, float]:
        raise RunStopped("The disk is full.")

    training.advance = full  # type: ignore[method-assign]
    with pytest.raises(RunStopped):
        run_training(training, folder)
    status = read_status(folder.path)
    assert status is not None
    assert (status.state, status.sentence) == ("stopped", "The disk is full.")
    assert not is_locked(folder.path)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"state": "odd"}', json.dumps({"state": "running", "iteration": -1}), "\xff"]
)
def test_a_status_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "status.json").write_text(text, encoding="latin-1")
    assert read_status(tmp_path) is None


def test_a_link_is_no_lock(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("mine")
    (tmp_path / "run").mkdir()
    os.symlink(target, tmp_path / "run" / ".lock")
    with pytest.raises(UserError, match=r"Cannot lock .*run"):
        FolderLock(tmp_path / "run")
    assert target.read_text() == "mine"


def test_status_of_a_longer_run(tmp_path: Path, tiny: RunConfig, trainings: Make) -> None:
    """The end counts that the run has, not the one it was made with."""
    folder = RunFolder(tmp_path / "run")
    training = trainings(tiny)
    folder.create(training)
    run_training(training, folder)
    longer = resume_training(folder, task=tiny.task, total_env_steps=2 * tiny.total_env_steps)
    run_training(longer, folder)
    status = read_status(folder.path)
    assert status is not None
    assert status.total_iterations == longer.total_iterations == status.iteration > training.total_iterations
    longer.close()
    assert replace(tiny, total_env_steps=2 * tiny.total_env_steps) == folder.config()


# ---------------------------------------------------------------------- real processes at once


def test_several_processes_at_once(tmp_path: Path, tiny: RunConfig, trainings: Make) -> None:
    """New runs get folders of their own; of those that want one folder or one run, all but one are told."""
    training, run = trainings(tiny), RunFolder(tmp_path / "run")
    run.create(training)
    run_training(training, run)
    command = [sys.executable, "-m", "tests.experiment.at_once", str(tmp_path), str(run.path), tiny.task]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    got = json.loads(done.stdout)
    name = "top_erl-ViaPointReacher-v0-seed0"
    assert got["new"] == [name, *(f"{name}-{number}" for number in (2, 3, 4))]
    for which, count in (("same", 3), ("resumed", 2)):
        *told, mine = got[which]
        assert (mine, len(told)) == ("mine", count - 1)
        assert all(line.startswith("75: ") and "is in use by another process (process " in line for line in told)


def test_a_lock_that_was_removed_is_taken_anew(tmp_path: Path) -> None:
    """Who waited for a lock whose folder went away does not share the folder with whoever made it again."""
    first = FolderLock(tmp_path / "run")
    (tmp_path / "run" / ".lock").unlink()
    second = FolderLock(tmp_path / "run")  # another file
    assert is_locked(tmp_path / "run")
    assert not first._is_there(tmp_path / "run")
    assert second._is_there(tmp_path / "run")
    for lock in (first, second):
        lock.release()


def test_saving_an_agent_where_another_process_saves(
    tmp_path: Path, tiny: RunConfig, holder: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("top_erl.experiment.lock._PATIENCE", 0.1)
    agent = TopErl(config=tiny)
    with pytest.raises(FolderBusy):
        agent.save(tmp_path / "run")
    with pytest.raises(FolderBusy):
        agent.learn(10, run_dir=tmp_path / "run", progress_bar=False)
    assert {path.name for path in (tmp_path / "run").iterdir()} == {".lock"}


def test_a_training_that_cannot_be_built_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    for words in ([], ["--run-dir=made/for/it"], ["--run-dir=empty"]):
        assert main(["train", "--device=nonsense", *words]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]
