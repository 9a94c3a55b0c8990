"""Whether the velocity is the derivative of the position, and the observation agrees with both.

Axes: `n` steps, `D` degrees of freedom.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from top_erl.check.findings import Finding, error, hint, warning
from top_erl.check.probe import Evidence
from top_erl.check.trials import Trial
from top_erl.errors import UserError
from top_erl.tasks.contract import Array


def look(played: Evidence) -> list[Finding]:
    """Compare velocities with difference quotients, and the first observation with the measured state."""
    return [*_measured_state(played), *_derivative(played)]


def _measured_state(played: Evidence) -> Iterator[Finding]:
    """Whether `measured_state` finds in the first observation what `position` and `velocity` measure."""
    trial = played.still[0]
    try:
        position, velocity = played.task.measured_state(trial.first)
    except UserError:
        yield hint(
            "measured_state",
            "measured_state is not written: a trained policy then needs position= and velocity= besides the "
            "observation. Say where the observation holds them.",
        )
        return
    for name, told, measured in (("position", position, trial.start), ("velocity", velocity, trial.start_velocity)):
        told = np.asarray(told)
        if told.shape != measured.shape:
            yield error("measured_state", f"measured_state gives a {name} of shape {told.shape}, not {measured.shape}.")
        elif not np.allclose(told, measured, rtol=1e-4, atol=1e-6 + 1e-4 * float(np.abs(measured).max())):
            yield error(
                "measured_state",
                f"measured_state reads the {name} {_short(told)} off the first observation of seed {trial.seed}, but "
                f"`{name}` measures {_short(measured)}: it must look at the same entries, in the same units.",
            )


def _derivative(played: Evidence) -> Iterator[Finding]:
    """Whether the velocity is how fast the position changes."""
    pairs = [pair for trial in [*played.small, *played.random] if (pair := _slopes(trial, played.spec.dt))]
    if not pairs:
        return
    slope, velocity = (np.concatenate(columns) for columns in zip(*pairs, strict=True))  # [n, D] each
    if not np.abs(slope).max() > 1e-6:
        return  # it never moves, which is another finding
    if not velocity.any():
        yield hint(
            "units",
            "The velocity is zero although the position changes: right for a robot that is commanded by positions; "
            "otherwise `velocity` must measure it.",
        )
        return
    moving = [int(joint) for joint in np.flatnonzero(np.abs(slope).max(0) > 1e-6)]
    # Medians over episodes: in a hard collision difference quotients mean little. [D, D]: velocity i with slope j.
    alike = np.median([_correlation(speeds, slopes) for slopes, speeds in pairs], axis=0)
    wrong = [i for i in moving if alike[i, i] < 0.7]
    if wrong:
        yield _unlike(wrong[0], alike, moving)
        return
    ratios = [(speeds * slopes).sum(0) / np.maximum((slopes**2).sum(0), 1e-12) for slopes, speeds in pairs]
    ratio = float(np.median(np.median(ratios, axis=0)[moving]))
    if not 0.85 < ratio < 1.18:
        level = hint if 0.5 < ratio < 2.0 else error  # no units are so near to each other
        yield level("units", _ratio_sentence(ratio, played.spec.dt))


def _slopes(trial: Trial, dt: float) -> tuple[Array, Array] | None:
    """Difference quotients of the position, and velocities at the same instants, [n, D] each."""
    if trial.position is None or trial.velocity is None or len(trial.position) < 3:
        return None
    return (trial.position[2:] - trial.position[:-2]) / (2 * dt), trial.velocity[1:-1]


def _correlation(velocity: Array, slope: Array) -> Array:
    """Cosine between every velocity and every slope, [D, D]."""
    norms = np.linalg.norm(velocity, axis=0)[:, None] * np.linalg.norm(slope, axis=0)
    cosine: Array = (velocity.T @ slope) / np.maximum(norms, 1e-12)
    return cosine


def _unlike(joint: int, alike: Array, moving: list[int]) -> Finding:
    """Say that a velocity is no derivative, and of which position it is one, if of any."""
    best = moving[int(np.argmax(alike[joint, moving]))]
    if best != joint and alike[joint, best] > 0.9:
        return error(
            "units",
            f"Entry {joint} of the velocity is the derivative of entry {best} of the position: `position` and "
            "`velocity` must list the degrees of freedom in the same order.",
        )
    if alike[joint, joint] < -0.9:
        return error(
            "units", f"Entry {joint} of the velocity has the wrong sign: the position grows while it is negative."
        )
    return warning(
        "units",
        f"Entry {joint} of the velocity does not follow the change of the position (correlation "
        f"{alike[joint, joint]:.2f}): the velocity must be the derivative of the position, per second.",
    )


def _ratio_sentence(ratio: float, dt: float) -> str:
    """Say by which factor velocities are off, and what that factor may be."""
    known = {
        math.degrees(1): "`velocity` is in degrees, `position` in radians",
        math.radians(1): "`velocity` is in radians, `position` in degrees",
        dt: "`velocity` is per step, not per second: divide it by dt",
    }
    near = [reason for factor, reason in known.items() if abs(ratio / factor - 1) < 0.1]
    reason = near[0] if near else f"spec.dt should be {dt / ratio:.3g}, or one of the two has other units"
    if not near and 0.5 < ratio < 2.0:
        reason += (
            "; if neither is so, the robot moves unevenly within a control step (as one that is dragged by positions "
            "does), and this does no harm"
        )
    return f"The velocity is {ratio:.3g} times the change of the position per second: {reason}."


def _short(values: Array) -> str:
    return np.array2string(values, precision=3, threshold=4, edgeitems=2)
