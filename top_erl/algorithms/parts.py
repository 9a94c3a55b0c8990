"""What a run hands to a method: the task, who plays it, and the counters everything random derives from."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from top_erl.primitives import ProDmp
from top_erl.rollout import EpisodeCollector
from top_erl.tasks import Task, TaskSpec


@dataclass(frozen=True)
class RunParts:
    """The surroundings of a learner."""

    task: Task
    """The task in this process."""
    task_id: str
    """Its name, for other processes."""
    spec: TaskSpec
    """The facts about it."""
    seed: int
    """Seed of everything random."""
    total_iterations: int
    """Iterations of the whole run."""
    workers: int
    """Worker processes; 0: play in this process."""
    device: torch.device
    """Where the networks live."""
    collector: EpisodeCollector | None = None
    """Plays whole episodes, for episodic methods."""
    primitive: ProDmp | None = None
    """The movement primitive, for episodic methods."""
