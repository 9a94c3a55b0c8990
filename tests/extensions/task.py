"""A task of one's own: two joints that follow the reference exactly must end at a point."""

from collections.abc import Sequence

import numpy as np

from top_erl.tasks import EpisodeOutcomes, EpisodeStarts, Task, TaskSpec
from top_erl.tasks.contract import Array


class ReachPoint(Task):
    spec = TaskSpec("extension/ReachPoint-v0", 4, num_dof=2, horizon=20, dt=0.05, metrics=("success",))

    def begin(self, seeds: Sequence[int]) -> EpisodeStarts:
        self.goal = np.stack([np.random.default_rng(seed).uniform(-1, 1, 2) for seed in seeds])
        still = np.zeros_like(self.goal)
        return EpisodeStarts(np.concatenate((self.goal, still), axis=1), position=still, velocity=still)

    def play(self, reference: Array) -> EpisodeOutcomes:
        position = reference[..., :2]  # [B, T, D]
        before = np.concatenate((np.zeros_like(position[:, :1]), position[:, :-1]), axis=1)
        goal = np.broadcast_to(self.goal[:, None], position.shape)
        distance = np.linalg.norm(position - goal, axis=-1)  # [B, T]
        observation = np.concatenate((goal, before), axis=-1)
        return EpisodeOutcomes(observation, -distance, {"success": (distance[:, -1] < 0.1).astype(float)})
