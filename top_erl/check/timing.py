"""Time: how long an episode is, how long a step is, and how long it takes to play."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from top_erl.algorithms.budget import laptop_budget
from top_erl.check.findings import Finding, error, hint, warning
from top_erl.check.probe import Evidence
from top_erl.tasks import GymnasiumTask

_PATIENCE = 6.0
"""Hours of playing in one process from which on a run is called slow."""


def look(played: Evidence) -> list[Finding]:
    """Look at the horizon, the control step and the speed."""
    found = list(_speed(played))
    if isinstance(played.task, GymnasiumTask):
        env = played.task.make_env()
        try:
            found += [*_horizon(played, env), *_step(played, env)]
        finally:
            env.close()
    return found


def numbers(played: Evidence) -> dict[str, str]:
    """How fast it plays."""
    begin = float(np.median([trial.begin_seconds for trial in played.random]))
    return {"speed": f"{_steps_per_second(played):,.0f} steps a second, {1000 * begin:.1f} ms to begin an episode"}


def _horizon(played: Evidence, env: Any) -> Iterator[Finding]:
    horizon = played.spec.horizon
    limit = getattr(getattr(env, "spec", None), "max_episode_steps", None)
    ends = {trial.steps for trial in [*played.still, *played.random]}
    if ends != {horizon} and len(ends) == 1:
        yield error(
            "horizon",
            f"Every episode ends after {ends.pop()} steps, spec.horizon says {horizon}: set horizon to that, or give "
            f"the environment more time (gym.make(…, max_episode_steps={horizon})).",
        )
    elif limit is not None and limit < horizon:
        yield error(
            "horizon",
            f"The environment's time limit is {limit} steps, spec.horizon says {horizon}: set horizon={limit}, or "
            f"gym.make(…, max_episode_steps={horizon}).",
        )
    elif limit is not None and limit > horizon:
        yield hint(
            "horizon",
            f"The environment's own episodes have {limit} steps, spec.horizon is {horizon}: the rest is never played. "
            "Right if the task is over by then.",
        )


def _step(played: Evidence, env: Any) -> Iterator[Finding]:
    own, stated = getattr(env.unwrapped, "dt", None), played.spec.dt
    if isinstance(own, (int, float)) and own > 0 and not np.isclose(own, stated, rtol=1e-3):
        yield error(
            "dt",
            f"spec.dt is {stated:g} s, the environment's own step is {own:g} s: references would be tracked at "
            f"{stated / own:.3g} times their speed. Set dt={own:g}.",
        )


def _speed(played: Evidence) -> Iterator[Finding]:
    budget = laptop_budget(played.spec).episodes * played.spec.horizon
    begin = float(np.median([trial.begin_seconds for trial in played.random]))
    play = float(np.median([trial.play_seconds for trial in played.random]))
    hours = laptop_budget(played.spec).episodes * (begin + play) / 3600
    if hours > _PATIENCE:
        yield hint(
            "speed",
            f"It plays {_steps_per_second(played):,.0f} steps a second: the {budget:,} steps of a run at laptop scale "
            f"take {hours:.0f} hours in one process. Use --workers, coarser physics, or a smaller --total-env-steps.",
        )
    if begin > play and begin > 0.05:
        yield warning(
            "speed",
            f"Beginning an episode takes {begin:.2f} s, longer than playing it ({play:.2f} s): build the simulator in "
            "`make_env`, and only put it back in `reset`.",
        )


def _steps_per_second(played: Evidence) -> float:
    seconds = sum(trial.play_seconds + trial.begin_seconds for trial in played.random)
    return sum(trial.steps for trial in played.random) / max(seconds, 1e-9)
