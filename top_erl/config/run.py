"""The configuration of a training run: everything needed to repeat it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import tyro

from top_erl.config.limits import check_values
from top_erl.config.plan import PlanConfig
from top_erl.config.primitive import PrimitiveConfig
from top_erl.config.serialize import to_dict
from top_erl.errors import UserError

Scale = Literal["laptop", "paper"]
EPISODE_SECONDS = 300.0
"""Seconds after which an episode counts as hanging, unless somebody says otherwise."""
_VALUE_WIDTH = 128
"""Width of a typical value network."""


@dataclass(frozen=True)
class StoredEpisodes:
    """The form in which a learner is given the episodes that were played."""

    stride: int = 1
    """Control steps per token."""
    reward_scale: float = 1.0
    """Multiplies the rewards."""
    reward_shift: float = 0.0
    """Added to every step's reward before it is scaled."""
    reward_floor: float | None = None
    """Worse rewards of a step, as the task pays them, count as this; None: as they are."""
    behaviour: bool = False
    """Keep the policy that played each episode."""
    wide_share: float = 0.0
    """Share of the exploring episodes whose noise is wider than the policy's."""
    wide_factor: float = 1.0
    """By how much."""
    goalless: bool = False
    """Keep what is needed to count episodes for other goals."""


class AlgorithmConfig(ABC):
    """What a run must know of a method's hyper-parameters. A method's own class says where it differs."""

    transformer_critic: ClassVar[bool] = False
    """Whether the critic is a transformer, whose small updates gain from a second thread already."""

    @abstractmethod
    def episodes_per_iteration(self, horizon: int) -> float:
        """Episodes of `horizon` steps that an iteration collects; a fraction if it cuts the last ones off."""

    @property
    def prefill_episodes(self) -> int:
        """Episodes collected before the first iteration."""
        return 0

    @property
    def stored(self) -> StoredEpisodes:
        """The form in which an episodic learner is given its episodes."""
        return StoredEpisodes()

    @property
    def replanning(self) -> PlanConfig:
        """When an episodic policy is asked for a new plan in the middle of an episode; here never."""
        return PlanConfig()

    @property
    def timeout(self) -> float:
        """Seconds that a worker process may take for an episode; 0: as many as it likes."""
        return EPISODE_SECONDS

    @property
    def overlap(self) -> bool:
        """Whether the next episodes are played while the networks are updated."""
        return False

    def follows(self, start: AlgorithmConfig) -> dict[str, Any]:
        """Settings that follow from those changed since `start`, for who has not chosen them too."""
        return {}

    def remarks(self, horizon: int) -> list[str]:
        """Sentences on what these settings come to in episodes of `horizon` steps, where their names do not say it."""
        return []

    def update_size(self, horizon: int) -> int:
        """Numbers in the widest layer of one batch; here a value network that is given all states of an iteration."""
        return int(self.episodes_per_iteration(horizon) * horizon * _VALUE_WIDTH)


def check_timeout(seconds: float) -> None:
    """Refuse a time limit that makes no sense."""
    if not 0.0 <= seconds < math.inf:
        raise UserError("collect.timeout must be a number of seconds, at least 0; 0 means no limit.")


@dataclass(frozen=True)
class EvaluationConfig:
    """How the deterministic policy is evaluated during training."""

    interval: int = 20
    """Iterations between evaluations; the first and the last iteration are always evaluated."""
    episodes: int = 50
    """Episodes per evaluation, on seeds of their own, the same every time."""
    ranking_contexts: int = 0
    """Contexts in which evaluations also measure `critic_ranking`, how well TOP-ERL's critic ranks the movements of one
    context; each costs 16 episodes, which count neither as training steps nor as evaluation. 0: it is not measured."""
    stop_at_success: float | None = None
    """Success, between 0 and 1, at which a run ends before its budget does, if two evaluations in a row reach it. None:
    it goes on to the end."""

    def __post_init__(self) -> None:
        """Check the values."""
        if min(self.interval, self.episodes) < 1:
            raise UserError("evaluation.interval and evaluation.episodes must be at least 1.")
        if self.ranking_contexts < 0:
            raise UserError("evaluation.ranking_contexts must not be negative; 0 measures no ranking.")
        if self.stop_at_success is not None and not 0.0 < self.stop_at_success <= 1.0:
            raise UserError("evaluation.stop_at_success must lie in (0, 1]; leave it out to train to the end.")


@dataclass(frozen=True)
class CheckpointConfig:
    """When the run is saved."""

    interval: int = 25
    """Iterations between checkpoints; the last iteration and Ctrl-C save as well."""
    keep: int = 2
    """Checkpoints kept; older ones are deleted."""

    def __post_init__(self) -> None:
        """Check the values."""
        if min(self.interval, self.keep) < 1:
            raise UserError("checkpoint.interval and checkpoint.keep must be at least 1.")


@dataclass(frozen=True)
class LogConfig:
    """Where the numbers go besides `metrics.csv`."""

    tensorboard: bool = True
    """Write TensorBoard events if the package is installed."""
    wandb: Literal["off", "offline", "online"] = "off"
    """Log to Weights & Biases, on this disk or through an account there."""
    wandb_project: str = "top-erl"
    """Project name there."""


@dataclass(frozen=True)
class HardwareConfig:
    """What the run may use."""

    device: str = "cpu"
    """Torch device of the networks, e.g. cpu or cuda. No GPU was at hand: cuda has never been tried on one."""
    precision: Literal["float32", "bf16"] = "float32"
    """Precision of the critic's matrix products; bf16 is faster where the processor or GPU has instructions for it."""
    threads: int = 0
    """Threads of torch; 0: chosen for this machine."""
    workers: int = -1
    """Worker processes that play episodes; 0: play in this process; -1: chosen by timing one episode."""

    def __post_init__(self) -> None:
        """Check the values."""
        if self.threads < 0 or self.workers < -1:
            raise UserError("threads must be at least 0 and workers at least -1.")


@dataclass(frozen=True)
class RunConfig:
    """A training run. Each method has a subclass, with its hyper-parameters as `algorithm`."""

    task: str = "top_erl/ViaPointReacher-v0"
    """Task to learn: an id from `top-erl tasks`, or module:Class of your own."""
    method: str = "top_erl"
    """Learning method; all of them are named above, and `top-erl methods` says what they are."""
    scale: Scale = "laptop"
    """Preset the other options start from: laptop (minutes on two cores; on Box Pushing more than an hour) or paper
    (the published settings)."""
    seed: int = 0
    """Seed of everything random."""
    total_env_steps: int = 200_000
    """Control steps to train for, all episodes together."""
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    """How the policy is evaluated."""
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    """When the run is saved."""
    log: LogConfig = field(default_factory=LogConfig)
    """Where the numbers go."""
    hardware: Annotated[HardwareConfig, tyro.conf.arg(name="")] = field(default_factory=HardwareConfig)
    """What the run may use."""

    def __post_init__(self) -> None:
        """Check the values."""
        if self.seed < 0:
            raise UserError("seed must not be negative.")
        if self.total_env_steps < 1:
            raise UserError("total_env_steps must be at least 1.")
        check_values(self)

    @property
    def hyper_parameters(self) -> AlgorithmConfig:
        """The method's own part, `algorithm`."""
        return self.algorithm  # type: ignore[attr-defined]  # every subclass has one, each of its own type

    def total_iterations(self, horizon: int) -> int:
        """Iterations that use up `total_env_steps` of a task with episodes of `horizon` steps."""
        algorithm = self.hyper_parameters
        episodes = self.total_env_steps / horizon - algorithm.prefill_episodes
        return max(1, math.ceil(episodes / algorithm.episodes_per_iteration(horizon)))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `config.yaml`."""
        return to_dict(self)


@dataclass(frozen=True)
class EpisodicRun(RunConfig):
    """A run of a method that learns the parameters of a movement primitive."""

    primitive: PrimitiveConfig = field(default_factory=PrimitiveConfig)
    """The movement primitive."""
