"""`python -m top_erl.sweep FOLDER CELL`: the process of one run of a sweep, on this machine or any other."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from top_erl.errors import UserError, unknown_name
from top_erl.experiment.lock import FolderLock
from top_erl.sweep.definition import Cell
from top_erl.sweep.folder import SweepFolder, open_folder
from top_erl.tasks.catalogue import import_from_here


def main() -> int:
    """Run one cell; the exit code says how it ended."""
    parser = argparse.ArgumentParser(prog="python -m top_erl.sweep")
    parser.add_argument("folder", type=Path, help="the sweep's folder")
    parser.add_argument("cell", help="name of the run inside it")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch")
    parser.add_argument("--import", dest="modules", action="append", default=[], help="a module to import first")
    gone = "save and stop when this process, the one that started it, has gone"
    parser.add_argument("--stop-with-parent", type=int, metavar="PID", help=gone)
    options = parser.parse_args()
    if options.stop_with_parent is not None:
        threading.Thread(target=_stop_with_parent, args=(options.stop_with_parent,), daemon=True).start()
    try:
        folder = open_folder(options.folder)
        if options.cell not in folder.cells:
            raise unknown_name("cell", options.cell, folder.cells)
        return _run(folder, folder.cells[options.cell], options.threads, options.modules)
    except UserError as error:
        print(f"top-erl: {error}", file=sys.stderr)
        return error.exit_code


def _import(folder: SweepFolder, cell: Cell, modules: Sequence[str]) -> None:
    """Import modules of the user's; what is wrong with them is why the run failed."""
    for name in modules:
        try:
            import_from_here(name)
        except Exception as error:  # noqa: PERF203 - one or two modules; any error of theirs
            sentence = f"Cannot import {name} in {os.getcwd()}: {type(error).__name__}: {error}."
            folder.record_failure(cell, sentence)
            raise UserError(sentence) from error


def _run(folder: SweepFolder, cell: Cell, threads: int, modules: Sequence[str]) -> int:
    """Run a cell, unless it is finished or somebody else is at it."""
    if folder.look(cell).state == "finished":
        return 0
    lock = FolderLock(folder.run(cell))  # before what takes seconds to import, so that others see that it is begun
    _import(folder, cell, modules)
    from top_erl.sweep.cell import run_cell

    return run_cell(folder, cell, threads, Console(width=160), lock)


def _stop_with_parent(parent: int) -> None:
    """Ask this process to save and stop when its parent dies, since nobody would wait for it any more.

    The parent says who it is: asked for here, it may be dead already.
    """
    while os.getppid() == parent:
        time.sleep(1.0)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
