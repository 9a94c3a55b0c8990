"""Hyper-parameters of the on-policy episodic methods, BBRL and TCE. Presets fill them per task and scale."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from top_erl.algorithms.config import TrustRegionConfig
from top_erl.errors import UserError
from top_erl.models.policy import PolicyConfig
from top_erl.models.value import ValueConfig
from top_erl.trust_region import EntropySchedule, Projection

AdvantageName = Literal["value_subtraction", "accumulate", "accumulated_rewards"]


@dataclass(frozen=True)
class OnPolicyCollectConfig:
    """How episodes are collected. Each is used in one iteration and forgotten."""

    episodes: int = 16
    """Episodes per iteration."""
    reward_scale: float = 1.0
    """Factor on the rewards the critic sees; advantages are normalised anyway."""

    def __post_init__(self) -> None:
        """Check the values."""
        if self.episodes < 1:
            raise UserError("collect.episodes must be at least 1.")
        if not self.reward_scale > 0.0:
            raise UserError("collect.reward_scale must be positive.")


@dataclass(frozen=True)
class OnPolicyTrustRegionConfig:
    """How far the policy may move from the one that collected the episodes, per iteration."""

    projection: Literal["kl", "w2", "frobenius", "none"] = "kl"
    """Distance that is bounded, or none to switch the trust region off (an ablation)."""
    mean_bound: float = 0.05
    """Bound on the mean's part of the distance."""
    covariance_bound: float = 0.001
    """Bound on the covariance's part of the distance."""
    regression_weight: float = 1.0
    """Weight of the loss that pulls the network's output towards the projected one."""
    set_covariance: bool = False
    """Write the projected covariance into the policy after the last policy epoch, instead of pulling it there by that
    loss; needs a shared covariance."""
    entropy: Literal["none", "linear", "exponential"] = "none"
    """Schedule of the lower bound on the policy's entropy."""
    entropy_target: float = 0.0
    """Entropy per parameter at the end of the schedule."""
    entropy_temperature: float = 0.5
    """Decay of the exponential schedule."""

    def __post_init__(self) -> None:
        """Check the values."""
        self._shared()

    def build_projection(self) -> Projection:
        """Make the projection."""
        return self._shared().build_projection()

    def build_entropy_schedule(self) -> EntropySchedule:
        """Make the schedule of the entropy bound."""
        return self._shared().build_entropy_schedule()

    def _shared(self) -> TrustRegionConfig:
        """What TOP-ERL's trust region has as well, checked; an anchor of its own it does not need."""
        return TrustRegionConfig(
            projection=self.projection,
            mean_bound=self.mean_bound,
            covariance_bound=self.covariance_bound,
            regression_weight=self.regression_weight,
            entropy=self.entropy,
            entropy_target=self.entropy_target,
            entropy_temperature=self.entropy_temperature,
        )


@dataclass(frozen=True)
class OnPolicyLearnConfig:
    """The gradient steps: every epoch is one step on all episodes of the iteration."""

    critic_epochs: int = 50
    """Critic steps per iteration."""
    policy_epochs: int = 50
    """Policy steps per iteration."""
    critic_rate: float = 3e-4
    """Learning rate of the critic (Adam)."""
    policy_rate: float = 3e-4
    """Learning rate of the policy (Adam)."""
    critic_decay: float = 0.0
    """Coupled (L2) weight decay of the critic."""
    policy_decay: float = 0.0
    """Coupled (L2) weight decay of the policy."""
    final_rate: float = 1.0
    """Factor on both learning rates after `rate_iterations`, reached linearly; 1: constant."""
    rate_iterations: int = 0
    """Iterations over which the learning rates fall; 0: the whole run."""
    normalize_advantage: bool = True
    """Bring the advantages of an iteration to zero mean and unit spread."""
    standardize: int = 0
    """Starts of episodes whose mean and spread standardise the policy's inputs; 0: raw inputs, as in the paper."""
    precision: Literal["float32", "float64"] = "float32"
    """Precision of the networks and of all that is computed with them."""

    def __post_init__(self) -> None:
        """Check the values."""
        if min(self.critic_epochs, self.policy_epochs, self.rate_iterations) < 0:
            raise UserError("learn.critic_epochs, policy_epochs and rate_iterations must not be negative.")
        if min(self.critic_rate, self.policy_rate) <= 0.0 or min(self.critic_decay, self.policy_decay) < 0.0:
            raise UserError("learn.critic_rate and policy_rate must be positive, the decays not negative.")
        if not 0.0 <= self.final_rate <= 1.0:
            raise UserError("learn.final_rate must lie in [0, 1].")
        if self.standardize < 0 or self.standardize == 1:
            raise UserError("learn.standardize must be 0 (off) or at least 2 to take statistics from.")


@dataclass(frozen=True)
class OnPolicyConfig:
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

    @property
    def prefill_episodes(self) -> int:
        """Episodes collected before the first iteration: none."""
        return 0

    def episodes_per_iteration(self, horizon: int) -> float:
        """Episodes that an iteration collects."""
        return self.collect.episodes


@dataclass(frozen=True)
class BbrlConfig(OnPolicyConfig):
    """All of BBRL's hyper-parameters but the movement primitive's; `policy.covariance` makes it Std or Cov."""

    trust_region: OnPolicyTrustRegionConfig = field(
        default_factory=lambda: OnPolicyTrustRegionConfig(regression_weight=10.0, set_covariance=True)
    )
    """How far the policy may move."""


@dataclass(frozen=True)
class TceSegmentsConfig:
    """How TCE cuts episodes into segments and credits them."""

    points: int = 25
    """Instants that cut an episode, at a fixed distance and a random offset; segments lie between neighbours."""
    advantage: AdvantageName = "value_subtraction"
    """A segment's credit: its rewards and the change of value between its ends, the sum of its steps' advantages, or
    its rewards compared with the other episodes'."""
    regularization: float = 1e-4
    """Added to the variances of positions, as a fraction of the largest one."""

    def __post_init__(self) -> None:
        """Check the values."""
        if self.points < 2:
            raise UserError("segments.points must be at least 2: a segment lies between two of them.")
        if not self.regularization > 0.0:
            raise UserError("segments.regularization must be positive; the first positions hardly vary, e.g. 1e-4.")


@dataclass(frozen=True)
class TceLearnConfig(OnPolicyLearnConfig):
    """The gradient steps, and the critic's targets."""

    discount: float = 1.0
    """Discount factor per control step."""
    trace: float = 0.95
    """λ of generalised advantage estimation."""
    normalize_states: bool = True
    """Normalise the critic's inputs by running statistics of all states seen so far."""

    def __post_init__(self) -> None:
        """Check the values."""
        super().__post_init__()
        if not (0.0 < self.discount <= 1.0 and 0.0 <= self.trace <= 1.0):
            raise UserError("learn.discount must lie in (0, 1], learn.trace in [0, 1].")


@dataclass(frozen=True)
class TceConfig(OnPolicyConfig):
    """All of TCE's hyper-parameters but the movement primitive's."""

    learn: TceLearnConfig = field(default_factory=TceLearnConfig)
    """The gradient steps, and the critic's targets."""
    segments: TceSegmentsConfig = field(default_factory=TceSegmentsConfig)
    """How episodes are cut and credited."""
