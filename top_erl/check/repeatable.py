"""Whether an episode is a function of its seed and reference alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from top_erl.check.findings import Finding, error
from top_erl.check.probe import Evidence
from top_erl.check.trials import Trial
from top_erl.tasks import Task


def look(played: Evidence) -> list[Finding]:
    """Play a few random movements again: in another instance, then together and in another order in the same one."""
    trials = played.few(played.random)
    other = played.make()
    try:
        anew = [_difference([trial], other) for trial in trials]
    finally:
        other.close()
    if any(anew):
        difference = next(filter(None, anew))
        return [_survives(difference) if _fresh_ones_agree(played, trials[0]) else _not_by_seed(difference)]
    again = _difference(trials[::-1], played.task)
    return [_survives(again)] if again else []


def _fresh_ones_agree(played: Evidence, trial: Trial) -> bool:
    """Whether two instances that have played nothing give the same episode: then it is the past that matters."""
    seen = []
    for _ in range(2):
        task = played.make()
        try:
            starts = task.begin([trial.seed])
            outcomes = task.play(trial.reference[None])
        finally:
            task.close()
        seen.append((starts.observation, outcomes.observation, outcomes.reward))
    return all(np.array_equal(one, other) for one, other in zip(*seen, strict=True))


def _survives(difference: str) -> Finding:
    return error(
        "repeatable",
        f"{difference} when it is played after other episodes, or together with them: something survives "
        "`env.reset(seed=…)`. Reset all that an episode changes, and share nothing between environments.",
    )


def _not_by_seed(difference: str) -> Finding:
    return error(
        "repeatable",
        f"{difference} when the same seed and reference are played in a fresh instance: `env.reset(seed=…)` must "
        "decide everything random in the episode. Draw from `self.np_random` after `super().reset(seed=seed)`, not "
        "from np.random, random or the clock.",
    )


def _difference(trials: Sequence[Trial], task: Task) -> str:
    """Play episodes as one batch, with the references they had; what differs first, or nothing."""
    starts = task.begin([trial.seed for trial in trials])
    for index, trial in enumerate(trials):
        for name, before, now in (
            ("first observation", trial.first, starts.observation[index]),
            ("position at the start", trial.start, starts.position[index]),
            ("velocity at the start", trial.start_velocity, starts.velocity[index]),
        ):
            if not np.array_equal(before, now):
                return f"The {name} of the episode with seed {trial.seed} differs"
    outcomes = task.play(np.stack([trial.reference for trial in trials]))
    for index, trial in enumerate(trials):
        for name, before, now in (
            ("observation", trial.observation, outcomes.observation[index]),
            ("reward", trial.reward[:, None], outcomes.reward[index][:, None]),
        ):
            steps = np.flatnonzero((before != now).any(axis=1))
            if len(steps):
                return f"The {name} at step {steps[0]} of the episode with seed {trial.seed} differs"
        for name, value in trial.metrics.items():
            if outcomes.metrics[name][index] != value:
                return f"The metric {name} of the episode with seed {trial.seed} differs"
    return ""
