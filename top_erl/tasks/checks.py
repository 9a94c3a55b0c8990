"""Checks that every task makes of what it is given and of what its simulator returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from top_erl.errors import RunStopped, UserError
from top_erl.tasks.contract import TaskSpec

Array = NDArray[np.float64]


class WrongShape(UserError):  # noqa: N818 - it names what happened, and is shown to users
    """An answer of a task that is not what its spec says: in all episodes, or in a few that fail."""


def checked_seeds(spec: TaskSpec, seeds: Sequence[int]) -> list[int]:
    """Return the seeds as plain integers, or say what is wrong with them."""
    numbers = [int(seed) for seed in seeds]
    if not numbers or min(numbers) < 0:
        raise UserError(f"{spec.id} needs at least one seed, none of them negative, got {numbers}.")
    return numbers


def checked_reference(spec: TaskSpec, reference: ArrayLike, num_episodes: int, step: int = 0) -> Array:
    """Return the references to the end of the episodes as an array [B, T - step, 2D], or say what is wrong with them.

    Args:
        spec: The task's facts.
        reference: What the learner passed to `play`.
        num_episodes: B, the number of episodes begun and not yet played.
        step: Steps that they have made already.
    """
    return _checked_rows(spec, reference, num_episodes, spec.horizon - step)


def checked_part(spec: TaskSpec, reference: ArrayLike, num_episodes: int, step: int) -> Array:
    """Return the next part of the references, [B, n, 2D], which ends before the episodes do, or say what is wrong."""
    rows = np.shape(reference)[1] if np.ndim(reference) == 3 else 0
    if not 0 < rows < spec.horizon - step:
        raise UserError(
            f"{spec.id} is at step {step} of {spec.horizon}: a part of its references has shape (episodes, steps, "
            f"positions then velocities) and 1 to {spec.horizon - step - 1} steps, not shape {np.shape(reference)}; "
            "play(reference) makes the last ones."
        )
    return _checked_rows(spec, reference, num_episodes, rows)


def _checked_rows(spec: TaskSpec, reference: ArrayLike, num_episodes: int, rows: int) -> Array:
    if num_episodes == 0:
        raise UserError(f"{spec.id} has no episode to play: call begin(seeds) before each play(reference).")
    array = np.asarray(reference, dtype=np.float64)
    expected = (num_episodes, rows, 2 * spec.num_dof)
    if array.shape != expected:
        raise UserError(
            f"{spec.id} needs references of shape {expected} "
            f"(episodes, steps, positions then velocities), got {array.shape}."
        )
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        raise RunStopped(
            f"The reference for {spec.id} holds {non_finite_word(array)} at step {bad[0][1]} of episode "
            f"{bad[0][0]} of the batch; the policy that made it has diverged."
        )
    return array


def checked_return(task: str, name: str, value: object, shape: tuple[int, ...], when: str) -> Array:
    """Return a simulator's answer as finite numbers of the right shape, or say what was wrong, and when.

    Args:
        task: The task's id.
        name: What was returned, e.g. `observation`.
        value: The answer.
        shape: The shape it must have.
        when: The instant, e.g. `at step 12 of the episode with seed 34`.
    """
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise WrongShape(
            f"{task} returned a {type(value).__name__} as its {name} {when}; it must be an array of shape "
            f"{shape} (a dictionary needs an observation_space that is a gymnasium.spaces.Dict with the same names)."
        ) from error
    if array.shape != shape:
        raise WrongShape(f"{task} returned its {name} with shape {array.shape} {when}; its spec says {shape}.")
    if not np.isfinite(array).all():
        raise RunStopped(f"{task} returned {non_finite_word(array)} in its {name} {when}.")
    return array


def checked_metrics(spec: TaskSpec, values: Mapping[str, float], seed: int) -> dict[str, float]:
    """Return what was measured at the end of an episode, named as in `spec.metrics`, or say what is wrong with it."""
    when = f"at the end of the episode with seed {seed}"
    if set(values) != set(spec.metrics):
        raise UserError(f"{spec.id} measured {sorted(values)} {when}; its spec names {sorted(spec.metrics)}.")
    return {name: float(checked_return(spec.id, f"metric {name!r}", values[name], (), when)) for name in spec.metrics}


def non_finite_word(array: Array) -> str:
    """Name what is wrong with an array that is not finite."""
    return "NaN" if np.isnan(array).any() else "infinity"
