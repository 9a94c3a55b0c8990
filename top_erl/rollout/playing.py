"""Playing a batch of episodes so that one that fails does not take the others with it.

A simulator may blow up or raise in the middle of an episode. Since an episode is a function of its seed and reference
alone, the others of the batch can be played again one by one, to the same numbers; the bad ones come back as failures.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from top_erl.errors import RunStopped, UserError
from top_erl.tasks.checks import non_finite_word
from top_erl.tasks.contract import Array, EpisodeFailure, EpisodeOutcomes, Task


def play_episodes(task: Task, seeds: Sequence[int], reference: Array) -> EpisodeOutcomes:
    """Play the episodes just begun with these seeds; references [B, T, 2D].

    Raises:
        UserError: If the task complains of something that its user must mend first.
    """
    return _played(task, seeds, reference, task.play)[0]


def play_part(task: Task, seeds: Sequence[int], reference: Array, begun: bool) -> tuple[EpisodeOutcomes, bool]:
    """Play a few episodes of a batch; references [B, T, 2D].

    Args:
        task: A task that plays episodes one by one.
        seeds: Seeds of the episodes to play.
        reference: What to track in them.
        begun: Whether they are the first of the episodes that the task has begun; otherwise they are begun now.

    Returns:
        What happened, and whether the rest of the episodes that the task had begun still waits.

    Raises:
        UserError: If the task complains of something that its user must mend first.
    """

    def begin_and_play(reference: Array) -> EpisodeOutcomes:
        task.begin(seeds)
        return task.play(reference)

    outcomes, unbroken = _played(task, seeds, reference, task.play_next if begun else begin_and_play)
    return outcomes, begun and unbroken


def _played(
    task: Task, seeds: Sequence[int], reference: Array, play: Callable[[Array], EpisodeOutcomes]
) -> tuple[EpisodeOutcomes, bool]:
    """Play episodes together, or one by one if that raises; what happened, and whether all went well at once."""
    try:
        outcomes, unbroken = play(reference), True
    except Exception as error:
        _raise_if_meant_for_the_user(error)
        task.close()  # whatever state the failed episode has left behind
        batches = [_played_alone(task, seed, reference[i : i + 1]) for i, seed in enumerate(seeds)]
        outcomes, unbroken = joined(batches), False
    return _without_nonsense(task, seeds, outcomes), unbroken


def joined(batches: Sequence[EpisodeOutcomes]) -> EpisodeOutcomes:
    """Several batches as one."""
    firsts = np.cumsum([0, *(len(batch.reward) for batch in batches)]).tolist()
    return EpisodeOutcomes(
        np.concatenate([batch.observation for batch in batches]),
        np.concatenate([batch.reward for batch in batches]),
        {name: np.concatenate([batch.metrics[name] for batch in batches]) for name in _shared_names(batches)},
        {first + i: why for first, batch in zip(firsts, batches, strict=False) for i, why in batch.failures.items()},
    )


def _shared_names(batches: Sequence[EpisodeOutcomes]) -> list[str]:
    """Metrics that all batches have: a failed episode has only those that the task's facts name."""
    return [name for name in batches[0].metrics if all(name in batch.metrics for batch in batches)]


def _played_alone(task: Task, seed: int, reference: Array) -> EpisodeOutcomes:
    """Play one episode from its seed, reference [1, T, 2D]; a failure leaves its numbers at zero."""
    try:
        task.begin([seed])
        return task.play(reference)
    except Exception as error:
        _raise_if_meant_for_the_user(error)
        task.close()
        spec = task.spec
        return EpisodeOutcomes(
            np.zeros((1, spec.horizon, spec.observation_dim)),
            np.zeros((1, spec.horizon)),
            {name: np.zeros(1) for name in spec.metrics},
            {0: _failure(task, seed, error)},
        )


def _raise_if_meant_for_the_user(error: Exception) -> None:
    if isinstance(error, UserError) and not isinstance(error, RunStopped):
        raise error


def _failure(task: Task, seed: int, error: Exception) -> EpisodeFailure:
    if isinstance(error, RunStopped):
        sentence = str(error).rstrip(".")
        return EpisodeFailure(sentence if str(seed) in sentence else f"{sentence}, in the episode with seed {seed}")
    sentence = f"Task {task.spec.id} raised {type(error).__name__} in the episode with seed {seed}: {error}"
    return EpisodeFailure(sentence, traceback.format_exc())


def _without_nonsense(task: Task, seeds: Sequence[int], outcomes: EpisodeOutcomes) -> EpisodeOutcomes:
    """Turn episodes with NaN or infinity into failures."""
    failures = dict(outcomes.failures)
    for name, values in (("observation", outcomes.observation), ("reward", outcomes.reward)):
        for index, episode in enumerate(values):
            bad = np.argwhere(~np.isfinite(episode))
            if len(bad) and index not in failures:
                where = f"in its {name} at step {bad[0][0]} of the episode with seed {seeds[index]}"
                failures[index] = EpisodeFailure(f"Task {task.spec.id} returned {non_finite_word(episode)} {where}")
    return replace(outcomes, failures=failures)
