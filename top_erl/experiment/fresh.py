"""A trained policy on fresh contexts, which neither training nor its evaluations see, and `evaluation.json`."""

from __future__ import annotations

import json
from pathlib import Path

from top_erl.config.files import write_whole
from top_erl.errors import UserError
from top_erl.experiment.training import Training
from top_erl.rollout.collector import Scores
from top_erl.seeding import episode_seeds

FILE = "evaluation.json"


def play_fresh(training: Training, episodes: int, seed: int = 0) -> Scores:
    """Play the deterministic policy; `seed` says which fresh contexts."""
    return training.learner.evaluate(episode_seeds(seed, "fresh", 0, episodes))


def write_scores(path: Path, scores: Scores) -> None:
    """Write the outcome of every episode."""
    numbers: dict[str, object] = {"return": scores.returns.tolist()}
    numbers.update({name: values.tolist() for name, values in scores.metrics.items()})
    numbers["failed_episodes"] = scores.failures
    try:
        write_whole(path, json.dumps(numbers))
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error}") from None
