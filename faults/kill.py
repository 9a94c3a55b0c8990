"""Runs that are killed or told to stop at random moments, and resumed to their end."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path

from faults.bench import Bench
from faults.runs import TINY, being_saved, checkpoints, must_be_the_same, rows_written
from faults.scenario import Attempt, Lost, scenario
from faults.sessions import Session

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_MOST = 5
"""Signals a run gets at most before it is left in peace."""


@scenario(
    "kill.top_erl",
    "TOP-ERL gets KILL, TERM, INT or HUP at random moments and is resumed each time: same numbers, bit by bit",
    quick=1,
    share=3.0,
    endless=True,
)
def top_erl(bench: Bench) -> Iterator[Attempt]:
    """Episodes are played in the training process."""
    return _random_moments(bench, "top_erl")


@scenario(
    "kill.top_erl_workers", "the same with two workers and overlap; no process is left over", share=3.0, endless=True
)
def top_erl_workers(bench: Bench) -> Iterator[Attempt]:
    """Two workers play while the networks are updated."""
    return _random_moments(bench, "top_erl, two workers")


@scenario("kill.tce", "the same with TCE", share=2.0, endless=True)
def tce(bench: Bench) -> Iterator[Attempt]:
    """On-policy, with and without a worker."""
    for here, there in zip(_random_moments(bench, "tce"), _random_moments(bench, "tce, a worker"), strict=True):
        yield here
        yield there


@scenario("kill.sac", "the same with SAC", share=2.0, endless=True)
def sac(bench: Bench) -> Iterator[Attempt]:
    """Step by step."""
    return _random_moments(bench, "sac")


@scenario(
    "kill.while_saving",
    "KILL while a checkpoint is being written: the one before it is whole, and the run goes on exactly",
    share=2.0,
    endless=True,
)
def while_saving(bench: Bench) -> Iterator[Attempt]:
    """The moment is seen from outside: something half written is in the folder of checkpoints."""
    for number in count():
        yield Attempt(f"try {number}", partial(_killed_while_saving, bench))


def _random_moments(bench: Bench, kind: str) -> Iterator[Attempt]:
    for number in count():
        sent = [bench.draw.choice(SIGNALS) for _ in range(bench.draw.randint(2, _MOST))]
        names = ", ".join(signal.Signals(one).name for one in sent)
        yield Attempt(f"try {number} ({names})", partial(_disturbed, bench, kind, sent))


def _disturbed(bench: Bench, kind: str, sent: list[signal.Signals]) -> None:
    """Send signals one after the other, resume after each; then the run is left to its end and compared."""
    whole, run = bench.whole(kind), bench.room() / "run"
    session = bench.start("train", *TINY[kind], "--run-dir", run, folder=run.parent)
    for number in sent:
        done = rows_written(run)
        further = done + bench.draw.choice((0, 1, 2, 4))
        session.until(partial(_has_rows, run, further))
        time.sleep(bench.draw.uniform(0.0, 0.06))
        group = number != signal.SIGKILL and bench.draw.random() < 0.5
        session.send(number, group=group)
        if session.wait() == 0:  # it was faster
            break
        run, session = _go_on(bench, kind, run)
    session.succeeds()
    must_be_the_same(run, whole)


def _has_rows(run: Path, rows: int) -> bool:
    return rows_written(run) >= rows


def _go_on(bench: Bench, kind: str, run: Path) -> tuple[Path, Session]:
    """Resume a run. One that was killed before there was anything of it begins anew, in another folder."""
    if (run / "config.yaml").exists():
        return run, bench.start("resume", run, folder=run.parent)
    if checkpoints(run):
        raise Lost("there are checkpoints, but no config.yaml")
    run = bench.room() / "run"
    return run, bench.start("train", *TINY[kind], "--run-dir", run, folder=run.parent)


def _killed_while_saving(bench: Bench) -> None:
    """Kill when something half written is seen; then look, resume and compare."""
    whole, run = bench.whole("top_erl"), bench.room() / "run"
    session = bench.start("train", *TINY["top_erl"], "--run-dir", run, folder=run.parent)
    for _ in range(3):
        done = rows_written(run) + bench.draw.randint(1, 4)
        session.until(partial(_has_rows, run, done))
        session.until(partial(being_saved, run), pause=0.0)
        session.send(signal.SIGKILL)
        if session.wait() == 0:
            break
        run, session = _go_on(bench, "top_erl", run)
    session.succeeds()
    must_be_the_same(run, whole)
