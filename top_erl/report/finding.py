"""Where runs are: the cells of a sweep, a run folder, or folders below a folder. What is none is named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from top_erl.errors import UserError
from top_erl.report.reading import looks_like_run
from top_erl.sweep.definition import FILE, Cell, Sweep, read_sweep
from top_erl.sweep.folder import read_failure

_DEPTH = 4
"""Levels of folders below a given one in which runs are looked for."""
_OF_A_SWEEP = ("logs", "failed")
"""Folders of a sweep that are no cells."""


@dataclass(frozen=True)
class Found:
    """A folder that may be a run."""

    folder: Path
    cell: Cell | None = None
    """The sweep's cell that it is, if it is one."""
    reason: str = ""
    """Why it is left out; empty if nothing is known against it."""


@dataclass
class Search:
    """What a search has found so far."""

    found: list[Found]
    sweeps: list[tuple[Path, Sweep]]
    missing: list[Cell]
    """Cells of sweeps that have no folder yet."""
    seen: set[Path]
    """Folders that were looked at, so that links that lead back end somewhere."""


def find_runs(paths: list[Path]) -> Search:
    """Look for runs in folders; a path that is no folder is an error of the user's."""
    search = Search([], [], [], set())
    for path in paths:
        if not path.is_dir():
            raise UserError(f"There is no folder {path}.")
        search.found += _below(path, search, _DEPTH)
    return search


def _below(folder: Path, search: Search, depth: int) -> list[Found]:
    """Runs in a folder and below it, each once; if there are none, the folder itself with the reason."""
    real = folder.resolve()
    if real in search.seen:
        return []
    search.seen.add(real)
    reason = "it is not a run folder and holds none"
    try:
        if (folder / FILE).is_file():
            return _cells(folder, search)
        if looks_like_run(folder):
            return [Found(folder)]
        inner = _folders(folder)
    except UserError as error:
        reason, inner = f"its {FILE} cannot be used: {error}", _folders(folder)
    except OSError as error:
        return [Found(folder, reason=f"it cannot be read ({error.strerror})")]
    found = [each for path in inner for each in _below(path, search, depth - 1)] if depth else []
    if inner and depth and not found:
        return []  # all of it was found elsewhere
    sound = [each for each in found if not each.reason or each.cell]
    if sound and FILE not in reason:
        return found
    return [*(found if sound else []), Found(folder, reason=reason)]


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def _cells(folder: Path, search: Search) -> list[Found]:
    """The cells of a sweep that have begun or failed, and what else lies among them."""
    sweep = read_sweep(folder)
    search.sweeps.append((folder, sweep))
    cells = {cell.name: cell for cell in sweep.cells()}
    there = {path.name: path for path in _folders(folder) if path.name not in _OF_A_SWEEP}
    search.seen |= {path.resolve() for path in there.values()}
    found = []
    for name, cell in cells.items():
        failure = read_failure(folder, name)
        if failure is not None or name in there:
            found.append(Found(folder / name, cell, "" if failure is None else f"it failed: {failure}"))
        else:
            search.missing.append(cell)
    return [*found, *_strangers([path for name, path in there.items() if name not in cells])]


def _strangers(folders: list[Path]) -> Iterator[Found]:
    for path in folders:
        yield Found(path, reason="it is not a run of this sweep")
