"""What all methods share that learn a policy over movement primitives: TOP-ERL, TCE and BBRL.

Axes: `B` episodes, `S` state entries, `P` primitive parameters.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from top_erl.algorithms.config import ProjectionConfig, RatesConfig
from top_erl.algorithms.learner import Learner
from top_erl.algorithms.optim import flatten_state, restore_state, set_rate
from top_erl.algorithms.saved_state import check_state, check_tensors
from top_erl.algorithms.setup import Setup
from top_erl.models.policy import GaussianPolicy, PolicyConfig
from top_erl.models.tools import seeded
from top_erl.rollout.collector import Scores
from top_erl.seeding import derive


class EpisodicConfig(Protocol):
    """What the hyper-parameters of every such method contain."""

    @property
    def policy(self) -> PolicyConfig:
        """The Gaussian policy."""

    @property
    def trust_region(self) -> ProjectionConfig:
        """How far the policy may move."""

    @property
    def learn(self) -> RatesConfig:
        """The gradient steps."""


class EpisodicLearner(Learner):
    """A learner whose policy predicts a whole movement from the episode's first state."""

    config: EpisodicConfig
    policy: GaussianPolicy
    policy_optimizer: torch.optim.Optimizer
    critic_optimizer: torch.optim.Optimizer

    def __init__(self, config: EpisodicConfig, setup: Setup, dtype: torch.dtype = torch.float32) -> None:
        """Build networks and the trust region; all randomness derives from the run's seed."""
        assert setup.collector is not None
        assert setup.primitive is not None
        self.collector, self.primitive, self.device = setup.collector, setup.primitive, setup.device
        self.seed, self.total_iterations = setup.seed, setup.total_iterations
        self.state_dim = setup.spec.observation_dim + 1  # the time comes last
        self.policy_dim = self.state_dim + self.collector.plan_inputs
        with seeded(derive(setup.seed, "networks", 0)):
            self.make_networks()
        self.projection = config.trust_region.build_projection()
        self._entropy_schedule = config.trust_region.build_entropy_schedule()
        with torch.no_grad():
            first = torch.zeros(1, self.policy_dim, dtype=dtype, device=self.device)
            self.initial_entropy = float(self.policy(first).entropy().mean())

    @abstractmethod
    def make_networks(self) -> None:
        """Build the policy, the critic and their optimisers, in this order."""

    # ------------------------------------------------------------------ schedules

    def set_learning_rates(self, iteration: int) -> None:
        """Let both learning rates fall linearly; the first iteration has them in full."""
        learn = self.config.learn
        multiplier = learn.rate_multiplier(iteration, self.total_iterations)
        set_rate(self.critic_optimizer, multiplier * learn.critic_rate)
        set_rate(self.policy_optimizer, multiplier * learn.policy_rate)

    def entropy_bound(self, iteration: int) -> float | None:
        """Lower bound on the policy's entropy at an iteration; None without a schedule."""
        return self._entropy_schedule.bound(
            iteration, self.total_iterations, self.initial_entropy, self.primitive.num_params
        )

    # ------------------------------------------------------------------ counters and playing

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

    def check_state(self, state: dict[str, Tensor], replay: dict[str, Tensor]) -> None:
        """Refuse saved tensors of other networks; what a replay should look like, its method knows."""
        check_state(state, self.state_dict(), self._optimizers())

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take over a saved state."""
        restore_state(state, self._modules(), self._optimizers())

    def policy_state(self) -> dict[str, Tensor]:
        """The policy alone."""
        return flatten_state({"policy": self.policy}, {})

    def load_policy(self, state: dict[str, Tensor]) -> None:
        """Take over a policy that was saved alone."""
        check_tensors(state, self.policy_state())
        restore_state(state, {"policy": self.policy}, {})

    @abstractmethod
    def _modules(self) -> dict[str, nn.Module]:
        """All networks by their names in a saved state."""

    def _optimizers(self) -> dict[str, torch.optim.Optimizer]:
        return {"policy_optimizer": self.policy_optimizer, "critic_optimizer": self.critic_optimizer}
