"""One run of a sweep, in this process: trained anew if it is missing, resumed if it was begun, scored when it ends."""

from __future__ import annotations

import traceback
from dataclasses import replace

from rich.console import Console

from top_erl.config.options import with_options
from top_erl.config.run import RunConfig
from top_erl.errors import FolderBusy, UserError
from top_erl.experiment.folder import RunFolder
from top_erl.experiment.fresh import FILE, play_fresh, write_scores
from top_erl.experiment.lock import FolderLock
from top_erl.experiment.metrics import check_log
from top_erl.experiment.presets import preset
from top_erl.experiment.run import resume_training, run_training
from top_erl.experiment.training import Training
from top_erl.sweep.definition import Cell
from top_erl.sweep.folder import SweepFolder

STOPPED = 130
"""Exit code of a run that was asked to stop, and has saved itself."""


def cell_config(cell: Cell, threads: int = 1) -> RunConfig:
    """The whole configuration of a run: its preset, the sweep's options, and one process with a few threads.

    Episodes are played in the same process unless an option says otherwise: runs beside each other use the cores
    better than workers do.
    """
    config = preset(cell.method, cell.task, cell.scale, cell.seed)
    config = replace(config, hardware=replace(config.hardware, threads=threads, workers=0))
    return with_options(config, cell.options)


def run_cell(folder: SweepFolder, cell: Cell, threads: int, console: Console, lock: FolderLock | None = None) -> int:
    """Bring a cell to its end; returns an exit code. A failure is recorded in the sweep's folder.

    Args:
        folder: The sweep.
        cell: The run.
        threads: Threads of torch, if it has not begun with others.
        console: What it says goes there.
        lock: Of its run folder, if that is held already.
    """
    run = RunFolder(folder.run(cell), lock)
    folder.forget_failure(cell)
    try:
        return _run(folder, cell, run, threads, console)
    except FolderBusy:
        raise
    except UserError as error:
        folder.record_failure(cell, str(error))
        raise
    except Exception as error:
        folder.record_failure(cell, f"{type(error).__name__}: {error} (see {folder.log(cell)})")
        traceback.print_exc()
        return 1
    finally:
        run.release()


def _run(folder: SweepFolder, cell: Cell, run: RunFolder, threads: int, console: Console) -> int:
    config = cell_config(cell, threads)
    run.hold()
    if (run.path / "config.yaml").exists():
        _check_same(run, config)
        training = resume_training(run, fall_back=True, task=cell.task)
    else:
        check_log(config.log)
        training = Training(config)
        run.create(training)
    try:
        console.out(f"{run.shown}: going on after iteration {training.progress.iteration}", highlight=False)
        if not run_training(training, run, console=console).finished:
            return STOPPED
        if folder.sweep.fresh_episodes:
            run.hold()  # a run that has ended lets go of its folder
            write_scores(run.path / FILE, play_fresh(training, folder.sweep.fresh_episodes))
    finally:
        training.close()
    return 0


def _check_same(run: RunFolder, config: RunConfig) -> None:
    """Refuse a folder whose run has other settings than its cell; where and how it is computed does not matter."""
    there = run.config()
    if replace(there, hardware=config.hardware, log=config.log, checkpoint=config.checkpoint) != config:
        raise UserError(
            f"{run.shown} holds a run with other settings than the sweep gives it: move it away, and start the sweep "
            "again with --retry."
        )
