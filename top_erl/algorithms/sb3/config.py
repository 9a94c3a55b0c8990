"""Hyper-parameters of the step-based methods: PPO and gSDE (`PpoConfig`), SAC and PINK (`SacConfig`).

Every field can be set from the command line; presets fill them per task and scale.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from top_erl.algorithms.stepwise.config import StepConfig
from top_erl.errors import UserError

Activation = Literal["tanh", "relu", "leaky_relu", "elu"]
"""Name of an activation function."""


@dataclass(frozen=True)
class NormalizeConfig:
    """What is brought to unit size by running statistics."""

    observations: bool = True
    """Subtract the running mean from observations and divide them by their running spread."""
    rewards: bool = True
    """Divide rewards by the running spread of discounted returns."""
    observation_clip: float = 10.0
    """Bound on normalised observations."""
    reward_clip: float = 10.0
    """Bound on normalised rewards; rewards that are not normalised are not clipped either."""

    def __post_init__(self) -> None:
        """Check the values."""
        if min(self.observation_clip, self.reward_clip) <= 0.0:
            raise UserError("normalize.observation_clip and normalize.reward_clip must be positive.")

    @property
    def anything(self) -> bool:
        """Whether there is something to normalise."""
        return self.observations or self.rewards


@dataclass(frozen=True)
class PpoNetworksConfig:
    """Networks and exploration of PPO and gSDE."""

    policy_hidden: tuple[int, ...] = (64, 64)
    """Width of each hidden layer of the policy."""
    critic_hidden: tuple[int, ...] = (64, 64)
    """Width of each hidden layer of the critic."""
    activation: Activation = "tanh"
    """Activation function."""
    orthogonal: bool = True
    """Initialise weights orthogonally; else as PyTorch does."""
    initial_std: float = 1.0
    """Standard deviation of the actions at the start; with gSDE, of the exploration matrix's entries."""
    use_sde: bool = False
    """Explore with noise that depends on the state (gSDE)."""
    sde_sample_freq: int = 4
    """Steps after which gSDE draws a new exploration matrix."""

    def __post_init__(self) -> None:
        """Check the values."""
        check_widths(self.policy_hidden, self.critic_hidden)
        if not self.initial_std > 0.0:
            raise UserError("networks.initial_std must be positive.")
        if self.sde_sample_freq < 1:
            raise UserError("networks.sde_sample_freq must be at least 1.")


@dataclass(frozen=True)
class PpoLearnConfig:
    """The gradient steps of PPO and gSDE."""

    epochs: int = 10
    """Passes over the steps of an iteration."""
    batch_size: int = 500
    """Steps per gradient step."""
    policy_rate: float = 3e-4
    """Learning rate of the policy (Adam)."""
    critic_rate: float = 3e-4
    """Learning rate of the critic (Adam)."""
    discount: float = 0.99
    """Discount factor per step."""
    gae_lambda: float = 0.95
    """Weight of long returns in the advantages."""
    clip: float = 0.2
    """How far the importance ratio may leave 1."""
    critic_clip: float = 0.2
    """How far values may leave those of the collecting critic; 0: as far as they like."""
    final_clip: float = 1.0
    """Multiplies both clips in the end, reached linearly; 1: constant. A run that is extended stretches the fall."""
    clip_fall: float = 1.0
    """Share of the run during which the clips fall."""
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
        if min(self.policy_rate, self.critic_rate, self.clip, self.critic_weight, self.max_gradient) <= 0.0:
            raise UserError(
                "learn.policy_rate, critic_rate, clip, critic_weight and max_gradient must be positive, all of them."
            )
        if min(self.critic_clip, self.entropy_weight) < 0.0:
            raise UserError("learn.critic_clip and learn.entropy_weight must not be negative.")
        if not (0.0 < self.discount <= 1.0 and 0.0 < self.clip_fall <= 1.0):
            raise UserError("learn.discount and learn.clip_fall must lie in (0, 1].")
        if not (0.0 <= self.gae_lambda <= 1.0 and 0.0 <= self.final_clip <= 1.0):
            raise UserError("learn.gae_lambda and learn.final_clip must lie in [0, 1].")


@dataclass(frozen=True)
class PpoConfig(StepConfig):
    """All hyper-parameters of PPO; with `networks.use_sde`, of gSDE."""

    normalize: NormalizeConfig = field(default_factory=NormalizeConfig)
    """What is normalised."""
    networks: PpoNetworksConfig = field(default_factory=PpoNetworksConfig)
    """Networks and exploration."""
    learn: PpoLearnConfig = field(default_factory=PpoLearnConfig)
    """The gradient steps."""

    def __post_init__(self) -> None:
        """Check values that depend on each other."""
        steps, batch = self.collect.steps, self.learn.batch_size
        if steps % batch:
            raise UserError(f"collect.steps ({steps}) must be a multiple of learn.batch_size ({batch}).")


@dataclass(frozen=True)
class SacNetworksConfig:
    """Networks and exploration of SAC and PINK; weights start as PyTorch draws them, from the fan-in."""

    policy_hidden: tuple[int, ...] = (256, 256)
    """Width of each hidden layer of the policy."""
    critic_hidden: tuple[int, ...] = (256, 256)
    """Width of each hidden layer of both critics."""
    activation: Activation = "relu"
    """Activation function."""
    noise: Literal["white", "pink"] = "white"
    """Explore with independent noise (SAC), or with noise whose power falls with the frequency (PINK)."""
    noise_length: int = 0
    """Steps of the pink sequence that an episode takes its noise from, the longest period in it; 0: the episode's."""

    def __post_init__(self) -> None:
        """Check the values."""
        check_widths(self.policy_hidden, self.critic_hidden)
        if self.noise_length < 0:
            raise UserError("networks.noise_length must not be negative.")


@dataclass(frozen=True)
class SacLearnConfig:
    """The gradient steps of SAC and PINK."""

    update_every: int = 8
    """Control steps, all environments together, between rounds of gradient steps."""
    gradient_steps: int = 1
    """Gradient steps of a round: as many as `update_every` are one per control step."""
    learning_starts: int = 1000
    """Control steps with random actions before the first gradient step."""
    batch_size: int = 256
    """Steps per gradient step, drawn with replacement."""
    buffer_size: int = 1_000_000
    """Steps the replay holds; the oldest give way."""
    policy_rate: float = 3e-4
    """Learning rate of the policy and of the entropy coefficient (Adam)."""
    critic_rate: float = 3e-4
    """Learning rate of the critics (Adam)."""
    target_rate: float = 0.005
    """Share of the critics that enters their targets after every gradient step."""
    discount: float = 0.99
    """Discount factor per step."""
    entropy: Literal["auto", "fixed"] = "auto"
    """Learn the entropy coefficient, or keep it."""
    entropy_coefficient: float = 1.0
    """The entropy coefficient, or where it starts."""

    def __post_init__(self) -> None:
        """Check the values."""
        if min(self.update_every, self.gradient_steps, self.batch_size, self.buffer_size) < 1:
            raise UserError(
                "learn.update_every, gradient_steps, batch_size and buffer_size must be at least 1, all of them."
            )
        if self.learning_starts < 0:
            raise UserError("learn.learning_starts must not be negative.")
        if min(self.policy_rate, self.critic_rate, self.entropy_coefficient) <= 0.0:
            raise UserError("learn.policy_rate, critic_rate and entropy_coefficient must be positive.")
        if not (0.0 < self.target_rate <= 1.0 and 0.0 < self.discount <= 1.0):
            raise UserError("learn.target_rate and learn.discount must lie in (0, 1].")


@dataclass(frozen=True)
class SacConfig(StepConfig):
    """All hyper-parameters of SAC; with `networks.noise` pink, of PINK."""

    normalize: NormalizeConfig = field(default_factory=lambda: NormalizeConfig(observations=False, rewards=False))
    """What is normalised; the replay holds what is not."""
    networks: SacNetworksConfig = field(default_factory=SacNetworksConfig)
    """Networks and exploration."""
    learn: SacLearnConfig = field(default_factory=SacLearnConfig)
    """The gradient steps."""

    def __post_init__(self) -> None:
        """Check values that depend on each other."""
        collect, every = self.collect, self.learn.update_every
        if every % collect.environments or collect.steps % every:
            raise UserError(
                f"learn.update_every ({every}) must be a multiple of collect.environments ({collect.environments}), "
                f"and collect.steps ({collect.steps}) a multiple of learn.update_every."
            )
        if self.learn.buffer_size < collect.environments:
            raise UserError("learn.buffer_size must hold at least one step of every environment.")

    def remarks(self, horizon: int) -> list[str]:
        """How often the networks are updated, if it is less than once per control step."""
        every, steps = self.learn.update_every, self.learn.gradient_steps
        if steps >= every:
            return []
        return [
            f"One gradient step per {every / steps:.3g} control steps; --learn.gradient-steps {every} makes it one."
        ]


def check_widths(policy: tuple[int, ...], critic: tuple[int, ...]) -> None:
    """Refuse layers without units."""
    if min((*policy, *critic), default=1) < 1:
        raise UserError("networks.policy_hidden and networks.critic_hidden need at least one unit per layer.")
