"""Playing a batch of episodes so that one that fails does not take the others with it.

A simulator may blow up, raise or ask Python to exit, as an episode begins or in the middle of it. Since an episode is a
function of its seed and reference alone, the others of the batch can be played again one by one, to the same numbers;
the bad ones come back as failures.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from top_erl.errors import EPISODE_ERRORS, RunStopped, UserError
from top_erl.tasks.checks import WrongShape, checked_return, non_finite_word
from top_erl.tasks.contract import Array, EpisodeFailure, EpisodeOutcomes, EpisodeStarts, Task, TaskSpec


def begin_episodes(task: Task, seeds: Sequence[int]) -> tuple[EpisodeStarts, bool]:
    """Start one episode per seed; one that cannot start is a failure, with zeros in its row.

    Returns:
        The starts, and whether the task now waits to play just these episodes; otherwise they must be begun once more.

    Raises:
        UserError: If the task complains of something that its user must mend first.
    """
    try:
        return _checked_starts(task, seeds), True
    except EPISODE_ERRORS as error:
        raise_if_meant_for_the_user(error)
        close_failed(task)
    return joined_starts([_begun_alone(task, seed) for seed in seeds]), False


def play_episodes(task: Task, seeds: Sequence[int], reference: Array, begun: bool = True) -> EpisodeOutcomes:
    """Play episodes; references [B, T, 2D].

    Args:
        task: Who plays.
        seeds: Seeds of the episodes.
        reference: What to track in them.
        begun: Whether the task has begun just these; otherwise they are begun now.

    Raises:
        UserError: If the task complains of something that its user must mend first.
    """
    return _played(task, seeds, reference, task.play if begun else _begin_and_play(task, seeds))[0]


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
    outcomes, unbroken = _played(task, seeds, reference, task.play_next if begun else _begin_and_play(task, seeds))
    return outcomes, begun and unbroken


def play_rest(task: Task, seeds: Sequence[int], whole: Array, rest: Array) -> EpisodeOutcomes:
    """Play the episodes that a task has advanced to their end.

    Args:
        task: Who plays.
        seeds: Seeds of the episodes.
        whole: What they track from their start on, [B, T, 2D], for those that must be played again.
        rest: The rows of it that are left, [B, T - k, 2D].

    Raises:
        UserError: If the task complains of something that its user must mend first.
    """
    return _played(task, seeds, whole, lambda _: task.play(rest))[0]


def _begin_and_play(task: Task, seeds: Sequence[int]) -> Callable[[Array], EpisodeOutcomes]:
    def play(reference: Array) -> EpisodeOutcomes:
        task.begin(seeds)
        return task.play(reference)

    return play


def _played(
    task: Task, seeds: Sequence[int], reference: Array, play: Callable[[Array], EpisodeOutcomes]
) -> tuple[EpisodeOutcomes, bool]:
    """Play episodes together, or one by one if that raises; what happened, and whether all went well at once."""
    try:
        outcomes, unbroken = play(reference), True
        _check_shapes(task, len(seeds), outcomes)
    except EPISODE_ERRORS as error:
        raise_if_meant_for_the_user(error)
        close_failed(task)
        batches = [_played_alone(task, seed, reference[i : i + 1]) for i, seed in enumerate(seeds)]
        outcomes, unbroken = joined(batches), False
    return _without_nonsense(task, seeds, outcomes), unbroken


def _begun_alone(task: Task, seed: int) -> EpisodeStarts:
    """Start one episode; a failure leaves its numbers at zero."""
    try:
        return _checked_starts(task, [seed])
    except EPISODE_ERRORS as error:
        raise_if_meant_for_the_user(error)
        close_failed(task)
        return failed_start(task.spec, failure(task.spec, f"at the start of the episode with seed {seed}", error))


def _played_alone(task: Task, seed: int, reference: Array) -> EpisodeOutcomes:
    """Play one episode from its seed, reference [1, T, 2D]; a failure leaves its numbers at zero."""
    try:
        outcomes = _begin_and_play(task, [seed])(reference)
        _check_shapes(task, 1, outcomes)
    except EPISODE_ERRORS as error:
        raise_if_meant_for_the_user(error)
        close_failed(task)
        return failed_outcome(task.spec, failure(task.spec, f"in the episode with seed {seed}", error))
    return outcomes


def film_episode(task: Task, seed: int, reference: Array, every: int) -> list[NDArray[np.uint8]]:
    """Pictures of one episode, reference [T, 2D], after each `every`-th step and the last; a failure is a sentence."""
    try:
        return task.frames(seed, reference, every)
    except UserError:
        raise
    except EPISODE_ERRORS as error:
        why = failure(task.spec, f"in the episode with seed {seed}", error)
        raise RunStopped(f"{why.sentence}: there is nothing to film.\n\n{why.traceback}") from error


# ---------------------------------------------------------------------- batches


def joined_starts(parts: Sequence[EpisodeStarts]) -> EpisodeStarts:
    """The starts of several batches as one."""
    return EpisodeStarts(
        np.concatenate([part.observation for part in parts]),
        np.concatenate([part.position for part in parts]),
        np.concatenate([part.velocity for part in parts]),
        _joined_failures([len(part.observation) for part in parts], [part.failures for part in parts]),
    )


def joined(batches: Sequence[EpisodeOutcomes]) -> EpisodeOutcomes:
    """Several batches as one."""
    return EpisodeOutcomes(
        np.concatenate([batch.observation for batch in batches]),
        np.concatenate([batch.reward for batch in batches]),
        {name: np.concatenate([batch.metrics[name] for batch in batches]) for name in _shared_names(batches)},
        _joined_failures([len(batch.reward) for batch in batches], [batch.failures for batch in batches]),
        _joined_last(batches),
    )


def _joined_last(batches: Sequence[EpisodeOutcomes]) -> Array | None:
    """Observations after the last steps, [B, S], if all batches with a good episode tell theirs."""
    told = [batch.last for batch in batches]
    failed = [len(batch.failures) == len(batch.reward) for batch in batches]
    if all(failed) or any(last is None and not bad for last, bad in zip(told, failed, strict=True)):
        return None
    blank = [np.zeros_like(batch.observation[:, 0]) for batch in batches]
    return np.concatenate([zeros if last is None else last for last, zeros in zip(told, blank, strict=True)])


def _joined_failures(counts: Sequence[int], parts: Sequence[Mapping[int, EpisodeFailure]]) -> dict[int, EpisodeFailure]:
    firsts = np.cumsum([0, *counts]).tolist()
    return {first + i: why for first, part in zip(firsts, parts, strict=False) for i, why in part.items()}


def _in_order(failures: Mapping[int, EpisodeFailure]) -> dict[int, EpisodeFailure]:
    return {row: failures[row] for row in sorted(failures)}


def _shared_names(batches: Sequence[EpisodeOutcomes]) -> list[str]:
    """Metrics that all batches have: a failed episode has only those that the task's facts name."""
    return [name for name in batches[0].metrics if all(name in batch.metrics for batch in batches)]


def startable(starts: EpisodeStarts) -> list[int]:
    """Rows of the episodes that could be begun."""
    return [row for row in range(len(starts.observation)) if row not in starts.failures]


def with_failed_starts(spec: TaskSpec, starts: EpisodeStarts, played: EpisodeOutcomes | None) -> EpisodeOutcomes:
    """The outcome of every episode, given that of the startable ones; None if there are none of them."""
    if played is not None and not starts.failures:
        return played
    order = [*startable(starts), *starts.failures]  # as they are joined
    parts = [failed_outcome(spec, why) for why in starts.failures.values()]
    every = joined([*([] if played is None else [played]), *parts])
    back = np.argsort(order)
    return EpisodeOutcomes(
        every.observation[back],
        every.reward[back],
        {name: values[back] for name, values in every.metrics.items()},
        _in_order({order[i]: why for i, why in every.failures.items()}),
        None if every.last is None else every.last[back],
    )


# ---------------------------------------------------------------------- failures


def failed_start(spec: TaskSpec, why: EpisodeFailure) -> EpisodeStarts:
    """The start of one episode that could not be begun."""
    return blank_starts(spec, 1, {0: why})


def blank_starts(spec: TaskSpec, count: int, failures: Mapping[int, EpisodeFailure]) -> EpisodeStarts:
    """The instant of `count` episodes with zeros everywhere, to be filled in where there is no failure."""
    observation, position, velocity = (
        np.zeros((count, size)) for size in (spec.observation_dim, spec.num_dof, spec.num_dof)
    )
    return EpisodeStarts(observation, position, velocity, _in_order(failures))


def fill_in(starts: EpisodeStarts, rows: Sequence[int], values: EpisodeStarts) -> None:
    """Write the instants of some rows into those of a whole batch; failures are left as they are."""
    starts.observation[rows], starts.position[rows] = values.observation, values.position
    starts.velocity[rows] = values.velocity


def failed_outcome(spec: TaskSpec, why: EpisodeFailure) -> EpisodeOutcomes:
    """The outcome of one episode that could not be played to the end."""
    return EpisodeOutcomes(
        np.zeros((1, spec.horizon, spec.observation_dim)),
        np.zeros((1, spec.horizon)),
        {name: np.zeros(1) for name in spec.metrics},
        {0: why},
    )


def failure(spec: TaskSpec, when: str, error: BaseException) -> EpisodeFailure:
    """Say in one sentence what an exception did, e.g. `in the episode with seed 3`."""
    if isinstance(error, (RunStopped, WrongShape)):
        sentence = str(error).rstrip(".")
        told = sentence if "with seed" in sentence else f"{sentence}, {when}"
        return EpisodeFailure(told, contradicts_spec=isinstance(error, WrongShape))
    return EpisodeFailure(f"Task {spec.id} raised {type(error).__name__} {when}: {error}", traceback.format_exc())


def raise_if_meant_for_the_user(error: BaseException) -> None:
    """Raise a complaint about something that no other episode would mend."""
    if isinstance(error, UserError) and not isinstance(error, (RunStopped, WrongShape)):
        raise error


def close_failed(task: Task) -> None:
    """Drop whatever state a failed episode has left behind; a broken simulator may fail to close, too."""
    with contextlib.suppress(*EPISODE_ERRORS):
        task.close()


# ---------------------------------------------------------------------- checks


def _checked_starts(task: Task, seeds: Sequence[int]) -> EpisodeStarts:
    """Begin episodes; answers of a wrong shape, NaN and infinity raise."""
    starts, spec, count = task.begin(seeds), task.spec, len(seeds)
    when = f"at the start of the episode with seed {seeds[0]}" if count == 1 else f"for {count} starts"
    checked_return(spec.id, "observation", starts.observation, (count, spec.observation_dim), when)
    checked_return(spec.id, "position", starts.position, (count, spec.num_dof), when)
    checked_return(spec.id, "velocity", starts.velocity, (count, spec.num_dof), when)
    return starts


def _check_shapes(task: Task, count: int, outcomes: EpisodeOutcomes) -> None:
    """Refuse outcomes of `count` episodes that have not the shape that the task's spec says."""
    spec = task.spec
    wanted = {
        "observation": (outcomes.observation, (count, spec.horizon, spec.observation_dim)),
        "reward": (outcomes.reward, (count, spec.horizon)),
        **{f"metric {name!r}": (values, (count,)) for name, values in outcomes.metrics.items()},
    }
    if outcomes.last is not None:
        wanted["last observation"] = outcomes.last, (count, spec.observation_dim)
    for name, (values, shape) in wanted.items():
        if np.shape(values) != shape:
            raise WrongShape(f"{spec.id} returned its {name} with shape {np.shape(values)}; its spec says {shape}.")


def _without_nonsense(task: Task, seeds: Sequence[int], outcomes: EpisodeOutcomes) -> EpisodeOutcomes:
    """Turn episodes with NaN or infinity into failures."""
    failures = dict(outcomes.failures)
    told = () if outcomes.last is None else (("last observation", outcomes.last[:, None]),)
    for name, values in (("observation", outcomes.observation), ("reward", outcomes.reward), *told):
        if np.isfinite(values).all():
            continue
        for index, episode in enumerate(values):
            bad = np.argwhere(~np.isfinite(episode))
            if len(bad) and index not in failures:
                where = f"in its {name} at step {bad[0][0]} of the episode with seed {seeds[index]}"
                failures[index] = EpisodeFailure(f"Task {task.spec.id} returned {non_finite_word(episode)} {where}")
    return replace(outcomes, failures=_in_order(failures))
