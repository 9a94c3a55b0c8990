"""Success and the other metrics: values that can be, and rules that tell good from bad."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from top_erl.check.findings import Finding, error, hint, warning
from top_erl.check.probe import Evidence


def look(played: Evidence) -> list[Finding]:
    """Look at the metrics after standing still and after random movements."""
    return [*_values(played), *_rule(played)]


def numbers(played: Evidence) -> dict[str, str]:
    """Metrics after random movements."""
    return {
        f"{name}, random movements": f"{np.mean([trial.metrics[name] for trial in played.random]):.3g}"
        for name in played.spec.metrics
    }


def _values(played: Evidence) -> Iterator[Finding]:
    """Whether success is yes or no, and `success_any` at least as often true."""
    trials = [*played.still, *played.random]
    for name in ("success", "success_any"):
        odd = [trial for trial in trials if trial.metrics.get(name, 0.0) not in (0.0, 1.0)]
        if odd:
            yield error(
                "success", f"The metric {name} is {odd[0].metrics[name]:g} for seed {odd[0].seed}; it must be 0 or 1."
            )
    for trial in trials:
        if trial.metrics.get("success_any", 1.0) < trial.metrics.get("success", 0.0):
            yield error(
                "success",
                f"With seed {trial.seed} success is {trial.metrics['success']:g} and success_any "
                f"{trial.metrics['success_any']:g}: what is solved after the last step was solved after some step. "
                "Let `is_solved` use the rule of `success`.",
            )
            return


def _rule(played: Evidence) -> Iterator[Finding]:
    """Whether the rule of success can tell episodes apart."""
    if "success" not in played.spec.metrics:
        return
    still, random = ([trial.metrics["success"] for trial in trials] for trials in (played.still, played.random))
    if all(still):
        yield warning(
            "success",
            f"Standing still counts as success in all {len(still)} episodes: see spec.success_rule and `metrics`.",
        )
    elif all(random):
        yield warning(
            "success",
            f"All {len(random)} random movements count as success: see spec.success_rule and `metrics`; a task that "
            "random movements solve has nothing to teach.",
        )
    elif not any(still) and not any(random):
        yield hint(
            "success",
            f"Success was true in none of {len(random)} random episodes, which is usual where chance solves nothing; "
            "see that the rule can be met.",
        )
