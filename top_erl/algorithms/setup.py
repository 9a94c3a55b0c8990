"""What a run hands to a method: the task, who plays it, and the counters everything random derives from."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from top_erl.primitives import Primitive
from top_erl.rollout.collector import EpisodeCollector
from top_erl.tasks import Task, TaskSpec


@dataclass(frozen=True)
class Setup:
    """The surroundings of a learner."""

    task: Task
    """The task in this process."""
    spec: TaskSpec
    """The facts about it."""
    seed: int
    """Seed of everything random."""
    total_iterations: int
    """Iterations of the whole run."""
    device: torch.device
    """Where the networks live."""
    collector: EpisodeCollector | None = None
    """Plays whole episodes, for episodic methods."""
    primitive: Primitive | None = None
    """The movement primitive, for episodic methods."""
