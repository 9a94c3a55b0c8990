"""Hyper-parameters of GTrXL. Every field can be set from the command line; presets fill them per task and scale."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from top_erl.algorithms.stepwise.config import StepConfig
from top_erl.errors import UserError
from top_erl.models.gtrxl import GatedTransformerConfig


@dataclass(frozen=True)
class GtrxlLearnConfig:
    """Exploration and the gradient steps."""

    initial_std: float = 1.0
    """Standard deviation of the actions at the start; it is trained, and the same in every state."""
    normalize_observations: bool = False
    """Subtract the running mean from observations and divide them by their running spread."""
    reward_clip: float = 10.0
    """Bound on rewards after `collect.reward_scale`."""
    epochs: int = 5
    """Passes over the steps of an iteration."""
    batch_size: int = 1024
    """Steps per gradient step, about; whole sequences enter."""
    rate: float = 2e-4
    """Learning rate of policy and critic, which share the transformer (Adam)."""
    discount: float = 0.99
    """Discount factor per step."""
    gae_lambda: float = 0.95
    """Weight of long returns in the advantages."""
    clip: float = 0.1
    """How far the importance ratio may leave 1."""
    critic_clip: float = 10.0
    """Bound on what the critic learns from a step, see `critic_clip_of`; 0: none."""
    critic_clip_of: Literal["change", "error"] = "change"
    """A bound on how far values leave those of the collecting critic (Stable-Baselines3), or on the squared error:
    steps with a larger one teach the critic nothing (RLlib)."""
    entropy_weight: float = 0.0
    """Weight of the policy's entropy in the loss."""
    critic_weight: float = 0.5
    """Weight of the critic's loss."""
    max_gradient: float = 0.5
    """Bound on the norm of the gradient of all parameters."""

    def __post_init__(self) -> None:
        """Check the values."""
        if self.epochs < 1 or self.batch_size < 2:
            raise UserError("learn.epochs must be at least 1 and learn.batch_size at least 2.")
        if min(self.initial_std, self.reward_clip, self.rate, self.clip) <= 0.0:
            raise UserError("learn.initial_std, reward_clip, rate and clip must be positive, all of them.")
        if min(self.critic_weight, self.max_gradient) <= 0.0 or min(self.critic_clip, self.entropy_weight) < 0.0:
            raise UserError(
                "learn.critic_weight and max_gradient must be positive, critic_clip and entropy_weight not negative."
            )
        if not (0.0 < self.discount <= 1.0 and 0.0 <= self.gae_lambda <= 1.0):
            raise UserError("learn.discount must lie in (0, 1] and learn.gae_lambda in [0, 1].")


@dataclass(frozen=True)
class GtrxlConfig(StepConfig):
    """All hyper-parameters of GTrXL."""

    network: GatedTransformerConfig = field(default_factory=GatedTransformerConfig)
    """The gated transformer."""
    learn: GtrxlLearnConfig = field(default_factory=GtrxlLearnConfig)
    """Exploration and the gradient steps."""
