"""Episodes that are played in parts, so that one that fails does not take the others with it.

Since an episode is a function of its seed and its reference alone, whatever its parts, the way so far can be made
again: after a failure the episodes are advanced anew, one by one, to the same numbers, and the bad ones come back as
failures.

Axes: `B` episodes, `n` steps of a part, `k` steps made before it, `D` degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from top_erl.errors import EPISODE_ERRORS
from top_erl.rollout.playing import (
    blank_starts,
    close_failed,
    failed_start,
    failure,
    fill_in,
    joined_starts,
    play_episodes,
    play_rest,
    raise_if_meant_for_the_user,
    with_failed_starts,
)
from top_erl.tasks.checks import checked_return
from top_erl.tasks.contract import Array, EpisodeFailure, EpisodeOutcomes, EpisodeStarts, Task


class EpisodesInParts:
    """Episodes of a task in this process, advanced together; those that fail are left behind."""

    def __init__(
        self,
        task: Task,
        seeds: Sequence[int],
        *,
        waiting: bool,
        before: Array | None = None,
        failures: Mapping[int, EpisodeFailure] | None = None,
    ) -> None:
        """Take over episodes.

        Args:
            task: Who plays; it plays in parts.
            seeds: Their seeds.
            waiting: Whether the task has begun just these, and waits for their first part.
            before: What they have tracked so far, [B, k, 2D], if the task has to make that way again.
            failures: Those that have failed already, by their row.
        """
        self._task, self._seeds, self._waiting = task, list(seeds), waiting
        shape = (len(self._seeds), 0, 2 * task.spec.num_dof)
        self._reference = np.empty(shape) if before is None else before  # so far
        self._failures = dict(failures or {})

    def are_at(self, seeds: Sequence[int], step: int) -> bool:
        """Whether these are the episodes with certain seeds, at a certain step."""
        return self._seeds == list(seeds) and self._reference.shape[1] == step

    def advance(self, reference: Array) -> EpisodeStarts:
        """Track the next rows of the references, [B, n, 2D]; the instant after them."""
        rows = self._alive
        self._reference = np.concatenate((self._reference, reference), axis=1)
        try:
            part = reference[rows] if self._waiting else self._reference[rows]
            now, self._waiting = self._advanced(rows, part), True
        except EPISODE_ERRORS as error:
            raise_if_meant_for_the_user(error)
            close_failed(self._task)
            self._waiting = False
            now = joined_starts([self._alone(row) for row in rows])
        self._failures.update({rows[i]: why for i, why in now.failures.items()})
        every = blank_starts(self._task.spec, len(self._seeds), self._failures)
        fill_in(every, rows, now)
        return every

    def play(self, reference: Array) -> EpisodeOutcomes:
        """Track the rest of the references, [B, T - k, 2D], to the end of the episodes."""
        rows, played = self._alive, None
        seeds = [self._seeds[row] for row in rows]
        whole = np.concatenate((self._reference, reference), axis=1)
        if rows and self._waiting:
            played = play_rest(self._task, seeds, whole[rows], reference[rows])
        elif rows:
            played = play_episodes(self._task, seeds, whole[rows], begun=False)
        spec = self._task.spec
        return with_failed_starts(spec, blank_starts(spec, len(self._seeds), self._failures), played)

    @property
    def _alive(self) -> list[int]:
        return [row for row in range(len(self._seeds)) if row not in self._failures]

    def _advanced(self, rows: Sequence[int], part: Array) -> EpisodeStarts:
        """Advance the episodes of some rows together, from their start if the task does not wait for them."""
        task, spec, count = self._task, self._task.spec, len(rows)
        if not rows:
            return blank_starts(spec, 0, {})
        if not self._waiting:
            task.begin([self._seeds[row] for row in rows])
        now, last = task.advance(part), self._reference.shape[1] - 1
        whose = f"of the episode with seed {self._seeds[rows[0]]}" if count == 1 else f"of {count} episodes"
        when = f"after step {last} {whose}"
        checked_return(spec.id, "observation", now.observation, (count, spec.observation_dim), when)
        checked_return(spec.id, "position", now.position, (count, spec.num_dof), when)
        checked_return(spec.id, "velocity", now.velocity, (count, spec.num_dof), when)
        return now

    def _alone(self, row: int) -> EpisodeStarts:
        """Advance one episode from its start; a failure leaves its numbers at zero."""
        spec, seed = self._task.spec, self._seeds[row]
        try:
            return self._advanced([row], self._reference[row][None])
        except EPISODE_ERRORS as error:
            raise_if_meant_for_the_user(error)
            close_failed(self._task)
            return failed_start(spec, failure(spec, f"in the episode with seed {seed}", error))
