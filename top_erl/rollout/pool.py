"""Playing in worker processes: a share of each batch for every worker, and what is done about those that die or hang.

Axes: `B` episodes, `n` steps of a part, `T` control steps, `D` degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from operator import itemgetter

import numpy as np

from top_erl.errors import RunStopped, UserError
from top_erl.rollout.crew import Crew, Lost
from top_erl.rollout.player import LocalPlayer, Picture, Player
from top_erl.rollout.playing import (
    failed_outcome,
    failed_start,
    film_episode,
    joined,
    joined_starts,
    startable,
    with_failed_starts,
)
from top_erl.rollout.pool_parts import SharesInParts, blame
from top_erl.rollout.worker import Batch, PlayedRows, WorkerFailure
from top_erl.tasks import EpisodeOutcomes, EpisodeStarts, Task, TaskSpec
from top_erl.tasks.catalogue import make_task
from top_erl.tasks.contract import Array


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
        self._parts: SharesInParts | None = None
        self._awaited = ""  # "advance" or "rest", if a part is being played

    @cached_property
    def _spec(self) -> TaskSpec:
        """The task's facts; asked only to describe episodes that failed."""
        return make_task(self._task_id).spec

    def begin(self, seeds: Sequence[int]) -> EpisodeStarts:
        """Start one episode per seed, or fetch the starts if these seeds were announced."""
        if not self.crew.is_there:
            self._announced, self._playing, self._parts, self._awaited = (), None, None, ""
            self.crew.start()
        if self._awaited == "advance":
            self.instant()
        if self._playing is not None or self._awaited:
            self.outcomes()  # an update failed before it asked for them
        self._parts = None
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

    def advance(self, reference: Array) -> None:
        """Hand out the next rows of the references and return at once."""
        if self._starts is None:
            raise RuntimeError("advance() without begin()")
        if self._parts is None:
            shares = self._startable_shares()
            self._parts = SharesInParts(self.crew, self._spec, self._seeds, self._starts, shares)
        self._parts.send("advance", reference)
        self._awaited = "advance"

    def instant(self) -> EpisodeStarts:
        """Wait for all workers."""
        if self._parts is None or self._awaited != "advance":
            raise RuntimeError("instant() without advance()")
        self._awaited = ""
        return self._parts.instant(self._heard(self._parts.workers), self._asked_one)

    def answered(self) -> bool:
        """Whether all workers have answered."""
        return all(self.crew.has_answer(worker) for worker in range(len(self._split(len(self._seeds)))))

    def play(self, reference: Array, next_seeds: Sequence[int] = ()) -> None:
        """Hand out the references and return at once."""
        if self.crew.board is None or self._starts is None:
            raise RuntimeError("play() without begin()")
        if len(reference) != len(self._seeds):
            raise UserError(
                f"{self._task_id} has begun {len(self._seeds)} episodes and needs a reference for each, "
                f"got {len(reference)}."
            )
        if self._parts is not None:
            self._parts.send("rest", reference)
            self._awaited = "rest"
        else:
            self._send_batch(reference)
        if next_seeds:
            self._send_begin(next_seeds)
            self._announced = tuple(next_seeds)

    def outcomes(self) -> EpisodeOutcomes:
        """Wait for all workers."""
        if self._awaited == "rest" and self._parts is not None:
            parts, self._parts, self._awaited = self._parts, None, ""
            return parts.outcomes(self._heard(parts.workers), self._asked_one)
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
        self._starts, self._announced, self._playing, self._parts, self._awaited = None, (), None, None, ""

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

    def _send_batch(self, reference: Array) -> None:
        """Hand out whole references, [B, T, 2D]."""
        assert self._starts is not None
        assert self.crew.board is not None
        rows = startable(self._starts)
        seeds = [self._seeds[row] for row in rows]
        chosen = reference[rows] if self._starts.failures else reference
        shares = self._startable_shares()
        self.crew.board.write(shares)
        for worker, share in enumerate(shares):
            self.crew.send(worker, ("play", Batch(seeds, chosen, share)))
        self._playing = Batch(seeds, chosen, range(len(rows)))

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
        return [self._checked(answer) for answer in answers]

    @staticmethod
    def _checked(answer: object) -> object:
        """An answer; a failure to give one is raised."""
        if isinstance(answer, WorkerFailure):
            raise RunStopped(answer.sentence) if answer.sentence else TaskError(answer.traceback)
        return answer

    # ------------------------------------------------------------------ episodes that were lost with their process

    def _begun_alone(self, share: range) -> EpisodeStarts:
        """Begin the episodes of a lost share one by one."""
        seeds = [self._seeds[row] for row in share]
        answers = self._asked_alone([("begin", [seed]) for seed in seeds])
        return joined_starts(
            [
                failed_start(self._spec, blame(self._spec, seed, answer))
                if isinstance(answer, Lost)
                else _as_starts(answer)
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
                played.append((row, failed_outcome(self._spec, blame(self._spec, batch.seeds[row], answer))))
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

    def _asked_one(self, worker: int, messages: Sequence[tuple[str, object]]) -> list[object]:
        """The answers of one worker to messages, one after the other; the others' episodes are not disturbed."""
        self._drop_announced()
        answers: list[object] = []
        for message in messages:
            self.crew.send(worker, message)
            answers.append(self._checked(self.crew.receive(worker)))
        return answers


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
