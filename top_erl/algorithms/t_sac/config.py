"""Hyper-parameters of T-SAC. Every field can be set from the command line; presets fill them per task and scale."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from top_erl.algorithms.config import RatesConfig
from top_erl.algorithms.stepwise.config import StepConfig
from top_erl.errors import UserError
from top_erl.models.step_critic import StepCriticConfig
from top_erl.models.step_policy import StepPolicyConfig

Combination = Literal["mean", "min", "random"]
"""How the values of two target critics become one."""


@dataclass(frozen=True)
class TSacReplayConfig:
    """The replay of trajectories."""

    capacity: int = 5000
    """Trajectories the replay holds; the oldest give way."""

    def __post_init__(self) -> None:
        """Check the values."""
        if self.capacity < 1:
            raise UserError("replay.capacity must be at least 1.")


@dataclass(frozen=True)
class TSacLearnConfig(RatesConfig):
    """The gradient steps of T-SAC."""

    calls: int = 1
    """Updates per iteration, each with trajectories and targets of its own."""
    batch_size: int = 256
    """Trajectories per update, drawn with replacement."""
    critic_starts: int = 100
    """Critic steps of an update, at most: each has another start of segments, drawn without replacement."""
    policy_starts: int = 20
    """Policy steps of an update, at most: each has another step of the episodes."""
    starts: Literal["common", "own"] = "common"
    """Segments and policy steps of a gradient step start at one instant of all trajectories (as published), or at an
    instant of its own in each."""
    longest: int = 16
    """Segments have 1 to this many steps, drawn anew for every critic step; the episode's end cuts them."""
    discount: float = 0.99
    """Discount factor per step."""
    combine: Combination = "min"
    """How the two target critics become one: their mean, their minimum, or one of them drawn for every state."""
    target_rate: float = 0.005
    """Share of the critics that enters their targets after every critic step; 1: a copy at the end of every update."""
    critic_betas: tuple[float, ...] = (0.9, 0.999)
    """Both decay rates of the critics' AdamW."""
    max_gradient: float = 0.0
    """Bound on the norm of a network's gradient; 0: none."""
    critic_start: int = 0
    """Iterations before the first critic step."""
    policy_start: int = 0
    """Iterations before the first policy step."""
    entropy: Literal["auto", "fixed"] = "auto"
    """Learn the entropy coefficient, or keep it."""
    entropy_coefficient: float = 0.006715
    """The entropy coefficient, or where it starts; 0 only if it is kept. (softplus(-5) by default.)"""
    entropy_start: int = 10_000
    """Policy steps before the entropy coefficient moves."""
    standardize: bool = False
    """Standardise what the networks see of states, by the states of the first iteration."""

    def __post_init__(self) -> None:
        """Check the values."""
        super().__post_init__()
        if min(self.calls, self.batch_size, self.critic_starts, self.policy_starts, self.longest) < 1:
            raise UserError("learn.calls, batch_size, critic_starts, policy_starts and longest must be at least 1.")
        if not (0.0 < self.discount <= 1.0 and 0.0 < self.target_rate <= 1.0):
            raise UserError("learn.discount and learn.target_rate must lie in (0, 1].")
        if len(self.critic_betas) != 2 or not all(0.0 <= beta < 1.0 for beta in self.critic_betas):
            raise UserError("learn.critic_betas must be two numbers of at least 0, less than 1.")
        if min(self.max_gradient, self.critic_start, self.policy_start, self.entropy_start) < 0:
            raise UserError("learn.max_gradient, critic_start, policy_start and entropy_start must not be negative.")
        if self.entropy_coefficient < 0.0 or (self.entropy == "auto" and self.entropy_coefficient == 0.0):
            raise UserError("learn.entropy_coefficient must be positive, or 0 with --learn.entropy fixed.")


@dataclass(frozen=True)
class TSacConfig(StepConfig):
    """All hyper-parameters of T-SAC."""

    transformer_critic: ClassVar[bool] = True

    replay: TSacReplayConfig = field(default_factory=TSacReplayConfig)
    """The replay."""
    policy: StepPolicyConfig = field(default_factory=StepPolicyConfig)
    """The policy's networks."""
    critic: StepCriticConfig = field(default_factory=StepCriticConfig)
    """Both critics."""
    learn: TSacLearnConfig = field(default_factory=TSacLearnConfig)
    """The gradient steps."""

    def update_size(self, horizon: int) -> int:
        """Numbers in the widest layer of a critic step with segments of the usual length."""
        tokens = 1 + min(self.learn.longest, horizon) // 2
        return 4 * self.critic.width * tokens * self.learn.batch_size

    def remarks(self, horizon: int) -> list[str]:
        """How many gradient steps an iteration has."""
        learn = self.learn
        critic, policy = (learn.calls * min(starts, horizon) for starts in (learn.critic_starts, learn.policy_starts))
        return [f"{critic} critic steps and {policy} policy steps per {self.collect.steps} control steps."]
