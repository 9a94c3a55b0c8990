"""Hyper-parameters that the on-policy episodic methods, BBRL and TCE, share. Presets fill them per task and scale."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from top_erl.algorithms.config import ProjectionConfig, RatesConfig
from top_erl.config.run import EPISODE_SECONDS, AlgorithmConfig, check_timeout
from top_erl.errors import UserError
from top_erl.models.policy import PolicyConfig
from top_erl.models.value import ValueConfig


@dataclass(frozen=True)
class OnPolicyCollectConfig:
    """How episodes are collected. Each is used in one iteration and forgotten."""

    episodes: int = 16
    """Episodes per iteration."""
    reward_scale: float = 1.0
    """Multiplies the rewards the critic sees; advantages are normalised anyway."""
    timeout: float = EPISODE_SECONDS
    """Seconds that a worker process may take for an episode before it is killed, and the episode left out; 0: no limit.
    Episodes that are played in this process (`--workers 0`) have none."""

    def __post_init__(self) -> None:
        """Check the values."""
        if self.episodes < 1:
            raise UserError("collect.episodes must be at least 1.")
        if not self.reward_scale > 0.0:
            raise UserError("collect.reward_scale must be positive.")
        check_timeout(self.timeout)


@dataclass(frozen=True)
class OnPolicyTrustRegionConfig(ProjectionConfig):
    """How far the policy may move from the one that collected the episodes, per iteration."""

    covariance_bound: float = 0.001
    """Bound on the covariance's part of the distance."""
    set_covariance: bool = False
    """Write the projected covariance into the policy after the last policy epoch, instead of pulling it there by that
    loss; needs a shared covariance."""


@dataclass(frozen=True)
class OnPolicyLearnConfig(RatesConfig):
    """The gradient steps: every epoch is one step on all episodes of the iteration."""

    critic_epochs: int = 50
    """Critic steps per iteration."""
    policy_epochs: int = 50
    """Policy steps per iteration."""
    normalize_advantage: bool = True
    """Bring the advantages of an iteration to zero mean and unit spread."""
    standardize: int = 0
    """Starts of episodes whose mean and spread standardise the policy's inputs; 0: raw inputs, as in the paper."""
    precision: Literal["float32", "float64"] = "float32"
    """Precision of the networks and of all that is computed with them."""

    def __post_init__(self) -> None:
        """Check the values."""
        super().__post_init__()
        if min(self.critic_epochs, self.policy_epochs) < 0:
            raise UserError("learn.critic_epochs and policy_epochs must not be negative.")
        if self.standardize < 0 or self.standardize == 1:
            raise UserError("learn.standardize must be 0 (off) or at least 2 to take statistics from.")


@dataclass(frozen=True)
class OnPolicyConfig(AlgorithmConfig):
    """What BBRL and TCE have in common."""

    collect: OnPolicyCollectConfig = field(default_factory=OnPolicyCollectConfig)
    """How episodes are collected."""
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    """The Gaussian policy."""
    critic: ValueConfig = field(default_factory=ValueConfig)
    """The state-value network."""
    trust_region: OnPolicyTrustRegionConfig = field(default_factory=OnPolicyTrustRegionConfig)
    """How far the policy may move."""
    learn: OnPolicyLearnConfig = field(default_factory=OnPolicyLearnConfig)
    """The gradient steps."""

    def __post_init__(self) -> None:
        """Check values that depend on each other."""
        if self.trust_region.set_covariance and self.policy.contextual:
            raise UserError("trust_region.set_covariance needs one covariance for all states: policy.contextual false.")

    def follows(self, start: AlgorithmConfig) -> dict[str, Any]:
        """Settings that follow from those changed since `start`."""
        return self.trust_region.follows(start.trust_region) if isinstance(start, OnPolicyConfig) else {}

    def remarks(self, horizon: int) -> list[str]:
        """An entropy bound without a trust region."""
        return [remark for remark in (self.trust_region.remark(),) if remark]

    @property
    def timeout(self) -> float:
        """Seconds that a worker process may take for an episode."""
        return self.collect.timeout

    def episodes_per_iteration(self, horizon: int) -> float:
        """Episodes that an iteration collects."""
        return self.collect.episodes
