"""Who plays the episodes: this process, or worker processes.

Both offer the same three calls, and since an episode is a pure function of its seed and reference, both give the same
numbers: `begin(seeds)`, then `play(reference)`, then `outcomes()`. `play` returns at once when workers do the playing,
so the caller can do something else meanwhile; seeds of the next episodes may be announced so that workers reset early.

Episodes that fail are named in `failures`, of the starts and of the outcomes; the others are as if they were alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from top_erl.errors import RunStopped, UserError
from top_erl.rollout.crew import Crew, Lost
from top_erl.rollout.playing import (
    begin_episodes,
    failed_outcome,
    failed_start,
    film_episode,
    joined,
    joined_starts,
    play_episodes,
    startable,
    with_failed_starts,
)
from top_erl.rollout.worker import Batch, PlayedRows, WorkerFailure
from top_erl.tasks import EpisodeOutcomes, EpisodeStarts, Task, TaskSpec
from top_erl.tasks.catalogue import make_task
from top_erl.tasks.contract import Array, EpisodeFailure

Picture = NDArray[np.uint8]


class Player(ABC):
    """Plays batches of episodes of one task."""

    @abstractmethod
    def begin(self, seeds: Sequence[int]) -> EpisodeStarts:
        """Start one episode per seed."""

    @abstractmethod
    def play(self, reference: Array, next_seeds: Sequence[int] = ()) -> None:
        """Track the references, [B, T, 2D], in the episodes just begun; then perhaps begin the next ones.

        Those that could not be begun are left out, whatever their references.
        """

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
        self._outcomes: EpisodeOutcomes | None = None

    def begin(self, seeds: Sequence[int]) -> EpisodeStarts:
        """Start one episode per seed."""
        self._seeds = list(seeds)
        self._starts, self._begun = begin_episodes(self.task, self._seeds)
        return self._starts

    def play(self, reference: Array, next_seeds: Sequence[int] = ()) -> None:
        """Play now; announced seeds are of no use here."""
        if self._starts is None:
            raise RuntimeError("play() without begin()")
        starts, self._starts = self._starts, None
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


class WorkerPool(Player):
    """Plays in spawned worker processes; each gets a share of the batch in one message, and helps others when done.

    If a process dies or hangs, the episodes it had are played once more, each alone, so that the one to blame is found.
    """

    def __init__(self, task_id: str, num_workers: int, timeout: float = 0.0) -> None:
        """Prepare the pool; workers are spawned when the first episodes begin, and each builds its own task.

        Args:
            task_id: The task.
            num_workers: How many processes.
            timeout: Seconds that an episode may take before its process is killed; 0: as many as it likes.
        """
        self._task_id = task_id
        self.num_workers = num_workers
        self.crew = Crew(task_id, num_workers, timeout)
        self._seeds: list[int] = []
        self._starts: EpisodeStarts | None = None
        self._announced: tuple[int, ...] = ()
        self._playing: Batch | None = None

    @cached_property
    def _spec(self) -> TaskSpec:
        """The task's facts; asked only to describe episodes that failed."""
        return make_task(self._task_id).spec

    def begin(self, seeds: Sequence[int]) -> EpisodeStarts:
        """Start one episode per seed, or fetch the starts if these seeds were announced."""
        if not self.crew.is_there:
            self._announced, self._playing = (), None
            self.crew.start()
        if self._playing is not None:
            self.outcomes()  # an update failed before it asked for them
        self._seeds, self._starts = list(seeds), None
        if self._announced != tuple(seeds):
            self._drop_announced()
            self._send_begin(seeds)
        self._announced = ()
        shares = self._split(len(seeds))
        answers = self._heard(len(shares))
        parts = [
            self._begun_alone(share) if isinstance(answer, Lost) else _as_starts(answer)
            for share, answer in zip(shares, answers, strict=True)
        ]
        self._starts = joined_starts(parts)
        return self._starts

    def play(self, reference: Array, next_seeds: Sequence[int] = ()) -> None:
        """Hand out the references and return at once."""
        if self.crew.board is None or self._starts is None:
            raise RuntimeError("play() without begin()")
        if len(reference) != len(self._seeds):
            raise UserError(
                f"{self._task_id} has begun {len(self._seeds)} episodes and needs a reference for each, "
                f"got {len(reference)}."
            )
        rows = startable(self._starts)
        seeds = [self._seeds[row] for row in rows]
        chosen = reference[rows] if self._starts.failures else reference
        shares = self._startable_shares()
        self.crew.board.write(shares)
        for worker, share in enumerate(shares):
            self.crew.send(worker, ("play", Batch(seeds, chosen, share)))
        self._playing = Batch(seeds, chosen, range(len(rows)))
        if next_seeds:
            self._send_begin(next_seeds)
            self._announced = tuple(next_seeds)

    def outcomes(self) -> EpisodeOutcomes:
        """Wait for all workers."""
        if self._playing is None or self._starts is None or self.crew.board is None:
            raise RuntimeError("outcomes() without play()")
        batch, self._playing = self._playing, None
        played: PlayedRows = []
        for answer in self._heard(len(self._split(len(self._seeds)))):
            if not isinstance(answer, Lost):
                assert isinstance(answer, list), f"a worker answered out of order: {type(answer).__name__}"
                played += answer
        self.crew.board.mend()
        known = {first + i for first, part in played for i in range(len(part.reward))}
        played += self._played_alone(batch, [row for row in batch.share if row not in known])
        together = joined([part for _, part in sorted(played, key=itemgetter(0))]) if played else None
        if together is None or self._starts.failures:
            return with_failed_starts(self._spec, self._starts, together)
        return together

    def frames(self, seed: int, reference: Array, every: int) -> list[Picture]:
        """Film an episode in this process, with a task of its own: pictures are large to send."""
        task = make_task(self._task_id)
        try:
            return film_episode(task, seed, reference, every)
        finally:
            task.close()

    def close(self) -> None:
        """End the workers."""
        self.crew.close()
        self._starts, self._announced, self._playing = None, (), None

    # ------------------------------------------------------------------ shares

    def _split(self, count: int) -> list[range]:
        """Rows of each worker's share of `count` episodes."""
        shares = np.array_split(np.arange(count), min(self.num_workers, count)) if count else []
        return [range(int(share[0]), int(share[-1]) + 1) for share in shares]

    def _startable_shares(self) -> list[range]:
        """The same shares, counted in the episodes that could be begun; some may be empty."""
        assert self._starts is not None
        failed = np.array([row in self._starts.failures for row in range(len(self._seeds))])
        before = np.concatenate(([0], np.cumsum(~failed)))  # episodes begun before each row
        return [range(int(before[share.start]), int(before[share.stop])) for share in self._split(len(self._seeds))]

    # ------------------------------------------------------------------ messages

    def _send_begin(self, seeds: Sequence[int]) -> None:
        for worker, share in enumerate(self._split(len(seeds))):
            self.crew.send(worker, ("begin", list(seeds[share.start : share.stop])))

    def _drop_announced(self) -> None:
        """Take the starts that nobody wants any more off the pipes."""
        announced, self._announced = self._announced, ()
        self._heard(len(self._split(len(announced))))

    def _heard(self, count: int) -> list[object]:
        """Hear the first `count` workers out before raising a failure, so that no answer is left for the next call."""
        answers = [self.crew.receive(worker) for worker in range(count)]
        for answer in answers:
            if isinstance(answer, WorkerFailure):
                raise RunStopped(answer.sentence) if answer.sentence else TaskError(answer.traceback)
        return answers

    # ------------------------------------------------------------------ episodes that were lost with their process

    def _begun_alone(self, share: range) -> EpisodeStarts:
        """Begin the episodes of a lost share one by one."""
        seeds = [self._seeds[row] for row in share]
        answers = self._asked_alone([("begin", [seed]) for seed in seeds])
        return joined_starts(
            [
                failed_start(self._spec, self._blame(seed, answer)) if isinstance(answer, Lost) else _as_starts(answer)
                for seed, answer in zip(seeds, answers, strict=True)
            ]
        )

    def _played_alone(self, batch: Batch, rows: list[int]) -> PlayedRows:
        """Play lost episodes one by one."""
        if not rows:
            return []
        self._drop_announced()
        answers = self._asked_alone([("alone", (batch.seeds[row], batch.reference[row : row + 1])) for row in rows])
        played: PlayedRows = []
        for row, answer in zip(rows, answers, strict=True):
            if isinstance(answer, Lost):
                played.append((row, failed_outcome(self._spec, self._blame(batch.seeds[row], answer))))
            else:
                assert isinstance(answer, EpisodeOutcomes)
                played.append((row, answer))
        return played

    def _asked_alone(self, messages: list[tuple[str, object]]) -> list[object]:
        """The answers to messages about single episodes; a worker has one at a time, so that it is known which."""
        answers: list[object] = []
        for first in range(0, len(messages), self.num_workers):
            some = messages[first : first + self.num_workers]
            for worker, message in enumerate(some):
                self.crew.send(worker, message)
            answers += self._heard(len(some))
        return answers

    def _blame(self, seed: int, lost: Lost) -> EpisodeFailure:
        return EpisodeFailure(f"Task {self._spec.id} {lost.reason} in the episode with seed {seed}")


class TaskError(RunStopped):
    """An exception in a task, with its traceback."""

    def __init__(self, task_traceback: str) -> None:
        """Keep the traceback and put it into the message."""
        self.traceback = task_traceback
        last = task_traceback.strip().splitlines()[-1]
        super().__init__(f"The task raised an exception: {last}\n\n{task_traceback}")


def _as_starts(answer: object) -> EpisodeStarts:
    assert isinstance(answer, EpisodeStarts), f"a worker answered out of order: {type(answer).__name__}"
    return answer


def make_player(task: Task, task_id: str, workers: int, timeout: float = 0.0) -> Player:
    """Make the player: this process, or a pool of workers that kill what takes longer than `timeout` seconds."""
    return WorkerPool(task_id, workers, timeout) if workers else LocalPlayer(task)
