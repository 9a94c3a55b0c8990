"""Whether the controller makes the robot follow its reference, and with which gains it would.

Axes: `T` control steps, `D` degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from top_erl.check.findings import Finding, error, hint, warning
from top_erl.check.probe import SMALL, Evidence, resting
from top_erl.check.trials import Trial, play
from top_erl.tasks import GymnasiumTask
from top_erl.tasks.contract import Array

BAD = 0.4
"""A robot does not follow if the error of its middle degree of freedom is this part of the movement's range."""
_ONE_BAD = 0.5
"""Likewise for a single one; joints that carry weight, or touch something, follow less well than others."""
_GAINS = (2.0, 4.0, 8.0, 0.5, 0.25)
"""What the controller's actions are multiplied with to see whether other gains would do better."""


def look(played: Evidence) -> list[Finding]:
    """Look at actions and at small, smooth movements, which any controller should be able to follow."""
    return [*_actions(played), *_following(played)]


def numbers(played: Evidence) -> dict[str, str]:
    """How well references are followed."""
    errors = relative_errors(played.small, played.spec.num_dof)
    if errors is None:
        return {}
    words = " ".join(f"{value:.2f}" for value in errors)
    return {"tracking error": f"{words} of a small movement's range, by degree of freedom"}


def relative_errors(trials: list[Trial], dof: int) -> Array | None:
    """Root mean square error of each degree of freedom, as part of its reference's range, [D]; None if not measured."""
    rows = []
    for trial in trials:
        if trial.position is None or len(trial.position) < 2:
            continue
        measured = trial.position[1:]  # before step i + 1, that is, after step i
        wanted = trial.reference[: len(measured), :dof]
        spread = np.ptp(np.vstack((trial.start, trial.reference[:, :dof])), axis=0)
        rows.append(np.sqrt(np.mean((measured - wanted) ** 2, axis=0)) / np.maximum(spread, 1e-9))
    return np.median(rows, axis=0) if rows else None


def _following(played: Evidence) -> Iterator[Finding]:
    errors = relative_errors(played.small, played.spec.num_dof)
    if errors is None:
        yield hint("tracking", "Nobody can say how well references are followed: write measured_state to find out.")
        return
    middle = float(np.median(errors))
    if middle > BAD:
        yield warning(
            "tracking",
            f"The robot does not follow its reference: the error is {middle:.2f} of the range of small, smooth "
            f"movements. {_advice(played, middle)} --picture FILE draws it.",
        )
        return
    for joint in np.flatnonzero(errors > _ONE_BAD):
        yield hint(
            "tracking",
            f"Degree of freedom {joint} does not follow its reference (error {errors[joint]:.2f} of the range): right "
            "if it is a mere command, such as a gripper's; else raise its gain, or see whether its joint ends there.",
        )


def _advice(played: Evidence, middle: float) -> str:
    """What to do: other gains if they are better, else slower movements."""
    saturated = _saturation(played)
    if isinstance(played.task, GymnasiumTask) and saturated < 0.5:
        tried = {gain: _error_with(played, gain) for gain in _GAINS}
        best = min(tried, key=lambda gain: tried[gain])
        if tried[best] < 0.6 * middle:
            return (
                f"With the gains of `control` multiplied by {best:g} the error is {tried[best]:.2f}: "
                f"{'raise' if best > 1 else 'lower'} them."
            )
    if saturated >= 0.5:
        return (
            f"Actions are at their bounds in {100 * saturated:.0f} % of the steps: slow down (smaller weights_scale "
            "and goal_scale, or a longer episode); stiffer gains will not help."
        )
    return (
        "Gains from a quarter to eight times as high do not help: see that `control` drives the joints that `position` "
        "measures, towards the desired state, or slow down (longer episodes, smaller scales)."
    )


def _error_with(played: Evidence, gain: float) -> float:
    """The error of small movements with other gains."""
    rng = np.random.default_rng(0)
    trials = []
    for trial in played.few(played.still)[:2]:
        noise = SMALL * played.std * rng.standard_normal(played.primitive.num_params)
        params = resting(played.task, played.primitive, trial) + noise
        trials.append(play(played.task, trial.seed, params, played.primitive, gain))
    errors = relative_errors(trials, played.spec.num_dof)
    return float("inf") if errors is None else float(np.median(errors))


def _saturation(played: Evidence) -> float:
    """Part of the steps of small movements in which actions are at the bounds of their space."""
    actions = [trial.action for trial in played.small if trial.action is not None]
    bounds = _bounds(played)
    if not actions or bounds is None:
        return 0.0
    action = np.concatenate(actions)
    return float(np.mean((action <= bounds[0] + 1e-9) | (action >= bounds[1] - 1e-9)))


def _actions(played: Evidence) -> Iterator[Finding]:
    """Whether actions fit their space."""
    actions = [trial.action for trial in played.random if trial.action is not None]
    bounds = _bounds(played)
    if not actions or bounds is None:
        return
    action, (low, high) = np.concatenate(actions), bounds
    if action.shape[1:] != low.shape:
        yield error(
            "control",
            f"`control` returns actions of shape {action.shape[1:]}; the environment's have shape {low.shape}.",
        )
        return
    beyond = np.maximum(low - action, action - high).max()
    if beyond > 1e-6 * max(1.0, float(np.abs(high - low)[np.isfinite(high - low)].max(initial=0.0))):
        yield warning(
            "control",
            f"`control` returns actions up to {beyond:.3g} beyond the bounds of the action space, and the environment "
            "may charge for them: np.clip(action, env.action_space.low, env.action_space.high).",
        )


def _bounds(played: Evidence) -> tuple[Array, Array] | None:
    """Least and largest action, [A] each."""
    if not isinstance(played.task, GymnasiumTask):
        return None
    env = played.task.make_env()
    try:
        space = getattr(env, "action_space", None)
    finally:
        env.close()
    low, high = getattr(space, "low", None), getattr(space, "high", None)
    return None if low is None or high is None else (np.asarray(low, np.float64), np.asarray(high, np.float64))
