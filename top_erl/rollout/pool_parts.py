"""Episodes that worker processes play in parts: one message to each worker and part, for its whole share.

A worker keeps its episodes between the parts. One that dies or hangs takes its share with it: the episodes are advanced
once more from their start, each alone in the process that takes its place, so that the one to blame is found; with the
next part that process gets the way of the others so far, to make it again.

Axes: `R` episodes that could be begun, `B` all of them, `n` steps of a part, `k` steps made, `D` degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from top_erl.rollout.crew import Crew, Lost
from top_erl.rollout.playing import (
    blank_starts,
    failed_outcome,
    failed_start,
    fill_in,
    joined,
    joined_starts,
    startable,
    with_failed_starts,
)
from top_erl.rollout.worker import Part
from top_erl.tasks.contract import Array, EpisodeFailure, EpisodeOutcomes, EpisodeStarts, TaskSpec

Ask = Callable[[int, Sequence[tuple[str, object]]], list[object]]
"""Puts messages to a worker, one after the other, and returns the answers."""


class SharesInParts:
    """The episodes of a batch, in shares of the workers, on their way."""

    def __init__(
        self, crew: Crew, spec: TaskSpec, seeds: Sequence[int], starts: EpisodeStarts, shares: list[range]
    ) -> None:
        """Take over episodes that have just begun.

        Args:
            crew: The workers.
            spec: The facts about the task.
            seeds: Of all episodes.
            starts: Their starts.
            shares: Of every worker, counted in the episodes that could be begun.
        """
        self._crew, self._spec, self._starts, self._shares = crew, spec, starts, shares
        self._rows = startable(starts)
        self._seeds = [seeds[row] for row in self._rows]
        self._reference = np.empty((len(self._rows), 0, 2 * spec.num_dof))  # so far, [R, k, 2D]
        self._failures: dict[int, EpisodeFailure] = {}  # since the start, counted as the shares are
        self._forgotten: set[int] = set()  # workers whose process does not know its episodes

    @property
    def workers(self) -> int:
        """How many workers have a share, perhaps an empty one."""
        return len(self._shares)

    def send(self, command: str, reference: Array) -> None:
        """Hand out the next rows of the references, [B, n, 2D]: `advance`, or `rest` if they are the last ones."""
        part, before = reference[self._rows], self._reference
        self._reference = np.concatenate((before, part), axis=1)
        for worker, share in enumerate(self._shares):
            own = slice(share.start, share.stop)
            message = Part(self._seeds[own], part[own], before.shape[1])
            if worker in self._forgotten:
                message = Part(self._seeds[own], part[own], before.shape[1], before[own], self._failed_in(share))
            self._crew.send(worker, (command, message))

    def instant(self, answers: Sequence[object], ask: Ask) -> EpisodeStarts:
        """The instant of all episodes after a part, given what the workers have answered."""
        parts = []
        for worker, (share, answer) in enumerate(zip(self._shares, answers, strict=True)):
            if not isinstance(answer, EpisodeStarts):
                answer = self._advanced_alone(worker, share, ask)
                self._forgotten.add(worker)
            else:
                self._forgotten.discard(worker)
            self._failures.update({share.start + i: why for i, why in answer.failures.items()})
            parts.append(answer)
        together = joined_starts(parts)
        late = {self._rows[row]: why for row, why in together.failures.items()}
        every = blank_starts(self._spec, len(self._starts.observation), {**self._starts.failures, **late})
        fill_in(every, self._rows, together)
        return every

    def outcomes(self, answers: Sequence[object], ask: Ask) -> EpisodeOutcomes:
        """What happened in all episodes, given what the workers have answered to the last rows."""
        parts = []
        for worker, (share, answer) in enumerate(zip(self._shares, answers, strict=True)):
            if not share:
                continue
            if not isinstance(answer, EpisodeOutcomes):
                answer = self._played_alone(worker, share, ask)
            parts.append(answer)
        return with_failed_starts(self._spec, self._starts, joined(parts) if parts else None)

    # ------------------------------------------------------------------ episodes that were lost with their process

    def _advanced_alone(self, worker: int, share: range, ask: Ask) -> EpisodeStarts:
        """Advance the episodes of a lost share one by one, from their start."""
        if not share:
            return blank_starts(self._spec, 0, {})
        rows = [row for row in share if row not in self._failures]
        answers = dict(zip(rows, ask(worker, [("advance", self._alone(row)) for row in rows]), strict=True))
        parts = []
        for row in share:
            answer = answers.get(row)
            if isinstance(answer, EpisodeStarts):
                parts.append(answer)
            else:
                why = self._blame(row, answer) if isinstance(answer, Lost) else self._failures[row]
                parts.append(failed_start(self._spec, why))
        return joined_starts(parts)

    def _played_alone(self, worker: int, share: range, ask: Ask) -> EpisodeOutcomes:
        """Play the episodes of a lost share one by one, from their start."""
        rows = [row for row in share if row not in self._failures]
        messages = [("alone", (self._seeds[row], self._reference[row : row + 1])) for row in rows]
        answers = dict(zip(rows, ask(worker, messages), strict=True))
        parts = []
        for row in share:
            answer = answers.get(row)
            if isinstance(answer, EpisodeOutcomes):
                parts.append(answer)
            else:
                why = self._blame(row, answer) if isinstance(answer, Lost) else self._failures[row]
                parts.append(failed_outcome(self._spec, why))
        return joined(parts)

    def _alone(self, row: int) -> Part:
        """A message that asks for one episode from its start to where the others are."""
        return Part([self._seeds[row]], self._reference[row : row + 1], 0, self._reference[row : row + 1, :0])

    def _failed_in(self, share: range) -> dict[int, EpisodeFailure]:
        """Failures in a share, counted from its first row."""
        return {row - share.start: why for row, why in self._failures.items() if row in share}

    def _blame(self, row: int, lost: Lost) -> EpisodeFailure:
        return blame(self._spec, self._seeds[row], lost)


def blame(spec: TaskSpec, seed: int, lost: Lost) -> EpisodeFailure:
    """Say which episode ended a process, or made it hang."""
    return EpisodeFailure(f"Task {spec.id} {lost.reason} in the episode with seed {seed}")
