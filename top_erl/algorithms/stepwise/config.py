"""Hyper-parameters that all step-based methods have in common: how control steps are collected."""

from __future__ import annotations

from dataclasses import dataclass, field

from top_erl.config.run import AlgorithmConfig
from top_erl.errors import UserError


@dataclass(frozen=True)
class StepCollectConfig:
    """How control steps are collected. Every iteration begins with fresh episodes."""

    environments: int = 8
    """Environments stepped together."""
    steps: int = 4000
    """Control steps per iteration, all environments together."""
    observe_time: bool = False
    """Append the share of the episode that is over to the observation."""
    bootstrap: bool = True
    """Value what would follow the episode's last step, as if the time limit interrupted it; else it ends there."""
    reward_scale: float = 1.0
    """Multiplies the rewards the learner sees."""

    def __post_init__(self) -> None:
        """Check the values."""
        if self.environments < 1 or self.steps < 1:
            raise UserError("collect.environments and collect.steps must be at least 1.")
        if self.steps % self.environments:
            raise UserError(
                f"collect.steps ({self.steps}) must be a multiple of collect.environments ({self.environments})."
            )
        if not self.reward_scale > 0.0:
            raise UserError("collect.reward_scale must be positive.")

    @property
    def steps_per_environment(self) -> int:
        """Steps that each environment makes in an iteration."""
        return self.steps // self.environments


@dataclass(frozen=True)
class StepConfig(AlgorithmConfig):
    """What all step-based methods have in common."""

    collect: StepCollectConfig = field(default_factory=StepCollectConfig)
    """How control steps are collected."""

    def episodes_per_iteration(self, horizon: int) -> float:
        """Episodes of `horizon` steps that an iteration's steps amount to."""
        return self.collect.steps / horizon
