"""The worker processes of a pool: started, written to, heard, and replaced when they die or hang.

A message gets exactly one answer, in order. If the process ends before it has given all its answers, those that are
missing are `Lost`, and a new process takes its place.
"""

from __future__ import annotations

import logging
import multiprocessing as mp
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.util import Finalize

from top_erl.errors import RunStopped
from top_erl.rollout.board import Board
from top_erl.rollout.worker import Place, work
from top_erl.tasks.catalogue import registered

_LOG = logging.getLogger("top_erl")

_TICK = 1.0  # seconds between looks at workers that are waited for
_TO_START = 300.0  # seconds that a process may take to start, at least; imports may be slow
_TO_END = 2.0  # seconds that workers get to close their simulators


@dataclass(frozen=True)
class Lost:
    """An answer that will never come."""

    reason: str
    """What became of the process, e.g. `ended its process (exit code -11)`."""


@dataclass
class _Member:
    """One worker process."""

    process: BaseProcess
    pipe: Connection
    lost: list[Lost]
    """Answers that the process before this one owed."""
    owed: int = 0
    """Answers that this process owes."""


class Crew:
    """Worker processes for one task, spawned by `start`."""

    def __init__(self, task_id: str, size: int, timeout: float) -> None:
        """Prepare; an episode that takes more than `timeout` seconds counts as hanging, 0: never."""
        self.size, self._task_id, self._timeout = size, task_id, timeout
        self._context = mp.get_context("spawn")
        self._members: list[_Member] = []
        self.board: Board | None = None
        # Called when this object is forgotten, or Python exits: before multiprocessing waits for its children, which
        # would be for ever, since they wait for messages and leave SIGTERM to us.
        self._finalize = Finalize(self, _end, args=(self._members,), exitpriority=10)

    @property
    def is_there(self) -> bool:
        """Whether the processes have been started."""
        return bool(self._members)

    @property
    def processes(self) -> list[BaseProcess]:
        """The processes, in order."""
        return [member.process for member in self._members]

    def start(self) -> Board:
        """Spawn the processes; the board they share."""
        self.board = Board(self._context, self.size)
        for number in range(self.size):
            self._members.append(self._spawned(number, self.board, []))
        return self.board

    def send(self, worker: int, message: tuple[str, object]) -> None:
        """Write to a worker; one that is dead is replaced first."""
        member = self._members[worker]
        try:
            member.pipe.send(message)
        except (BrokenPipeError, ConnectionResetError):
            self._replace(worker, self._how_it_ended(worker), f"ended{_code(member.process)}")
            member = self._members[worker]
            member.pipe.send(message)
        member.owed += 1

    def has_answer(self, worker: int) -> bool:
        """Whether a worker's next answer is there, or known to be lost."""
        member = self._members[worker]
        return bool(member.lost) or member.pipe.poll()

    def receive(self, worker: int) -> object:
        """Wait for a worker's next answer; `Lost` if it died or hung before giving it."""
        member = self._members[worker]
        if member.lost:
            return member.lost.pop(0)
        try:
            if not self._answers(worker):
                seconds = f"{self._limit(worker):g} s"
                self._replace(worker, f"took more than {seconds} (collect.timeout)", f"gave no answer for {seconds}")
                return self.receive(worker)
            answer: object = member.pipe.recv()
        except (EOFError, ConnectionResetError):
            self._replace(worker, self._how_it_ended(worker), f"ended{_code(member.process)}")
            return self.receive(worker)
        except KeyboardInterrupt:  # answers may be left in the pipes: the next episodes begin with new processes
            self.close()
            raise
        member.owed -= 1
        return answer

    def close(self) -> None:
        """End the processes."""
        _end(self._members)
        self.board = None

    def _spawned(self, number: int, board: Board, lost: list[Lost]) -> _Member:
        ours, theirs = self._context.Pipe()
        place = Place(number, board, threading.current_thread() is threading.main_thread())
        arguments = (theirs, self._task_id, registered(self._task_id), place)
        process = self._context.Process(target=work, args=arguments, daemon=True)
        with _single_threaded_children():
            process.start()
        theirs.close()
        return _Member(process, ours, lost)

    def _answers(self, worker: int) -> bool:
        """Wait until a worker has something to say; False if it is silent for too long."""
        assert self.board is not None
        pipe = self._members[worker].pipe
        silent, calls = 0.0, -1
        tick = min(_TICK, self._timeout / 4) if self._timeout else _TICK
        while not pipe.poll(tick):
            silent, calls = (silent if calls == self.board.calls(worker) else 0.0), self.board.calls(worker)
            silent += tick  # not by the clock, which goes on while all processes are suspended
            if self._timeout and silent > self._limit(worker):
                return False
        return True

    def _limit(self, worker: int) -> float:
        """Seconds that the present call of a worker may take."""
        assert self.board is not None
        if not self.board.calls(worker):
            return max(self._timeout, _TO_START)
        return self._timeout * self.board.episodes(worker)

    def _how_it_ended(self, worker: int) -> str:
        """What became of a process that does not listen any more; if it never did, the run stops."""
        assert self.board is not None
        process = self._members[worker].process
        process.join(timeout=1.0)
        if not self.board.calls(worker):
            self.close()
            raise RunStopped(
                f"Worker process {worker} could not start{_code(process)}. Workers import the script that trains: "
                'keep its calls under if __name__ == "__main__":, or play in this process (--workers 0).'
            )
        return f"ended its process{_code(process)}"

    def _replace(self, worker: int, what_it_did: str, happened: str) -> None:
        """Put a new process in the place of one that died or hangs; the answers it owed are lost."""
        assert self.board is not None
        old = self._members[worker]
        _end([old], patience=0.0)
        _LOG.warning("Worker process %d %s. A new one takes its place, and plays what was left.", worker, happened)
        self.board.forget(worker)
        self._members[worker] = self._spawned(worker, self.board, [*old.lost, *[Lost(what_it_did)] * old.owed])


def _code(process: BaseProcess) -> str:
    hint = "; -9 often means out of memory" if process.exitcode == -9 else ""
    return f" (exit code {process.exitcode}{hint})"


def _end(members: list[_Member], patience: float = _TO_END) -> None:
    """Let processes go: they notice that their pipe closes. Those that do not, for they hang, are killed."""
    for member in members:
        member.pipe.close()
    deadline = time.monotonic() + patience
    for member in members:
        member.process.join(timeout=max(0.0, deadline - time.monotonic()))
        if member.process.is_alive():
            member.process.kill()
            member.process.join()
    members.clear()


@contextmanager
def _single_threaded_children() -> Iterator[None]:
    """Let child processes start with one numerical thread each."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
