"""Who plays the episodes: this process, or worker processes.

Both offer the same calls, and since an episode is a pure function of its seed and reference, both give the same
numbers: `begin(seeds)`, then `play(reference)`, then `outcomes()`. `play` returns at once when workers do the playing,
so the caller can do something else meanwhile; seeds of the next episodes may be announced so that workers reset early.

In parts it is `begin(seeds)`, then `advance(reference)` and `instant()` as often as wanted, then `play` with the rest
of the references. `advance` returns at once, too, and `answered()` says whether `instant()` would.

Episodes that fail are named in `failures`, of the starts and of the outcomes; the others are as if they were alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from top_erl.rollout.parts import EpisodesInParts
from top_erl.rollout.playing import begin_episodes, film_episode, play_episodes, startable, with_failed_starts
from top_erl.tasks import EpisodeOutcomes, EpisodeStarts, Task
from top_erl.tasks.contract import Array

Picture = NDArray[np.uint8]


class Player(ABC):
    """Plays batches of episodes of one task."""

    @abstractmethod
    def begin(self, seeds: Sequence[int]) -> EpisodeStarts:
        """Start one episode per seed."""

    @abstractmethod
    def play(self, reference: Array, next_seeds: Sequence[int] = ()) -> None:
        """Track the references, [B, T, 2D], in the episodes just begun; then perhaps begin the next ones.

        Those that could not be begun are left out, whatever their references. After `advance` only the rows that are
        left are given.
        """

    @abstractmethod
    def advance(self, reference: Array) -> None:
        """Track the next rows of the references, [B, n, 2D], in the episodes just begun, which go on afterwards."""

    @abstractmethod
    def instant(self) -> EpisodeStarts:
        """Wait for the part being played and return the instant after it."""

    @abstractmethod
    def answered(self) -> bool:
        """Whether what is being played is done, so that asking for it takes no time."""

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
        self._starts: EpisodeStarts | None = None
        self._begun = False
        self._parts: EpisodesInParts | None = None
        self._instant: EpisodeStarts | None = None
        self._outcomes: EpisodeOutcomes | None = None

    def begin(self, seeds: Sequence[int]) -> EpisodeStarts:
        """Start one episode per seed."""
        self._seeds = list(seeds)
        self._starts, self._begun = begin_episodes(self.task, self._seeds)
        self._parts = self._instant = None
        return self._starts

    def advance(self, reference: Array) -> None:
        """Play the part now."""
        if self._starts is None:
            raise RuntimeError("advance() without begin()")
        if self._parts is None:
            self._parts = EpisodesInParts(self.task, self._seeds, waiting=self._begun, failures=self._starts.failures)
        self._instant = self._parts.advance(reference)

    def instant(self) -> EpisodeStarts:
        """Return where the last `advance` led."""
        if self._instant is None:
            raise RuntimeError("instant() without advance()")
        instant, self._instant = self._instant, None
        return instant

    def answered(self) -> bool:
        """Always: this process plays before it goes on."""
        return True

    def play(self, reference: Array, next_seeds: Sequence[int] = ()) -> None:
        """Play now; announced seeds are of no use here."""
        if self._starts is None:
            raise RuntimeError("play() without begin()")
        starts, self._starts = self._starts, None
        if self._parts is not None:
            self._outcomes, self._parts = self._parts.play(reference), None
            return
        rows = startable(starts)
        seeds = [self._seeds[row] for row in rows]
        chosen = reference[rows] if starts.failures else reference
        played = play_episodes(self.task, seeds, chosen, self._begun) if rows else None
        self._outcomes = with_failed_starts(self.task.spec, starts, played)

    def outcomes(self) -> EpisodeOutcomes:
        """Return what the last `play` produced."""
        if self._outcomes is None:
            raise RuntimeError("outcomes() without play()")
        outcomes, self._outcomes = self._outcomes, None
        return outcomes

    def frames(self, seed: int, reference: Array, every: int) -> list[Picture]:
        """Film an episode with the task."""
        return film_episode(self.task, seed, reference, every)

    def close(self) -> None:
        """Close the task."""
        self.task.close()
