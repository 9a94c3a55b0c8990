"""What varies between episodes, and whether the observation shows it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from top_erl.check.findings import Finding, error, hint, warning
from top_erl.check.probe import Evidence


def look(played: Evidence) -> list[Finding]:
    """Look at the first observations of different seeds."""
    return [*_hidden(played), *_variation(played)]


def _hidden(played: Evidence) -> Iterator[Finding]:
    """Whether episodes that look alike, and are played alike, are paid differently."""
    for trials in (played.still, played.random):
        for one, other in combinations(trials, 2):
            alike = np.array_equal(one.first, other.first) and np.array_equal(one.reference, other.reference)
            if alike and not np.isclose(one.total, other.total, rtol=1e-9, atol=1e-12):
                yield error(
                    "context",
                    f"Seeds {one.seed} and {other.seed} begin with the same observation, and the same reference "
                    f"returns {one.total:.4g} and {other.total:.4g}: something that decides the return, such as a "
                    "goal, is hidden. Put it into the observation.",
                )
                return


def _variation(played: Evidence) -> Iterator[Finding]:
    """Whether anything varies at all, and whether the mask names it."""
    first = np.stack([trial.first for trial in played.still])
    varies = np.ptp(first, axis=0) > 0
    mask = played.spec.context_mask
    if not varies.any():
        yield hint(
            "context",
            f"The first observation is the same for all {len(first)} seeds: every episode is the same problem. If "
            "goals or starts should differ, draw them in `reset` from self.np_random.",
        )
    elif mask is not None and not varies[list(mask)].any():
        yield warning(
            "context",
            "None of the entries that spec.context_mask names varies between episodes; "
            f"{np.flatnonzero(varies).tolist()} do.",
        )
