"""A sweep's folder: `sweep.yaml`, a run folder per cell, `logs/` and `failed/`. What it holds is all its state."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from top_erl.config.files import make_own_folder, refuse_link, write_whole
from top_erl.errors import FolderBusy, UserError
from top_erl.experiment.lock import FolderLock, is_locked
from top_erl.experiment.status_file import RunStatus, read_status
from top_erl.sweep.definition import FILE, Cell, Sweep, read_sweep, write_sweep

CellState = Literal["finished", "running", "begun", "failed", "missing"]
_EVALUATION = "evaluation.json"  # as in experiment/fresh.py, which brings the networks' library


@dataclass(frozen=True)
class CellReport:
    """How far a cell is."""

    cell: Cell
    state: CellState
    """`begun`: it was stopped, or its process died, and can be resumed."""
    status: RunStatus | None = None
    """What its run says of itself, if it has begun."""
    sentence: str = ""
    """Why it failed."""


class SweepFolder:
    """Reads and writes the folder of a sweep."""

    def __init__(self, path: Path, sweep: Sweep) -> None:
        """Tie a sweep to a folder; see `open_folder` and `make_folder`."""
        self.path, self.sweep = path, sweep
        self.cells = {cell.name: cell for cell in sweep.cells()}

    def run(self, cell: Cell) -> Path:
        """A cell's run folder."""
        return self.path / cell.name

    def log(self, cell: Cell) -> Path:
        """Where the words of a cell's process go."""
        return self.path / "logs" / f"{cell.name}.log"

    def look(self, cell: Cell) -> CellReport:
        """See how far a cell is, also while it is being trained by some other process."""
        locked = is_locked(self.run(cell))
        status = read_status(self.run(cell))  # after the lock, or it would be that of a run which has ended since
        if locked:
            return CellReport(cell, "running", status)
        sentence = self.failure(cell)
        if sentence is not None:
            return CellReport(cell, "failed", status, sentence)
        if not (self.run(cell) / "config.yaml").exists():
            return CellReport(cell, "missing")
        scored = not self.sweep.fresh_episodes or (self.run(cell) / _EVALUATION).exists()
        done = status is not None and status.state == "finished" and scored
        return CellReport(cell, "finished" if done else "begun", status)

    def failure(self, cell: Cell) -> str | None:
        """Why a cell failed; None if it has not."""
        return read_failure(self.path, cell.name)

    def record_failure(self, cell: Cell, sentence: str) -> None:
        """Remember why a cell failed, so that it is left alone until somebody asks for another try."""
        make_own_folder(self._failure(cell).parent)
        write_whole(self._failure(cell), json.dumps({"sentence": sentence}) + "\n")

    def forget_failure(self, cell: Cell) -> None:
        """Let a cell be tried again."""
        refuse_link(self._failure(cell).parent)
        self._failure(cell).unlink(missing_ok=True)

    def _failure(self, cell: Cell) -> Path:
        return self.path / "failed" / f"{cell.name}.json"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Start runs of this sweep from no other process of this machine meanwhile: they would share its cores."""
        refuse_link(self.path / "logs")
        try:
            lock = FolderLock(self.path / "logs" / f"on-{platform.node()}")
        except FolderBusy as error:
            raise FolderBusy(
                f"{self.path} is being run by another process of this machine already; `top-erl status {self.path}` "
                f"shows how far it is. ({error})"
            ) from None
        try:
            yield
        finally:
            lock.release()


def read_failure(sweep: Path, name: str) -> str | None:
    """Why a cell of a sweep's folder failed; None if it has not, or is tried again."""
    path = sweep / "failed" / f"{name}.json"
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["sentence"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return f"what it said cannot be read from failed/{path.name}"


def open_folder(path: Path) -> SweepFolder:
    """Open the folder of a sweep."""
    return SweepFolder(path, read_sweep(path))


def make_folder(path: Path, sweep: Sweep) -> SweepFolder:
    """Make a sweep's folder, or go on with it; a sweep that is there may grow, but not change."""
    before = read_sweep(path) if (path / FILE).exists() else None
    if before is not None:
        _check_growth(path, before, sweep)
    elif path.is_dir() and any(path.iterdir()):
        raise UserError(f"{path} holds other things than a sweep: give another --into.")
    try:
        path.mkdir(parents=True, exist_ok=True)
        make_own_folder(path / "logs")
        if before != sweep:  # others may be reading it
            write_sweep(path, sweep)
    except OSError as error:
        raise UserError(f"Cannot make the sweep's folder {path}: {error}; give another --into.") from None
    return SweepFolder(path, sweep)


def _check_growth(path: Path, before: Sweep, sweep: Sweep) -> None:
    """Refuse to change runs that a folder's sweep names already."""
    if before.fresh_episodes not in (0, sweep.fresh_episodes):
        raise UserError(
            f"{path} holds a sweep whose runs are scored on {before.fresh_episodes} fresh episodes each, not "
            f"{sweep.fresh_episodes}: leave --fresh-episodes out, or give another --into."
        )
    cells = {cell.name: cell for cell in sweep.cells()}
    for old in before.cells():
        new = cells.get(old.name)
        if new is None:
            raise UserError(
                f"{path} holds a sweep with runs that this one has not, such as {old.name}: go on with `top-erl sweep "
                f"{path}`, or give another --into."
            )
        if new != old:
            differing = sorted({key for key, _ in set(old.options.items()) ^ set(new.options.items())})
            what = ", ".join(f"--{name}" for name in differing) or "the scale"
            raise UserError(
                f"{path} holds a sweep with other settings ({what}): give another --into, or go on with the old ones "
                f"by `top-erl sweep {path}`."
            )
