"""The same seed gives the same run; stopping anywhere and going on gives the run that never stopped, bit for bit."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.torch import load_file

from tests.experiment.sessions import Session, Sessions, serve
from tests.experiment.variations import SMALL, with_collect, with_learn, with_trust_region
from top_erl.config.run import HardwareConfig, RunConfig
from top_erl.errors import UserError
from top_erl.experiment.callbacks import BaseCallback, FunctionCallback
from top_erl.experiment.folder import RunFolder
from top_erl.experiment.metrics_file import read_metrics
from top_erl.experiment.run import RunEnd, resume_training, run_training
from top_erl.experiment.training import Training
from top_erl.hardware.choice import Hardware

TIMES = {"wall_time", "steps_per_second"}


def _dropout(config: RunConfig) -> RunConfig:
    algorithm = config.algorithm
    critic = replace(algorithm.critic, dropout=0.2)
    policy = replace(algorithm.policy, contextual=True, covariance="diagonal")
    return replace(config, algorithm=replace(algorithm, critic=critic, policy=policy))


def _two_workers(config: RunConfig) -> RunConfig:
    return with_collect(replace(config, hardware=HardwareConfig(threads=1, workers=2)), overlap=True)


VARIANTS: dict[str, Callable[[RunConfig], RunConfig]] = {
    "plain": lambda config: config,
    "overlap, two workers": _two_workers,
    "behaviour anchor": lambda config: with_trust_region(config, anchor="behaviour"),
    "dropout, contextual covariance": _dropout,
    "ensemble, entropy schedule": lambda config: with_learn(
        with_trust_region(config, entropy="exponential", entropy_target=0.5), target="ensemble"
    ),
    "standardised inputs": lambda config: with_learn(config, standardize=True),
    "falling rates": lambda config: with_learn(config, final_rate=0.1),
    "two threads": lambda config: replace(config, hardware=HardwareConfig(threads=2, workers=0)),
    "bf16": lambda config: replace(config, hardware=HardwareConfig(precision="bf16", threads=1, workers=0)),
}


def _train(config: RunConfig, path: Path, callback: BaseCallback | None = None) -> RunEnd:
    """Start a run in a folder."""
    training, folder = Training(config), RunFolder(path)
    folder.create(training)
    return _go(training, folder, callback)


def _resume(path: Path, callback: BaseCallback | None = None, total_env_steps: int | None = None) -> RunEnd:
    """Go on with a run."""
    folder = RunFolder.open(path)
    return _go(resume_training(folder, total_env_steps=total_env_steps), folder, callback)


def _go(training: Training, folder: RunFolder, callback: BaseCallback | None) -> RunEnd:
    try:
        return run_training(training, folder, callback)
    finally:
        training.close()


def _numbers(path: Path) -> list[dict[str, float]]:
    rows = read_metrics(path / "metrics.csv")
    return [{name: value for name, value in row.items() if name not in TIMES} for row in rows]


def _assert_same_run(found: Path, expected: Path) -> None:
    """All numbers but the times, and everything that is saved, are the same to the last bit."""
    assert _numbers(found) == _numbers(expected)
    newest = sorted((expected / "checkpoints").iterdir())[-1].name
    assert sorted((found / "checkpoints").iterdir())[-1].name == newest
    for file in ("state.safetensors", "replay.safetensors"):
        mine, theirs = (load_file(path / "checkpoints" / newest / file) for path in (found, expected))
        assert mine.keys() == theirs.keys()
        for key, tensor in theirs.items():
            assert mine[key].numpy().tobytes() == tensor.numpy().tobytes(), key


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_same_seed_gives_the_same_run(variant: str, tiny: RunConfig, tmp_path: Path) -> None:
    config = VARIANTS[variant](tiny)
    for name in ("first", "second"):
        assert _train(config, tmp_path / name).finished
    _assert_same_run(tmp_path / "first", tmp_path / "second")
    _train(replace(config, seed=1), tmp_path / "other")
    assert _numbers(tmp_path / "other") != _numbers(tmp_path / "first")


def test_workers_and_overlap_with_one_worker_change_nothing(tiny: RunConfig, tmp_path: Path) -> None:
    _train(tiny, tmp_path / "here")
    _train(replace(tiny, hardware=HardwareConfig(threads=1, workers=2)), tmp_path / "there")
    _assert_same_run(tmp_path / "there", tmp_path / "here")
    for workers in (0, 1):
        _train(
            replace(_two_workers(tiny), hardware=HardwareConfig(threads=1, workers=workers)), tmp_path / f"{workers}"
        )
    _assert_same_run(tmp_path / "1", tmp_path / "0")


@pytest.mark.parametrize("variant", VARIANTS)
def test_stopped_after_any_iteration_and_resumed(variant: str, tiny: RunConfig, tmp_path: Path) -> None:
    config = VARIANTS[variant](tiny)
    _train(config, tmp_path / "whole")
    for stop in (1, 3, 4) if config.hardware.workers else range(1, 6):
        path = tmp_path / f"stopped_{stop}"
        _train(config, path, FunctionCallback(lambda row, stop=stop: row["iteration"] < stop))  # type: ignore[misc]
        assert len(_numbers(path)) == stop
        assert _resume(path).finished
        _assert_same_run(path, tmp_path / "whole")


def test_resumed_with_other_workers(tiny: RunConfig, tmp_path: Path) -> None:
    _train(tiny, tmp_path / "whole")
    _train(tiny, tmp_path / "run", FunctionCallback(lambda row: row["iteration"] < 2))
    folder = RunFolder.open(tmp_path / "run")
    training = resume_training(folder, workers=1)
    assert training.hardware == Hardware(1, 1)
    _go(training, folder, None)
    _assert_same_run(tmp_path / "run", tmp_path / "whole")
    (tmp_path / "run" / "fingerprint.json").unlink()  # the machine is not known any more
    training = resume_training(folder, workers=0)
    assert training.hardware.workers == 0
    training.close()
    with pytest.raises(UserError, match="--workers must not be negative"):
        resume_training(folder, workers=-1)
    training = resume_training(folder, threads=2, total_env_steps=10 * tiny.total_env_steps)
    assert training.hardware.threads == 2
    training.close()
    longer = replace(tiny, total_env_steps=10 * tiny.total_env_steps)
    assert folder.config() == longer  # two threads were for that session
    with pytest.raises(UserError, match="--threads must be at least 1"):
        resume_training(folder, threads=0)


def test_stopped_after_every_iteration_and_resumed_each_time(tiny: RunConfig, tmp_path: Path) -> None:
    _train(tiny, tmp_path / "whole")
    stop = FunctionCallback(lambda row: False)
    _train(tiny, tmp_path / "often", stop)
    for _ in range(5):
        _resume(tmp_path / "often", stop)
    _assert_same_run(tmp_path / "often", tmp_path / "whole")


def test_work_after_the_last_checkpoint_is_done_again(tiny: RunConfig, tmp_path: Path) -> None:
    """An exception is like a kill: nothing is saved. Checkpoints are made after iterations 3 and 6."""
    _train(tiny, tmp_path / "whole")
    for crash in range(1, 7):
        path = tmp_path / f"crashed_{crash}"

        def fail(row: dict[str, float], crash: int = crash) -> bool:
            if row["iteration"] == crash:
                raise InterruptedError
            return True

        with pytest.raises(InterruptedError):
            _train(tiny, path, FunctionCallback(fail))
        assert len(_numbers(path)) == crash
        _resume(path)
        _assert_same_run(path, tmp_path / "whole")


def test_an_interrupt_finishes_the_iteration_and_saves(tiny: RunConfig, tmp_path: Path) -> None:
    _train(tiny, tmp_path / "whole")
    for number in (signal.SIGINT, signal.SIGTERM):
        path = tmp_path / number.name

        class Interrupter(BaseCallback):
            """Presses Ctrl-C before the second iteration collects."""

            def _on_rollout_start(self, number: int = number) -> None:
                if self.n_calls == 1:
                    os.kill(os.getpid(), number)

        handler = signal.getsignal(number)
        end = _train(tiny, path, Interrupter())
        assert signal.getsignal(number) is handler
        assert not end.finished
        assert end.last_row["iteration"] == 2
        _resume(path)
        _assert_same_run(path, tmp_path / "whole")


def test_a_second_interrupt_breaks_off(tiny: RunConfig, tmp_path: Path) -> None:
    class Impatient(BaseCallback):
        """Presses Ctrl-C twice in the fifth iteration."""

        def _on_rollout_end(self) -> None:
            if self.n_calls == 4:
                os.kill(os.getpid(), signal.SIGINT)
                os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        _train(tiny, tmp_path / "run", Impatient())
    _train(tiny, tmp_path / "whole")
    _resume(tmp_path / "run")
    _assert_same_run(tmp_path / "run", tmp_path / "whole")


def test_an_interrupt_in_the_last_iteration_is_a_finished_run(tiny: RunConfig, tmp_path: Path) -> None:
    class Late(BaseCallback):
        """Presses Ctrl-C in the last iteration."""

        def _on_rollout_end(self) -> None:
            if self.n_calls == 5:
                os.kill(os.getpid(), signal.SIGINT)

    assert _train(tiny, tmp_path / "run", Late()).finished


def test_a_run_can_be_extended(tiny: RunConfig, tmp_path: Path) -> None:
    longer = replace(tiny, total_env_steps=6 * (4 + 9 * 3))
    _train(longer, tmp_path / "long")
    _train(tiny, tmp_path / "short")
    _resume(tmp_path / "short", total_env_steps=longer.total_env_steps)
    rows = {name: _numbers(tmp_path / name) for name in ("long", "short")}
    assert len(rows["short"]) == 9
    was_last = rows["short"][5]  # the end of a run is evaluated, so this one has more to tell
    assert {name: was_last[name] for name in rows["long"][5]} == rows["long"][5]
    assert rows["short"][6:] == rows["long"][6:]
    assert RunFolder(tmp_path / "short").config() == longer


# ---------------------------------------------------------------------- real processes, really killed


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sessions]:
    with serve(tmp_path_factory.mktemp("sessions")) as served:
        yield served


TASK = next(word for word in SMALL if word.startswith("--task"))  # code must be named to be resumed
STEPS = f"--total-env-steps={6 * (4 + 30 * 3)}"  # 30 iterations


@pytest.fixture(scope="module")
def whole(sessions: Sessions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was never stopped."""
    path = tmp_path_factory.mktemp("whole") / "run"
    sessions.run("train", *SMALL, STEPS, "--run-dir", path)
    return path


@pytest.mark.parametrize(
    "more",
    [[], ["--workers=2", "--collect.overlap"]],
    ids=["in this process", "two workers, overlap"],
)
def test_killed_at_random_moments_and_resumed(sessions: Sessions, whole: Path, tmp_path: Path, more: list[str]) -> None:
    options = [*SMALL, *more, STEPS]
    run = tmp_path / "run"
    if more:
        whole = tmp_path / "whole"
        sessions.run("train", *options, "--run-dir", whole)
    draw = random.Random(0)
    killed_at: list[int] = []
    session = sessions.start("train", *options, "--run-dir", run)
    for further in (2, 5, 0, 4):  # iterations until the kill; 0: while it starts
        _wait_for(session, run, (killed_at or [0])[-1] // 3 * 3 + further)
        time.sleep(draw.uniform(0.0, 0.03))
        session.send(signal.SIGKILL)
        if session.wait() == 0:  # it was faster
            break
        killed_at.append(len(_numbers(run)))
        session = sessions.start("resume", run, TASK)
    assert session.wait() == 0, session.output
    assert len(killed_at) >= 2
    _assert_same_run(run, whole)


def _wait_for(session: Session, path: Path, rows: int) -> None:
    """Wait until a session has written so many rows."""
    deadline = time.monotonic() + 30
    while not (path / "metrics.csv").exists() or len(_numbers(path)) < rows:
        assert time.monotonic() < deadline, session.output
        time.sleep(0.002)


def test_ctrl_c_saves_and_says_how_to_go_on(sessions: Sessions, whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "my run"
    session = sessions.start("train", *SMALL, STEPS, "--run-dir", run)
    _wait_for(session, run, 2)
    session.send(signal.SIGINT)
    assert session.wait() == 130
    done = len(_numbers(run))
    assert f"Stopped after iteration {done} and saved." in session.output
    assert f"top-erl resume '{run}' {TASK.replace('=', ' ')}" in session.output
    assert "Traceback" not in session.output
    assert sorted((run / "checkpoints").iterdir())[-1].name == f"{done:08d}"
    resumed = sessions.run("resume", run, TASK)
    assert f"going on after iteration {done} of 30" in resumed.output
    _assert_same_run(run, whole)
    assert "This run is complete; --total-env-steps trains it further." in sessions.run("resume", run, TASK).output


def test_a_second_ctrl_c_breaks_off_at_once(sessions: Sessions, tmp_path: Path) -> None:
    slow = [*SMALL, "--task=tests.rollout.toy_tasks:SlowTask", "--collect.prefill=2"]
    slow += ["--collect.episodes=1000", "--collect.capacity=1000"]  # 20 seconds an iteration
    session = sessions.start("train", *slow, "--run-dir", tmp_path / "run")
    deadline = time.monotonic() + 30
    while "iterations" not in session.output:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(0.3)
    session.send(signal.SIGINT)
    time.sleep(0.3)
    began = time.monotonic()
    session.send(signal.SIGINT)
    assert session.wait() == 130
    assert time.monotonic() - began < 5
    assert "top-erl: interrupted; what was saved before is intact" in session.output
    assert "Traceback" not in session.output
