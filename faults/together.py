"""Two processes at one folder, or at the same moment."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from functools import partial
from itertools import count

from faults.bench import Bench
from faults.runs import TINY, must_be_the_same
from faults.scenario import Attempt, Lost, scenario
from faults.sessions import Session
from top_erl.experiment.lock import is_locked

_BUSY = 75


@scenario("together.no_run_dir", "two trainings begin at once without --run-dir: two folders, both runs whole")
def no_run_dir(bench: Bench) -> Iterator[Attempt]:
    """The same seed, so that both want the same name."""
    for number in range(6):
        yield Attempt(f"try {number}", partial(_two_new_runs, bench))


@scenario("together.same_run_dir", "two trainings with one --run-dir: one trains, the other is refused with a sentence")
def same_run_dir(bench: Bench) -> Iterator[Attempt]:
    """At once, or one a little later."""
    for number in range(6):
        yield Attempt(f"try {number}", partial(_one_folder, bench))


@scenario(
    "together.two_resumes",
    "two resumes of one run: one goes on exactly, the other ends with 75 and a sentence",
    quick=1,
)
def two_resumes(bench: Bench) -> Iterator[Attempt]:
    """The second comes while the first trains."""
    for number in range(6):
        yield Attempt(f"try {number}", partial(_two_resumes, bench))


@scenario(
    "together.evaluate",
    "a run is evaluated while it is resumed: both end well, and the run's numbers are the same",
    endless=True,
)
def evaluate(bench: Bench) -> Iterator[Attempt]:
    """Checkpoints come and go under the evaluation."""
    for number in count():
        yield Attempt(f"try {number}", partial(_evaluated_meanwhile, bench))


def _two_new_runs(bench: Bench) -> None:
    whole, room = bench.whole("top_erl"), bench.room()
    both = [bench.start("train", *TINY["top_erl"], folder=room) for _ in range(2)]
    for session in both:
        session.succeeds()
    runs = sorted(path for path in (room / "runs").iterdir() if path.is_dir())
    if len(runs) != 2:
        raise Lost(f"{len(runs)} folder(s) instead of two")
    for run in runs:
        must_be_the_same(run, whole)


def _one_folder(bench: Bench) -> None:
    whole, run = bench.whole("top_erl"), bench.room() / "run"
    both = []
    for _ in range(2):
        both.append(bench.start("train", *TINY["top_erl"], "--run-dir", run, folder=run.parent))
        time.sleep(bench.draw.choice((0.0, 0.0, 0.2, 0.6)))
    _one_wins(both, 2, _BUSY)
    must_be_the_same(run, whole)


def _one_wins(both: list[Session], *codes: int) -> None:
    """Demand that one of two sessions succeeds and the other is refused."""
    ends = [session.wait() for session in both]
    if ends.count(0) != 1:
        raise Lost(f"exit codes {ends} instead of one 0")
    both[1 - ends.index(0)].refuses(*codes)


def _two_resumes(bench: Bench) -> None:
    """The first is frozen while it holds the folder, so that there are two at once for as long as it takes."""
    run = bench.half("top_erl")
    first = bench.start("resume", run, folder=run.parent)
    if not first.until(lambda: is_locked(run)):
        raise Lost("a run was resumed without a lock")
    first.send(signal.SIGSTOP)
    bench.start("resume", run, folder=run.parent).refuses(_BUSY)
    first.send(signal.SIGCONT)
    first.succeeds()
    must_be_the_same(run, bench.whole("top_erl"))


def _evaluated_meanwhile(bench: Bench) -> None:
    """Evaluate again and again while the run goes on; each time it must work."""
    run = bench.half("top_erl")
    resumed = bench.start("resume", run, folder=run.parent)
    for number in range(3):
        target = run.parent / f"scores_{number}.json"
        bench.start("evaluate", run, "--episodes=2", "--json", target, folder=run.parent).succeeds()
        if len(json.loads(target.read_text(encoding="utf-8"))["return"]) != 2:
            raise Lost("evaluate has left episodes out")
    resumed.succeeds()
    must_be_the_same(run, bench.whole("top_erl"))
