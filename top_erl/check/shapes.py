"""Whether a task can be played at all: shapes, names, finite numbers, no exceptions."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np

from top_erl.check.findings import Finding, error
from top_erl.check.trials import standing
from top_erl.errors import UserError
from top_erl.tasks import EpisodeOutcomes, EpisodeStarts, Task

T = TypeVar("T")


def look(task: Task) -> list[Finding]:
    """Play two episodes, standing still, and look at what comes back."""
    found = explained(task, lambda: _played(task))
    return [found] if isinstance(found, Finding) else found


def explained(task: Task, work: Callable[[], T]) -> T | Finding:
    """Do something with a task; what it raises becomes a finding."""
    try:
        return work()
    except UserError as complaint:
        return error("contract", str(complaint))
    except Exception as complaint:  # the user's code may raise anything, and saying what is what this is for
        where = _last_line_of_theirs(complaint)
        return error("exception", f"{task.spec.id} raised {type(complaint).__name__}{where}: {complaint}")


def _last_line_of_theirs(complaint: Exception) -> str:
    """Where the user's own code was, if it was: the last line of the traceback outside installed packages."""
    here = str(Path(__file__).parents[1])
    frames = [
        frame
        for frame in traceback.extract_tb(complaint.__traceback__)
        if "site-packages" not in frame.filename and not frame.filename.startswith(here)
    ]
    return f" in {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""


def _played(task: Task) -> list[Finding]:
    starts = task.begin([0, 1])
    found = list(_starts(task, starts))
    if found:
        return found
    reference = np.stack([standing(task, position) for position in starts.position])
    return list(_outcomes(task, starts, task.play(reference)))


def _starts(task: Task, starts: EpisodeStarts) -> Iterator[Finding]:
    spec = task.spec
    sizes = {"observation": spec.observation_dim, "position": spec.num_dof, "velocity": spec.num_dof}
    for name, size in sizes.items():
        yield from _array(f"begin([0, 1]).{name}", getattr(starts, name), (2, size))


def _outcomes(task: Task, starts: EpisodeStarts, outcomes: EpisodeOutcomes) -> Iterator[Finding]:
    spec = task.spec
    wrong = [
        *_array("play(reference).observation", outcomes.observation, (2, spec.horizon, spec.observation_dim)),
        *_array("play(reference).reward", outcomes.reward, (2, spec.horizon)),
    ]
    yield from wrong
    missing = [name for name in spec.metrics if name not in outcomes.metrics]
    if missing:
        yield error("metrics", f"play(reference).metrics has no {missing}, which spec.metrics names.")
    for name in spec.metrics:
        if name in outcomes.metrics:
            yield from _array(f"play(reference).metrics[{name!r}]", outcomes.metrics[name], (2,))
    if not wrong and not np.array_equal(outcomes.observation[:, 0], starts.observation):
        yield error(
            "observation",
            "play(reference).observation[:, 0] differs from begin(seeds).observation: observations are those *before* "
            "each step, and the first is the one that the episode began with.",
        )


def _array(name: str, value: object, shape: tuple[int, ...]) -> Iterator[Finding]:
    """Look at one array."""
    array = np.asarray(value, dtype=np.float64)
    if array.shape != shape:
        yield error("shapes", f"{name} has shape {array.shape}; spec says {shape}.")
    elif not np.isfinite(array).all():
        yield error("numbers", f"{name} holds NaN or infinity; every number must be finite.")
