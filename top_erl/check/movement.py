"""How far the movements of an untrained policy go: scales of the primitive, noise at the start."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from top_erl.check.findings import Finding, error, warning
from top_erl.check.probe import Evidence
from top_erl.check.tracking import BAD, relative_errors
from top_erl.tasks.contract import Array

_HARDLY = 0.02
"""A movement of less than this, in radians or metres, is none to speak of."""


def look(played: Evidence) -> list[Finding]:
    """Look at how far random parameters move the robot, and whether it can go there."""
    return list(_found(played))


def numbers(played: Evidence) -> dict[str, str]:
    """How far the robot moves."""
    words = " ".join(f"{value:.2g}" for value in _ranges(played))
    return {
        "random movements": f"range {words}, by degree of freedom, with noise {played.std:g}, of {len(played.random)}"
    }


def _ranges(played: Evidence) -> Array:
    """The range of references, [D]; the median over episodes."""
    dof = played.spec.num_dof
    rows = [np.ptp(np.vstack((trial.start, trial.reference[:, :dof])), axis=0) for trial in played.random]
    middle: Array = np.median(rows, axis=0)
    return middle


def _found(played: Evidence) -> Iterator[Finding]:
    primitive, reach = played.spec.primitive, float(np.median(_ranges(played)))
    if reach < _HARDLY:
        factor = 10 ** np.ceil(np.log10(0.3 / max(reach, 1e-6)))
        yield warning(
            "scales",
            f"Random parameters hardly move the robot: by {reach:.2g} (radians or metres) within an episode. Raise the "
            f"scales of spec.primitive, e.g. weights_scale={primitive.weights_scale * factor:g} and "
            f"goal_scale={primitive.goal_scale * factor:g}, or policy.initial_std ({played.std:g}).",
        )
        return
    small, large = (relative_errors(trials, played.spec.num_dof) for trials in (played.small, played.random))
    if small is None or large is None:
        return
    if float(np.median(small)) <= BAD < float(np.median(large)):
        yield warning(
            "scales",
            f"Random parameters ask for more than the robot can do: it follows small movements (error "
            f"{np.median(small):.2f} of the range), but not those that learning starts with ({np.median(large):.2f}, "
            f"range {reach:.2g}). Lower the scales of spec.primitive, e.g. "
            f"weights_scale={primitive.weights_scale / 4:g} and goal_scale={primitive.goal_scale / 4:g}, or "
            f"policy.initial_std ({played.std:g}).",
        )
    yield from _stuck(played)


def _stuck(played: Evidence) -> Iterator[Finding]:
    """Whether the robot moves at all when it should."""
    paths = [trial.position for trial in played.random if trial.position is not None and len(trial.position) > 1]
    if paths and max(float(np.ptp(path, axis=0).max()) for path in paths) < 1e-9:
        yield error(
            "control",
            "The measured position never changes while random references are tracked: see that `control` moves the "
            "robot, and that `position` reads the present state, not a copy made at the start.",
        )
