"""Who plays the episodes: this process, or worker processes.

Both offer the same three calls, and since an episode is a pure function of its seed and reference, both give the same
numbers: `begin(seeds)`, then `play(reference)`, then `outcomes()`. `play` returns at once when workers do the playing,
so the caller can do something else meanwhile; seeds of the next episodes may be announced so that workers reset early.
"""

from __future__ import annotations

import multiprocessing as mp
import os
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from operator import itemgetter
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from top_erl.errors import RunStopped, UserError
from top_erl.rollout.board import Board
from top_erl.rollout.playing import joined, play_episodes
from top_erl.rollout.worker import Batch, PlayedRows, WorkerFailure, work
from top_erl.tasks import EpisodeOutcomes, EpisodeStarts, Task
from top_erl.tasks.catalogue import make_task, registered
from top_erl.tasks.contract import Array

Picture = NDArray[np.uint8]
_Reply = TypeVar("_Reply", EpisodeStarts, PlayedRows)


class Player(ABC):
    """Plays batches of episodes of one task."""

    @abstractmethod
    def begin(self, seeds: Sequence[int]) -> EpisodeStarts:
        """Start one episode per seed."""

    @abstractmethod
    def play(self, reference: Array, next_seeds: Sequence[int] = ()) -> None:
        """Track the references, [B, T, 2D], in the episodes just begun; then perhaps begin the next ones."""

    @abstractmethod
    def outcomes(self) -> EpisodeOutcomes:
        """Wait for the episodes being played and return what happened."""

    @abstractmethod
    def frames(self, seed: int, reference: Array, every: int) -> list[Picture]:
        """Play one episode, reference [T, 2D]; pictures after each `every`-th step and after the last."""

    def close(self) -> None:
        """Release simulators and processes."""
        return


class LocalPlayer(Player):
    """Plays in this process: best when episodes cost next to nothing."""

    def __init__(self, task: Task) -> None:
        """Play episodes of a task that exists already."""
        self.task = task
        self._seeds: list[int] = []
        self._outcomes: EpisodeOutcomes | None = None

    def begin(self, seeds: Sequence[int]) -> EpisodeStarts:
        """Start one episode per seed."""
        self._seeds = list(seeds)
        try:
            return self.task.begin(seeds)
        except UserError:
            raise
        except Exception as error:  # as a worker's comes back: a sentence first, and where it happened
            raise TaskError(traceback.format_exc()) from error

    def play(self, reference: Array, next_seeds: Sequence[int] = ()) -> None:
        """Play now; announced seeds are of no use here."""
        self._outcomes = play_episodes(self.task, self._seeds, reference)

    def outcomes(self) -> EpisodeOutcomes:
        """Return what the last `play` produced."""
        if self._outcomes is None:
            raise RuntimeError("outcomes() without play()")
        outcomes, self._outcomes = self._outcomes, None
        return outcomes

    def frames(self, seed: int, reference: Array, every: int) -> list[Picture]:
        """Film an episode with the task."""
        return self.task.frames(seed, reference, every)

    def close(self) -> None:
        """Close the task."""
        self.task.close()


class WorkerPool(Player):
    """Plays in spawned worker processes; each gets a share of the batch in one message, and helps others when done."""

    def __init__(self, task_id: str, num_workers: int) -> None:
        """Prepare the pool; workers are spawned when the first episodes begin, and each builds its own task."""
        self._context = mp.get_context("spawn")
        self._task_id = task_id
        self.num_workers = num_workers
        self._pipes: list[Connection] = []
        self._processes: list[mp.process.BaseProcess] = []
        self._board: Board | None = None
        self._seeds: list[int] = []
        self._announced: tuple[int, ...] = ()
        self._busy = 0
        self._answered = False

    def _start(self) -> None:
        """Spawn the workers, with a board that no killed worker has held."""
        self._board = Board(self._context, self.num_workers)
        with _single_threaded_children():
            for number in range(self.num_workers):
                ours, theirs = self._context.Pipe()
                arguments = (theirs, self._task_id, registered(self._task_id), number, self._board)
                process = self._context.Process(target=work, args=arguments, daemon=True)
                process.start()
                theirs.close()
                self._pipes.append(ours)
                self._processes.append(process)

    def begin(self, seeds: Sequence[int]) -> EpisodeStarts:
        """Start one episode per seed, or fetch the starts if these seeds were announced."""
        if not self._processes:
            self._start()
        self._seeds = list(seeds)
        if self._busy:
            self.outcomes()  # an update failed before it asked for them
        announced, self._announced = self._announced, ()
        if announced != tuple(seeds):
            self._receive_all(len(self._split(len(announced))), EpisodeStarts)  # not wanted any more
            self._send_begin(seeds)
        starts = self._receive_all(len(self._split(len(seeds))), EpisodeStarts)
        return EpisodeStarts(
            np.concatenate([own.observation for own in starts]),
            np.concatenate([own.position for own in starts]),
            np.concatenate([own.velocity for own in starts]),
        )

    def play(self, reference: Array, next_seeds: Sequence[int] = ()) -> None:
        """Hand out the references and return at once."""
        if self._board is None:
            raise RuntimeError("play() without begin()")
        if len(reference) != len(self._seeds):
            raise UserError(
                f"{self._task_id} has begun {len(self._seeds)} episodes and needs a reference for each, "
                f"got {len(reference)}."
            )
        shares = self._split(len(reference))
        self._board.write(shares)
        for worker, share in enumerate(shares):
            self._send(worker, ("play", Batch(self._seeds, reference, share)))
        self._busy = len(shares)
        if next_seeds:
            self._send_begin(next_seeds)
            self._announced = tuple(next_seeds)

    def outcomes(self) -> EpisodeOutcomes:
        """Wait for all workers."""
        busy, self._busy = self._busy, 0
        if not busy:
            raise RuntimeError("outcomes() without play()")
        played = [rows for replies in self._receive_all(busy, list) for rows in replies]
        return joined([outcomes for _, outcomes in sorted(played, key=itemgetter(0))])

    def frames(self, seed: int, reference: Array, every: int) -> list[Picture]:
        """Film an episode in this process, with a task of its own: pictures are large to send."""
        task = make_task(self._task_id)
        try:
            return task.frames(seed, reference, every)
        finally:
            task.close()

    def close(self) -> None:
        """End the workers."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(timeout=2.0)
            if process.is_alive():
                process.kill()
                process.join()
        self._pipes, self._processes = [], []
        self._board, self._announced, self._busy, self._answered = None, (), 0, False

    def _split(self, count: int) -> list[range]:
        """Rows of each worker's share of `count` episodes."""
        shares = np.array_split(np.arange(count), min(self.num_workers, count)) if count else []
        return [range(int(share[0]), int(share[-1]) + 1) for share in shares]

    def _send_begin(self, seeds: Sequence[int]) -> None:
        for worker, share in enumerate(self._split(len(seeds))):
            self._send(worker, ("begin", list(seeds[share.start : share.stop])))

    def _send(self, worker: int, message: tuple[str, object]) -> None:
        try:
            self._pipes[worker].send(message)
        except (BrokenPipeError, ConnectionResetError):
            raise self._died(worker) from None

    def _receive_all(self, count: int, kind: type[_Reply]) -> list[_Reply]:
        """Hear the first `count` workers out before raising a failure, so that no answer is left for the next call."""
        replies = [self._receive(worker) for worker in range(count)]
        good: list[_Reply] = []
        for worker, reply in enumerate(replies):
            if isinstance(reply, WorkerFailure):
                raise RunStopped(reply.sentence) if reply.sentence else TaskError(reply.traceback)
            assert isinstance(reply, kind), f"worker {worker} answered out of order: {type(reply).__name__}"
            good.append(reply)
        return good

    def _receive(self, worker: int) -> object:
        try:
            reply: object = self._pipes[worker].recv()
            self._answered = True
            return reply
        except (EOFError, ConnectionResetError):
            raise self._died(worker) from None
        except KeyboardInterrupt:  # answers may be left in the pipes: the next episodes begin with new workers
            self.close()
            raise

    def _died(self, worker: int) -> RunStopped:
        """Say how a worker ended; the others end as well, so that the next episodes begin with new ones."""
        self._processes[worker].join(timeout=1.0)
        code, answered = self._processes[worker].exitcode, self._answered
        self.close()
        if not answered:
            return RunStopped(
                f"Worker process {worker} could not start (exit code {code}). Workers import the script that trains: "
                'keep its calls under if __name__ == "__main__":, or play in this process (--workers 0).'
            )
        return RunStopped(
            f"Worker process {worker} died (exit code {code}; -9 often means out of memory). "
            "Nothing saved is lost: resume the run, "
            "with fewer workers if memory is short (top-erl resume RUN --workers 1)."
        )


class TaskError(RunStopped):
    """An exception in a task, with its traceback."""

    def __init__(self, task_traceback: str) -> None:
        """Keep the traceback and put it into the message."""
        self.traceback = task_traceback
        last = task_traceback.strip().splitlines()[-1]
        super().__init__(f"The task raised an exception: {last}\n\n{task_traceback}")


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


def make_player(task: Task, task_id: str, workers: int) -> Player:
    """Make the player: this process, or a pool of workers."""
    return WorkerPool(task_id, workers) if workers else LocalPlayer(task)
