"""What all methods share that learn a policy over movement primitives."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from top_erl.algorithms.learner import Learner
from top_erl.algorithms.optim import flatten_state, restore_state
from top_erl.models import GaussianPolicy
from top_erl.rollout import EpisodeCollector, Scores


class EpisodicLearner(Learner):
    """A learner whose policy predicts a whole movement from the episode's first state."""

    policy: GaussianPolicy
    collector: EpisodeCollector
    policy_optimizer: torch.optim.Optimizer
    critic_optimizer: torch.optim.Optimizer

    @property
    def episodes_collected(self) -> int:
        """Training episodes played so far."""
        return self.collector.episodes_collected

    @episodes_collected.setter
    def episodes_collected(self, count: int) -> None:
        self.collector.episodes_collected = count

    @property
    def env_steps(self) -> int:
        """Control steps of the training episodes so far."""
        return self.episodes_collected * self.collector.spec.horizon

    @env_steps.setter
    def env_steps(self, count: int) -> None:
        if count != self.env_steps:
            raise ValueError(f"{count} steps are not {self.episodes_collected} whole episodes")

    def evaluate(self, seeds: Sequence[int]) -> Scores:
        """Play the policy's mean, one episode per seed."""
        return self.collector.evaluate(self.policy, seeds)

    def film(self, seed: int, every: int) -> list[NDArray[np.uint8]]:
        """Play the policy's mean; pictures after each `every`-th step and after the last."""
        return self.collector.film(self.policy, seed, every)

    def close(self) -> None:
        """Release the player's simulators and processes."""
        self.collector.player.close()

    # ------------------------------------------------------------------ saving

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that training has changed, as plain tensors; a replay has its own."""
        return flatten_state(self._modules(), self._optimizers())

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take over a saved state."""
        restore_state(state, self._modules(), self._optimizers())

    @abstractmethod
    def _modules(self) -> dict[str, nn.Module]:
        """All networks by their names in a saved state."""

    def _optimizers(self) -> dict[str, torch.optim.Optimizer]:
        return {"policy_optimizer": self.policy_optimizer, "critic_optimizer": self.critic_optimizer}
