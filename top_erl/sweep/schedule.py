"""Bringing a sweep to its end: what is missing is started, what was begun goes on, what failed stops no other."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

from top_erl.errors import FolderBusy
from top_erl.sweep.definition import Cell
from top_erl.sweep.engines.interface import Ended, Engine, Job
from top_erl.sweep.folder import CellReport, SweepFolder

_MOST_LOSSES = 3
"""Times in a row that a run may be lost without having come any further."""
_WAIT = 0.5
"""Seconds to wait for a run to end before the next look around."""
_BUSY_PAUSE = 5.0
"""Seconds until a run that was in use is tried again."""
_FIRST_SILENCE, _LONGEST_SILENCE = 30.0, 600.0
"""Seconds without a line after which the running ones are told of: at first, then twice as long each time, at most."""


@dataclass
class SweepEnd:
    """How a sweep went, in numbers of runs."""

    finished: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    """Sentences of the runs that failed."""
    stopped: bool = False
    """Whether somebody asked it to stop."""


class Schedule:
    """One session of a sweep."""

    def __init__(
        self,
        folder: SweepFolder,
        engine: Engine,
        *,
        threads: int = 1,
        modules: tuple[str, ...] = (),
        retry: bool = False,
        tell: Callable[[str], None] = print,
    ) -> None:
        """Plan what is to be done.

        Args:
            folder: The sweep.
            engine: Who runs the runs.
            threads: Threads of each run.
            modules: Modules that each run imports first.
            retry: Try failed runs again.
            tell: Is given a line for every run that starts or ends, and now and then lines about those that run.
        """
        self._folder, self._engine, self._write = folder, engine, tell
        self._told, self._silence = time.monotonic(), _FIRST_SILENCE
        self._threads, self._modules = threads, modules
        self._end = SweepEnd()
        self._pending: deque[Cell] = deque()
        self._not_before: dict[str, float] = {}
        self._running: dict[str, Cell] = {}
        self._losses: Counter[str] = Counter()
        self._reached: dict[str, int] = {}
        self._heeded = 0
        self._waits = False
        for cell in folder.cells.values():
            self._plan(folder.look(cell), retry)

    def _plan(self, report: CellReport, retry: bool) -> None:
        if report.state == "finished":
            self._end.finished += 1
        elif report.state == "failed" and not retry:
            self._end.failed[report.cell.name] = report.sentence
        else:
            self._folder.forget_failure(report.cell)
            self._pending.append(report.cell)

    def run(self) -> SweepEnd:
        """Bring all runs to their ends, or to a stop when asked to by Ctrl-C; a second one kills them."""
        self._tell(f"{len(self._folder.cells)} runs: {self._end.finished} finished, {len(self._pending)} to do")
        with _counted_interrupts() as interrupts:
            while self._running or (self._pending and not self._end.stopped):
                self._heed(interrupts)
                self._start_what_fits()
                if not self._running and not self._waits and self._all_elsewhere():
                    self._waits = True
                    self._tell(f"the {len(self._pending)} runs that are left are trained by other processes: waiting")
                for ended in self._engine.ended(_WAIT):
                    self._take(ended)
                self._break_silence()
        return self._end

    def _start_what_fits(self) -> None:
        for _ in range(len(self._pending)):
            if self._end.stopped or self._engine.room() < 1:
                return
            cell = self._pending.popleft()
            if self._not_before.get(cell.name, 0.0) > time.monotonic():
                self._pending.append(cell)
                continue
            report = self._folder.look(cell)
            if report.state == "running":  # by another process, on another machine or about to stop
                self._later(cell)
            elif report.state == "failed":  # elsewhere, meanwhile
                self._fail(cell, report.sentence)
            else:
                self._start(cell)

    def _start(self, cell: Cell) -> None:
        folder, log = self._folder.path.absolute(), self._folder.log(cell).absolute()
        self._engine.start(Job(cell.name, folder, log, self._threads, self._modules))
        self._running[cell.name] = cell
        self._tell(f"started   {cell.name}")

    def _tell(self, line: str) -> None:
        self._told = time.monotonic()
        self._write(line)

    def _break_silence(self) -> None:
        """Say how far the runs are if nothing has been said for long."""
        if not self._running or time.monotonic() - self._told < self._silence:
            return
        self._silence = min(2 * self._silence, _LONGEST_SILENCE)
        for cell in self._running.values():
            self._tell(f"running   {cell.name}: {describe(self._folder.look(cell)) or 'its first iteration'}")

    def _later(self, cell: Cell) -> None:
        self._not_before[cell.name] = time.monotonic() + _BUSY_PAUSE
        self._pending.append(cell)

    def _all_elsewhere(self) -> bool:
        """Whether all that is left is being trained by others; should they be lost, it is taken over."""
        return bool(self._pending) and all(self._folder.look(cell).state == "running" for cell in self._pending)

    def _take(self, ended: Ended) -> None:
        """See how a run ended, and what follows."""
        cell = self._running.pop(ended.name)
        report = self._folder.look(cell)
        if ended.exit_code == 0:
            self._end.finished += 1
            self._say(cell, "finished", report)
        elif ended.exit_code == FolderBusy.exit_code:
            self._later(cell)
        elif report.state == "failed":
            self._fail(cell, report.sentence)
        elif self._end.stopped:
            self._say(cell, "stopped and saved" if ended.exit_code == 130 else "killed", report)
        else:
            self._lost(cell, ended, report)

    def _lost(self, cell: Cell, ended: Ended, report: CellReport) -> None:
        """A process or its machine went away: go on from the last checkpoint, unless that leads nowhere."""
        reached = report.status.iteration if report.status is not None else 0
        if reached > self._reached.get(cell.name, -1):
            self._losses[cell.name] = 0
        self._reached[cell.name] = reached
        self._losses[cell.name] += 1
        how = f"its process ended with {ended.exit_code}" if ended.exit_code is not None else "its machine was lost"
        how = f"{how}: {ended.reason}" if ended.reason else how
        if self._losses[cell.name] >= _MOST_LOSSES:
            guess = " (out of memory?)" if ended.exit_code in (None, -signal.SIGKILL) and not ended.reason else ""
            sentence = f"{how}, {_MOST_LOSSES} times in a row{guess}; see {self._folder.log(cell)}."
            sentence = sentence[0].upper() + sentence[1:]
            self._folder.record_failure(cell, sentence)
            self._fail(cell, sentence)
            return
        self._say(cell, f"lost ({how}), goes on", report)
        self._pending.append(cell)

    def _fail(self, cell: Cell, sentence: str) -> None:
        self._end.failed[cell.name] = sentence
        self._tell(f"failed    {cell.name}: {sentence}")

    def _say(self, cell: Cell, what: str, report: CellReport) -> None:
        numbers = describe(report)
        done = f"({self._end.finished} of {len(self._folder.cells)})"
        self._tell(f"{what:<9} {cell.name}{f': {numbers}' if numbers else ''} {done}")

    def _heed(self, interrupts: list[int]) -> None:
        """Ask the runs to stop if somebody pressed Ctrl-C; kill them if that was the second time."""
        while len(interrupts) > self._heeded:
            self._heeded += 1
            first = self._heeded == 1
            self._end.stopped = True
            self._tell("stopping: runs save themselves at the end of their iteration" if first else "killing the runs")
            self._engine.stop(at_once=not first)


def describe(report: CellReport) -> str:
    """How far a run is, in a few words."""
    status = report.status
    if status is None:
        return ""
    words = [f"iteration {status.iteration}/{status.total_iterations}"]
    if status.success is not None:
        words.append(f"success {status.success:.2f}")
    elif status.score is not None:
        words.append(f"return {status.score:.2f}")
    return ", ".join([*words, f"{status.seconds / 60:.1f} min"])


@contextmanager
def _counted_interrupts() -> Iterator[list[int]]:
    """Collect Ctrl-C and SIGTERM in a list instead of being interrupted by them."""
    signals: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return

    def note(number: int, frame: FrameType | None) -> None:
        signals.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
