"""The notice board on which workers see what of a batch is still to be played.

Each worker has its share of a batch, whose episodes it has begun. It takes half of what is left of its share, again and
again; a worker whose share is done takes single episodes from the end of the longest share of another, so that a core
that is slower for a while does not keep the others waiting. The board also shows that workers are alive: each counts
the calls of its task, and says for how many episodes the present one is.
"""

from __future__ import annotations

from collections.abc import Sequence
from multiprocessing.context import SpawnContext

_PATIENCE = 5.0  # seconds; the board is held for microseconds, unless a worker was killed just then


class Board:
    """Which rows of the batch nobody has taken yet: one range per worker, in memory that all processes share."""

    def __init__(self, context: SpawnContext, num_workers: int) -> None:
        """Make an empty board."""
        self._lock = context.Lock()
        self._bounds = context.RawArray("q", 2 * num_workers)  # first and past-the-end row of each worker's range
        self._calls = context.RawArray("q", num_workers)
        self._episodes = context.RawArray("q", num_workers)

    def write(self, shares: Sequence[range]) -> None:
        """Announce a batch: the rows of each worker's share. Nobody may be playing."""
        for worker in range(len(self._bounds) // 2):
            share = shares[worker] if worker < len(shares) else range(0)
            self._bounds[2 * worker : 2 * worker + 2] = [share.start, share.stop]

    def take(self, worker: int) -> range:
        """Take rows to play, the worker's own ones first; an empty range when nothing is left."""
        if not self._lock.acquire(timeout=_PATIENCE):  # its holder is dead, which the parent is about to find out
            return range(0)
        try:
            left = [self._bounds[2 * i + 1] - self._bounds[2 * i] for i in range(len(self._bounds) // 2)]
            owner = worker if left[worker] else left.index(max(left))
            first, stop = self._bounds[2 * owner], self._bounds[2 * owner + 1]
            if owner == worker:
                taken = range(first, first + (stop - first + 1) // 2)
                self._bounds[2 * owner] = taken.stop
            else:
                taken = range(max(first, stop - 1), stop)
                self._bounds[2 * owner + 1] = taken.start
            return taken
        finally:
            self._lock.release()

    def mend(self) -> None:
        """Free the board if a worker that was killed held it. Nobody may be playing."""
        self._lock.acquire(block=False)
        self._lock.release()

    def note_call(self, worker: int, episodes: int) -> None:
        """Say that a worker begins or plays this many episodes from now on, in one call of its task."""
        self._episodes[worker] = episodes
        self._calls[worker] += 1

    def calls(self, worker: int) -> int:
        """How many calls a worker has noted; 0 while its process is starting."""
        return self._calls[worker]

    def episodes(self, worker: int) -> int:
        """How many episodes the present call of a worker is for."""
        return self._episodes[worker]

    def forget(self, worker: int) -> None:
        """Make a worker's place ready for a new process."""
        self._calls[worker] = self._episodes[worker] = 0
