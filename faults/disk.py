"""A disk that is full, and folders that may not be written to."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from faults.bench import NOBODY, Bench
from faults.runs import RECORD, TINY, must_be_the_same, must_be_unchanged, newest_checkpoint, record
from faults.scenario import Attempt, Lost, Skipped, scenario

_TENSORBOARD = ["--log.tensorboard"]


@scenario(
    "disk.largest_file",
    "no file may grow beyond a limit: the run stops with a sentence, and goes on exactly when the limit is gone",
    quick=1,
    share=2.0,
)
def largest_file(bench: Bench) -> Iterator[Attempt]:
    """Limits that hit the curves, a checkpoint's files, metrics, or TensorBoard's events."""
    sizes = sorted({file.stat().st_size for file in newest_checkpoint(bench.whole("top_erl")).iterdir()})
    limits = {*(size - 100 for size in sizes if size > 8000), sizes[-1] // 2, 6000, 12_000}
    for limit in sorted(limits, reverse=True):
        yield Attempt(f"{limit} bytes", partial(_limited, bench, limit, "top_erl"))
    for limit in (6000, 20_000):
        kind = "top_erl, saved at its end"  # nothing is saved before the events are too large
        yield Attempt(f"{limit} bytes, TensorBoard", partial(_limited, bench, limit, kind))


@scenario(
    "disk.full",
    "a small disk fills up: the run stops with a sentence, and goes on exactly when there is space again",
    share=2.0,
)
def full(bench: Bench) -> Iterator[Attempt]:
    """A disk in memory; the rest of it is taken by a file of somebody else's."""
    for left in (900, 700, 500, 300, 100, 20, 4):
        for words in ([], _TENSORBOARD):
            yield Attempt(f"{left} kB left {' '.join(words)}", partial(_filled, bench, left, words))


@scenario(
    "disk.read_only",
    "a run folder that may only be read: evaluate works, what would write says so in a sentence, and nothing changes",
)
def read_only(bench: Bench) -> Iterator[Attempt]:
    """As a user who does not own the folder."""
    yield Attempt("evaluate", partial(_only_read, bench, ["evaluate", "run", "--episodes=2"], works=True))
    yield Attempt("resume", partial(_only_read, bench, ["resume", "run"], works=False))
    yield Attempt("plot", partial(_only_read, bench, ["plot", "run"], works=False))
    yield Attempt("train", partial(_only_read, bench, ["train", *TINY["top_erl"], "--run-dir=run/new"], works=False))
    yield Attempt("train in runs/", partial(_only_read, bench, ["train", *TINY["top_erl"]], works=False))
    words = ["evaluate", "run", "--episodes=2", "--json=run/evaluation.json"]
    yield Attempt("evaluate --json", partial(_only_read, bench, words, works=False))


def _limited(bench: Bench, limit: int, kind: str) -> None:
    """Train with a limit on files; then without."""
    whole, run = bench.whole(kind), bench.room() / "run"
    options: list[str | Path] = [*TINY[kind], "--run-dir", run]
    session = bench.start("train", *options, folder=run.parent, largest_file=limit)
    if session.wait():  # otherwise the limit was hit by nothing that the run needs, such as its curves
        session.refuses()
    _must_go_on(bench, run, options, whole)


def _must_go_on(bench: Bench, run: Path, options: list[str | Path], whole: Path) -> None:
    """Resume, or begin if the disk had no space for a beginning; then the run is the undisturbed one."""
    words: list[str | Path] = ["resume", run] if (run / "config.yaml").exists() else ["train", *options]
    bench.start(*words, folder=run.parent).succeeds()
    must_be_the_same(run, whole)


def _filled(bench: Bench, left: int, words: list[str]) -> None:
    """Train on a disk with so many kilobytes left; then make space."""
    whole, room = bench.whole("top_erl"), bench.room()
    with _small_disk(room / "disk", kilobytes=2000) as disk:
        run, other = disk / "run", disk / "somebody_elses"
        options: list[str | Path] = [*TINY["top_erl"], *words, "--run-dir", run]
        other.write_bytes(bytes((2000 - left) * 1024))
        session = bench.start("train", *options, folder=room)
        if session.wait():
            session.refuses()
        other.unlink()
        _must_go_on(bench, run, options, whole)


@contextmanager
def _small_disk(path: Path, kilobytes: int) -> Iterator[Path]:
    """A disk in memory, which only root may make."""
    path.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "none", path], capture_output=True, text=True, check=False
    )
    if made.returncode:
        raise Skipped("a small disk needs the right to mount one")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


def _only_read(bench: Bench, words: list[str], *, works: bool) -> None:
    """Run a command as somebody who may read a run, but not write to it."""
    run = bench.half("top_erl")
    (run / ".lock").unlink(missing_ok=True)  # a copy that somebody else was given
    for path in (*run.rglob("*"), run, run.parent):
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = record(run)
    user = NOBODY if os.geteuid() == 0 else 0
    session = bench.start(*words, folder=run.parent, user=user)
    if works:
        session.succeeds()
    else:
        session.refuses()
    must_be_unchanged(before, *(run / name for name in RECORD))
    if [*run.parent.iterdir()] != [run]:
        raise Lost("something was written beside the run")
