"""The training run: advance, log, save, stop in good order."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from types import FrameType
from typing import Any

from rich.console import Console

from top_erl.algorithms.divergence import Diverged
from top_erl.config.run import RunConfig
from top_erl.config.serialize import read_yaml
from top_erl.errors import RunDiverged, RunStopped, UserError
from top_erl.experiment.best import BestSoFar
from top_erl.experiment.callbacks import BaseCallback
from top_erl.experiment.checkpoint import forget_after
from top_erl.experiment.configs import refuse_unnamed_code
from top_erl.experiment.display import Display
from top_erl.experiment.enough import SENTENCE as LEARNED
from top_erl.experiment.enough import Enough
from top_erl.experiment.folder import RunFolder
from top_erl.experiment.metrics import make_sinks
from top_erl.experiment.metrics_file import Row, Sink, read_metrics
from top_erl.experiment.standstill import SENTENCE, Standstill
from top_erl.experiment.status_file import State, StatusFile
from top_erl.experiment.training import Training
from top_erl.hardware.choice import Hardware

_LOG = logging.getLogger("top_erl")

Record = Callable[[Row], None]
"""Takes the numbers of an iteration to wherever they go."""


@dataclass(frozen=True)
class RunEnd:
    """How a run ended."""

    finished: bool
    """All iterations are done, success was enough, or a callback said so; False if it was interrupted."""
    last_row: Row
    """Numbers of the last iteration."""


def run_training(
    training: Training,
    folder: RunFolder | None = None,
    callback: BaseCallback | None = None,
    console: Console | None = None,
) -> RunEnd:
    """Train to the configured end, or until Ctrl-C or a callback stops it.

    Ctrl-C lets the iteration finish and saves; a second Ctrl-C breaks off at once. With a folder, numbers and
    checkpoints go there. Without a console nothing is shown.
    """
    callback = callback or BaseCallback()
    row: Row = {}
    if console is not None:
        for remark in training.remarks():
            console.out(remark, highlight=False)
    callback.on_training_start()
    with (
        _interruptible() as interrupt,
        _quiet_writers(),
        _recorded(training, folder, interrupt) as record,
        _display(console, training) as display,
    ):
        interrupt.say = lambda: display.finishing(training.progress.iteration + 1)
        standstill, enough = _watchers(training, folder)
        while training.progress.iteration < training.total_iterations and not interrupt.requested:
            callback.on_rollout_start()
            row = _advance(training, folder)
            callback.on_rollout_end()
            record(row)
            display.show(row)
            if standstill.begins(row):
                _LOG.warning(SENTENCE.format(task=training.config.task))
            learned = enough.reached(row)
            go_on = callback.on_step(row) and not learned
            _save_if_due(training, folder, last=interrupt.requested or not go_on)
            if learned:
                display.say(LEARNED.format(success=training.config.evaluation.stop_at_success))
            if not go_on:
                break
    callback.on_training_end()
    return RunEnd(_is_finished(training, interrupt), row)


@contextmanager
def _recorded(training: Training, folder: RunFolder | None, interrupt: _Interrupt) -> Iterator[Record]:
    """Hold a run's folder and open what its rows go to; afterwards `status.json` says how it ended."""
    if folder is None:
        yield lambda row: None
        return
    folder.hold()
    status = StatusFile(folder.path, training.total_iterations)
    state: State = "stopped"
    sentence = ""
    sinks: list[Sink] = []
    try:
        with _writing(folder):
            sinks += [*_open_sinks(training, folder), status]
        status.say("running", training.progress.iteration, training.progress.wall_time)
        best = BestSoFar(folder)

        def record(row: Row) -> None:
            with _writing(folder):
                for sink in sinks:
                    sink.write(row)
            best.take(row, training)

        yield record
        with _writing(folder):
            for sink in sinks:
                sink.close()
        state = "finished" if _is_finished(training, interrupt) else "stopped"
    except UserError as error:
        state, sentence = "failed" if isinstance(error, RunDiverged) else "stopped", str(error)
        raise
    finally:
        for sink in sinks:
            with contextlib.suppress(OSError):  # closed already, or complained about
                sink.close()
        with contextlib.suppress(RunStopped):
            status.say(state, training.progress.iteration, training.progress.wall_time, sentence)
        folder.release()


@contextmanager
def _writing(folder: RunFolder) -> Iterator[None]:
    """Say in one sentence that a run's numbers cannot be written, whoever writes them."""
    try:
        yield
    except OSError as error:
        raise RunStopped(
            f"Could not write to {folder.path}: {error}. Free some space or mend the permissions, then resume the run."
        ) from error


@contextmanager
def _quiet_writers() -> Iterator[None]:
    """Keep Python from printing what TensorBoard's thread could not write: it hands the error to us, who say so."""
    before = threading.excepthook

    def hook(raised: threading.ExceptHookArgs) -> None:
        theirs = type(raised.thread).__module__.startswith("tensorboard.")
        if not (theirs and issubclass(raised.exc_type, OSError)):
            before(raised)

    threading.excepthook = hook
    try:
        yield
    finally:
        threading.excepthook = before


def _is_finished(training: Training, interrupt: _Interrupt) -> bool:
    return not interrupt.requested or training.progress.iteration >= training.total_iterations


def resume_training(
    folder: RunFolder,
    *,
    fall_back: bool = False,
    total_env_steps: int | None = None,
    workers: int | None = None,
    threads: int | None = None,
    device: str | None = None,
    task: str | None = None,
) -> Training:
    """Rebuild a run from its folder, at its newest checkpoint; its numbers do not depend on the workers.

    A task that is code, `module:Class`, must be named by the caller (`task`) to be imported.
    """
    refuse_unnamed_code(folder.config(), task)
    if workers is not None and workers < 0:
        raise UserError("--workers must not be negative.")
    if threads is not None and threads < 1:
        raise UserError("--threads must be at least 1.")
    wanted = {"workers": workers, "threads": threads, "device": device}
    folder.hold()
    training: Training | None = None
    try:
        session = _for_this_session(folder, {name: value for name, value in wanted.items() if value is not None})
        training = Training(*session)
        _restore(folder, training, fall_back)
        _begin_session(folder, training, total_env_steps, recorded=session[1] is not None)
    except BaseException:
        if training is not None:
            training.close()
        folder.release()
        raise
    return training


def _restore(folder: RunFolder, training: Training, fall_back: bool) -> None:
    """Bring a new training to where its folder's newest checkpoint is."""
    if folder.bf16_route() not in (None, training.learner.bf16_route):
        _LOG.warning(
            "This processor multiplies in bfloat16 by another route: numbers go on in kind, not digit by digit."
        )
    checkpoint = folder.load(training.belongs_to, fall_back=fall_back)
    if checkpoint is None:
        folder.check_not_lost()
    else:
        folder.check_rows(checkpoint)
        training.restore(checkpoint)


def _begin_session(folder: RunFolder, training: Training, total_env_steps: int | None, *, recorded: bool) -> None:
    """Bring a folder to where a restored training is, perhaps with a new end."""
    if total_env_steps is not None and total_env_steps < training.progress.env_steps:
        raise UserError(f"--total-env-steps must exceed the {training.progress.env_steps:,} steps already done.")
    with _writing(folder):
        if not recorded:
            folder.write_fingerprint(training)  # so that the next session uses the same
        forget_after(folder.checkpoints, training.progress.iteration, training.belongs_to)
        config = folder.config()  # not this session's changes
        if total_env_steps is not None:
            training.extend(total_env_steps)
            config = replace(config, total_env_steps=total_env_steps)
        if config.to_dict() != read_yaml(folder.path / "config.yaml"):  # or it lacks settings that are new since then
            folder.write_config(config)


def _for_this_session(folder: RunFolder, wanted: dict[str, Any]) -> tuple[RunConfig, Hardware | None]:
    """A run's configuration and hardware, with the changes for this session."""
    config, hardware = folder.config(), folder.hardware()
    config = replace(config, hardware=replace(config.hardware, **wanted))
    known = {field.name for field in fields(Hardware)}
    own = {name: value for name, value in wanted.items() if name in known}
    return config, hardware and replace(hardware, **own)


def _open_sinks(training: Training, folder: RunFolder) -> list[Sink]:
    config = training.config
    return make_sinks(folder.path, config.log, config.to_dict(), training.columns, training.progress)


def _advance(training: Training, folder: RunFolder | None) -> Row:
    """Do one iteration; a divergence becomes a sentence, with the batch saved if there is a folder."""
    try:
        return training.advance()
    except Diverged as failure:
        iteration = training.progress.iteration + 1
        if folder is None:
            raise RunDiverged(f"Training diverged in iteration {iteration}: {failure}.") from failure
        raise folder.save_failure(iteration, failure) from failure


def _watchers(training: Training, folder: RunFolder | None) -> tuple[Standstill, Enough]:
    """What notices that the run does not get better, or is good enough; they have seen the rows of earlier sessions."""
    rows = [] if folder is None else read_metrics(folder.path / "metrics.csv")
    return Standstill(training.total_iterations, rows), Enough(training.config.evaluation.stop_at_success, rows)


def _save_if_due(training: Training, folder: RunFolder | None, *, last: bool) -> None:
    iteration = training.progress.iteration
    due = iteration % training.config.checkpoint.interval == 0 or iteration >= training.total_iterations
    if folder is not None and (due or last):
        folder.save(training)


@contextmanager
def _display(console: Console | None, training: Training) -> Iterator[Display]:
    quiet = console or Console(quiet=True)
    with Display(quiet, training.total_iterations, training.progress.iteration) as display:
        if not training.progress.iteration:
            config = training.config
            display.announce(config.hyper_parameters.prefill_episodes, config.evaluation.episodes)
        yield display


class _Interrupt:
    """Set by Ctrl-C."""

    def __init__(self) -> None:
        """Begin with nothing requested."""
        self.requested = False
        self.say: Callable[[], None] = lambda: None
        """Tells the user that the request was heard."""


@contextmanager
def _interruptible() -> Iterator[_Interrupt]:
    """Turn the first Ctrl-C (or SIGTERM) into a request; the second interrupts as usual."""
    interrupt = _Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return

    def request(signum: int, frame: FrameType | None) -> None:
        if interrupt.requested:
            raise KeyboardInterrupt
        interrupt.requested = True
        interrupt.say()

    before = {number: signal.signal(number, request) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
