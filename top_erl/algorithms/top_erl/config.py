"""Hyper-parameters of TOP-ERL. Every field can be set from the command line; presets fill them per task and scale."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from top_erl.algorithms.config import ProjectionConfig, RatesConfig
from top_erl.algorithms.top_erl.segments import SegmentsConfig
from top_erl.algorithms.top_erl.targets import TARGETS
from top_erl.config.plan import PlanConfig
from top_erl.config.run import EPISODE_SECONDS, AlgorithmConfig, StoredEpisodes, check_timeout
from top_erl.errors import UserError, unknown_name
from top_erl.models.policy import PolicyConfig
from top_erl.models.transformer import CriticConfig


@dataclass(frozen=True)
class CollectConfig:
    """How episodes are collected and stored."""

    episodes: int = 8
    """Episodes per iteration."""
    prefill: int = 32
    """Episodes collected before the first iteration."""
    capacity: int = 3000
    """Episodes the replay holds; the oldest give way."""
    stride: int = 1
    """Control steps per stored token; the task's horizon must be a multiple of it."""
    reward_scale: float = 1.0
    """Multiplies the rewards the critic sees (each token's is the sum over its steps, times this)."""
    reward_shift: float = 0.0
    """Added to every step's reward before it is scaled. All episodes last equally long, so it favours no policy; but
    values near zero are learned faster than large ones."""
    reward_floor: float | None = None
    """Worse rewards of a step, as the task pays them, count as this for the critic; None: they count as they are. Rare
    disasters else make up most of a critic's error, and it learns little about everything else."""
    reward_spread: float | None = None
    """Standard deviation that the replay's returns are brought to for the critic, anew in every iteration, after each
    token's mean over the replay was taken off; None: rewards stay as they are (as in the paper). So tasks that pay
    little and tasks that pay much look alike, and so do the beginning of a run and its end."""
    reward_trim: float = 0.0
    """Share of the replay's rewards of each token, the worst ones, that count as the best of them (with
    `reward_spread`): a floor that follows the run, and that each token has for itself."""
    wide_share: float = 0.0
    """Share of the exploring episodes whose noise is `wide_factor` times the policy's: what a narrow policy would never
    try is seen now and then, and off-policy learning needs no correction for it (not in the paper)."""
    wide_factor: float = 3.0
    """How much wider the noise of these episodes is."""
    overlap: bool = False
    """Play the next episodes while the networks are updated; they come from the policy before the update."""
    timeout: float = EPISODE_SECONDS
    """Seconds that a worker process may take for an episode before it is killed, and the episode left out; 0: no limit.
    Episodes that are played in this process (`--workers 0`) have none."""

    def __post_init__(self) -> None:
        """Check the values."""
        if min(self.episodes, self.capacity, self.stride) < 1 or self.prefill < 0:
            raise UserError("collect.episodes, capacity and stride must be at least 1, collect.prefill at least 0.")
        if self.overlap and self.prefill < 1:
            raise UserError(
                "collect.overlap needs collect.prefill of at least 1: the first update has no episodes else."
            )
        if max(self.episodes, self.prefill) > self.capacity:
            raise UserError("collect.capacity must hold the episodes of an iteration and the prefill.")
        if not self.reward_scale > 0.0:
            raise UserError("collect.reward_scale must be positive.")
        if self.reward_spread is not None and not self.reward_spread > 0.0:
            raise UserError("collect.reward_spread must be positive; leave it out to take rewards as they are.")
        if not 0.0 <= self.reward_trim < 1.0:
            raise UserError("collect.reward_trim must be at least 0 and less than 1.")
        if self.reward_trim and self.reward_spread is None:
            raise UserError("collect.reward_trim has an effect with collect.reward_spread only: give that as well.")
        if not (0.0 <= self.wide_share <= 1.0 and self.wide_factor > 0.0):
            raise UserError("collect.wide_share must lie in [0, 1], and collect.wide_factor must be positive.")
        check_timeout(self.timeout)


@dataclass(frozen=True)
class TrustRegionConfig(ProjectionConfig):
    """How far the policy may move from the anchor policy."""

    anchor: Literal["ema", "behaviour"] = "ema"
    """Measure from a moving average of the policy, or from the policy that collected each episode."""
    anchor_rate: float = 0.1
    """Share of the current policy that enters the moving average each iteration."""

    def __post_init__(self) -> None:
        """Check the values."""
        super().__post_init__()
        if not 0.0 < self.anchor_rate <= 1.0:
            raise UserError("trust_region.anchor_rate must lie in (0, 1].")


@dataclass(frozen=True)
class LearnConfig(RatesConfig):
    """The gradient steps."""

    batch_size: int = 32
    """Episodes per gradient step, drawn with replacement."""
    critic_steps: int = 40
    """Critic steps per iteration."""
    policy_steps: int = 15
    """Policy steps per iteration."""
    critic_start: int = 1
    """First iteration with critic steps."""
    policy_start: int = 1
    """First iteration with policy steps."""
    critic_rate: float = 1e-3
    """Learning rate of the critic (AdamW)."""
    policy_rate: float = 5e-4
    """Learning rate of the policy (Adam)."""
    critic_decay: float = 1e-5
    """Decoupled weight decay of the critic's matrices."""
    policy_decay: float = 1e-5
    """Coupled (L2) weight decay of the policy."""
    standardize: bool = False
    """Standardise the networks' inputs by the mean and spread of the prefill episodes (not in the paper)."""
    policy_statistics: Literal["trajectories", "contexts"] = "trajectories"
    """States that standardise the policy's inputs: all of the prefill's, as the critic's, or the first ones of its
    episodes, which are all that the policy ever sees. Without `standardize` it has no effect."""
    target: str = "v"
    """Critic target: v, q, clipped (the minimum of two critics), ensemble (their mean), or one you have registered."""
    ensemble_size: int = 2
    """Critics of the ensemble target."""
    target_rate: float = 0.005
    """Share of the critic that enters its target network after every critic step."""
    discount: float = 1.0
    """Discount factor per stored token."""
    critic_condition: Literal["segment", "episode"] = "segment"
    """New actions of the critic target start from each segment's old reference, or from the episode's start."""
    policy_condition: Literal["episode", "segment"] = "episode"
    """The same choice for the actions the policy is improved with."""
    hindsight: float = 0.0
    """Share of a critic step's episodes that are counted as if they had had another goal, for tasks that say what that
    would have paid (`goal_rule`); 0: none (as in the paper)."""
    hindsight_reached: float = 0.5
    """Share of these whose goal is what the episode has reached at its end; the others get the goal of another one."""
    policy_objective: Literal["sum", "mean"] = "sum"
    """Sum over the actions of a segment (authors' code) or average (paper, Eq. 9)."""

    def __post_init__(self) -> None:
        """Check the values."""
        super().__post_init__()
        if self.batch_size < 1 or min(self.critic_steps, self.policy_steps) < 0:
            raise UserError("learn.batch_size must be at least 1; critic_steps and policy_steps must not be negative.")
        if not (0.0 < self.target_rate <= 1.0 and 0.0 < self.discount <= 1.0):
            raise UserError("learn.target_rate and learn.discount must lie in (0, 1].")
        if not (0.0 <= self.hindsight <= 1.0 and 0.0 <= self.hindsight_reached <= 1.0):
            raise UserError("learn.hindsight and learn.hindsight_reached must lie in [0, 1].")
        if self.target not in TARGETS:
            raise unknown_name("learn.target", self.target, TARGETS)
        if self.target == "ensemble" and self.ensemble_size < 2:
            raise UserError("learn.ensemble_size must be at least 2.")


@dataclass(frozen=True)
class TopErlConfig(AlgorithmConfig):
    """All of TOP-ERL's hyper-parameters but the movement primitive's."""

    transformer_critic: ClassVar[bool] = True
    collect: CollectConfig = field(default_factory=CollectConfig)
    """How episodes are collected and stored."""
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    """The Gaussian policy."""
    critic: CriticConfig = field(default_factory=CriticConfig)
    """The transformer critic."""
    segments: SegmentsConfig = field(default_factory=SegmentsConfig)
    """How episodes are cut."""
    trust_region: TrustRegionConfig = field(default_factory=TrustRegionConfig)
    """How far the policy may move."""
    learn: LearnConfig = field(default_factory=LearnConfig)
    """The gradient steps."""
    plan: PlanConfig = field(default_factory=PlanConfig)
    """When the policy is asked for a new plan in the middle of an episode; by default never."""

    def __post_init__(self) -> None:
        """Check values that depend on each other."""
        self.plan.check_stride(self.collect.stride)
        if self.learn.standardize and self.collect.prefill < 2:
            raise UserError("learn.standardize needs collect.prefill of at least 2 to take statistics from.")
        if self.learn.hindsight and self.trust_region.anchor == "behaviour":
            raise UserError(
                "With learn.hindsight the policy is asked for goals that it has not acted for, so there is no "
                "behaviour to measure from: use --trust-region.anchor ema, or --learn.hindsight 0."
            )

    @property
    def prefill_episodes(self) -> int:
        """Episodes collected before the first iteration."""
        return self.collect.prefill

    @property
    def stored(self) -> StoredEpisodes:
        """The form in which the replay holds episodes."""
        collect, behaviour = self.collect, self.trust_region.anchor == "behaviour"
        rewards = (collect.reward_scale, collect.reward_shift, collect.reward_floor)
        return StoredEpisodes(
            collect.stride,
            *rewards,
            behaviour=behaviour,
            wide_share=collect.wide_share,
            wide_factor=collect.wide_factor,
            goalless=self.learn.hindsight > 0.0,
        )

    @property
    def replanning(self) -> PlanConfig:
        """When the policy is asked for a new plan in the middle of an episode."""
        return self.plan

    @property
    def overlap(self) -> bool:
        """Whether the next episodes are played while the networks are updated."""
        return self.collect.overlap

    def follows(self, start: AlgorithmConfig) -> dict[str, Any]:
        """Settings that follow from those changed since `start`."""
        return self.trust_region.follows(start.trust_region) if isinstance(start, TopErlConfig) else {}

    def remarks(self, horizon: int) -> list[str]:
        """How long fixed segments are, an entropy bound without a trust region, how many plans an episode has."""
        segments = self.segments.remark(horizon // self.collect.stride)
        return [remark for remark in (segments, self.trust_region.remark(), self.plan.remark(horizon)) if remark]

    @property
    def timeout(self) -> float:
        """Seconds that a worker process may take for an episode."""
        return self.collect.timeout

    def episodes_per_iteration(self, horizon: int) -> float:
        """Episodes that an iteration collects."""
        return self.collect.episodes

    def update_size(self, horizon: int) -> int:
        """Numbers in the critic's tokens of a batch."""
        return self.learn.batch_size * (horizon // self.collect.stride) * self.critic.width
