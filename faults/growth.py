"""Memory and open files of a run, over hundreds of iterations."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from faults.bench import Bench
from faults.runs import TINY, rows_written
from faults.scenario import Attempt, Lost, scenario
from faults.sessions import Session, group_members

_WARM, _END = 150, 600
"""Iterations between which nothing may grow; before, the replay fills and libraries settle."""
_MOST_MEGABYTES = 6.0


@scenario("growth.run", "memory and open files of a run stay flat over hundreds of iterations", share=1.5)
def run(bench: Bench) -> Iterator[Attempt]:
    """The training process, and its workers."""
    for kind in ("top_erl", "top_erl, two workers", "sac", "tce"):
        yield Attempt(kind, partial(_flat, bench, kind, _WARM, _END))


@scenario("growth.short", "the same over sixty iterations, with a checkpoint after each", quick=1, share=0.5)
def short(bench: Bench) -> Iterator[Attempt]:
    """TOP-ERL, with TensorBoard."""
    words = ("--checkpoint.interval=1", "--log.tensorboard")
    yield Attempt("top_erl", partial(_flat, bench, "top_erl", 30, 90, *words))


def _flat(bench: Bench, kind: str, warm: int, end: int, *words: str) -> None:
    """Compare what a run uses at two moments."""
    path = bench.room() / "run"
    steps = f"--total-env-steps={(end + 50) * 100}"
    words = ("--evaluation.interval=40", "--checkpoint.interval=10", *words, steps)
    session = bench.start("train", *TINY[kind], *words, "--run-dir", path, folder=path.parent)
    before, after = (_at(session, path, rows) for rows in (warm, end))
    session.kill()
    for number, (megabytes, files) in after.items():
        megabytes_before, files_before = before.get(number, (0.0, 0))
        who = "the run" if number == session.pid else "a worker"
        if megabytes - megabytes_before > _MOST_MEGABYTES:
            raise Lost(f"{who} grew from {megabytes_before:.0f} to {megabytes:.0f} MB in {end - warm} iterations")
        if files > files_before + 2:  # one may be open just now
            raise Lost(f"{who} has {files} open files instead of {files_before}")
    if before.keys() != after.keys():
        raise Lost(f"{len(after)} processes instead of {len(before)}")


def _at(session: Session, path: Path, rows: int) -> dict[int, tuple[float, int]]:
    """Megabytes and open files of each process when so many rows are written."""
    if not session.until(lambda: rows_written(path) >= rows, pause=0.02):
        session.succeeds()  # says why it ended
        raise Lost(f"the run ended before iteration {rows}")
    page = os.sysconf("SC_PAGE_SIZE")
    return {
        number: (
            int(Path(f"/proc/{number}/statm").read_text(encoding="utf-8").split()[1]) * page / 1e6,
            len(os.listdir(f"/proc/{number}/fd")),
        )
        for number in group_members(session.pid)
    }
