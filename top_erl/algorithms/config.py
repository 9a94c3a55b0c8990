"""Hyper-parameters that all episodic methods share: the trust region's projection and the learning rates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from top_erl.errors import UserError
from top_erl.trust_region import (
    EntropySchedule,
    FrobeniusProjection,
    KlProjection,
    NoProjection,
    Projection,
    W2Projection,
    entropy_schedule,
)


@dataclass(frozen=True)
class ProjectionConfig:
    """How far a policy may move, and how little entropy it may have."""

    projection: Literal["kl", "w2", "frobenius", "none"] = "kl"
    """Distance that is bounded, or none to switch the trust region off (an ablation). The preset's entropy bound goes
    with it, unless --trust-region.entropy asks for one."""
    mean_bound: float = 0.05
    """Bound on the mean's part of the distance."""
    covariance_bound: float = 0.002
    """Bound on the covariance's part of the distance."""
    regression_weight: float = 1.0
    """Weight of the loss that pulls the network's output towards the projected one."""
    entropy: Literal["none", "linear", "exponential"] = "none"
    """Schedule of the lower bound on the policy's entropy. With projection none there is one only if asked for."""
    entropy_target: float = 0.0
    """Entropy per parameter at the end of the schedule."""
    entropy_temperature: float = 0.5
    """Decay of the exponential schedule."""

    def __post_init__(self) -> None:
        """Check the values."""
        if min(self.mean_bound, self.covariance_bound) <= 0.0:
            raise UserError(
                "trust_region.mean_bound and covariance_bound must be positive; projection none lifts them."
            )
        if self.regression_weight < 0.0:
            raise UserError("trust_region.regression_weight must not be negative.")

    def follows(self, start: ProjectionConfig) -> dict[str, Any]:
        """Settings that follow from those changed since `start`: the entropy bound goes when the trust region does."""
        switched_off = self.projection == "none" and start.projection != "none"
        return {"trust_region.entropy": "none"} if switched_off else {}

    def remark(self) -> str:
        """What is left of the trust region when it is off; empty if nothing is, or it is on."""
        if self.projection != "none" or self.entropy == "none":
            return ""
        return f"There is no trust region, but the entropy keeps its lower bound ({self.entropy})."

    def build_projection(self) -> Projection:
        """Make the projection."""
        if self.projection == "none":
            return NoProjection()
        kinds: dict[str, type[KlProjection | W2Projection | FrobeniusProjection]]
        kinds = {"kl": KlProjection, "w2": W2Projection, "frobenius": FrobeniusProjection}
        return kinds[self.projection](self.mean_bound, self.covariance_bound)

    def build_entropy_schedule(self) -> EntropySchedule:
        """Make the schedule of the entropy bound."""
        return entropy_schedule(self.entropy, self.entropy_target, self.entropy_temperature)


@dataclass(frozen=True)
class RatesConfig:
    """Learning rates and weight decay of policy and critic."""

    critic_rate: float = 3e-4
    """Learning rate of the critic."""
    policy_rate: float = 3e-4
    """Learning rate of the policy (Adam)."""
    final_rate: float = 1.0
    """What both learning rates are multiplied with after `rate_iterations`, reached linearly from the first iteration
    on, which has them in full; 1: constant. A run that is extended stretches the fall to its new end."""
    rate_iterations: int = 0
    """Iterations over which the learning rates fall; 0: the whole run."""
    critic_decay: float = 0.0
    """Weight decay of the critic: decoupled and of matrices only (TOP-ERL), or coupled (L2) and of everything."""
    policy_decay: float = 0.0
    """Coupled (L2) weight decay of the policy."""

    def __post_init__(self) -> None:
        """Check the values."""
        if min(self.critic_rate, self.policy_rate) <= 0.0 or min(self.critic_decay, self.policy_decay) < 0.0:
            raise UserError("learn.critic_rate and policy_rate must be positive, the decays not negative.")
        if not 0.0 <= self.final_rate <= 1.0:
            raise UserError("learn.final_rate must lie in [0, 1].")
        if self.rate_iterations < 0:
            raise UserError("learn.rate_iterations must not be negative; 0 means the whole run.")

    def rate_multiplier(self, iteration: int, total_iterations: int) -> float:
        """What both learning rates are multiplied by at an iteration, counted from 1."""
        progress = min(1.0, (iteration - 1) / (self.rate_iterations or total_iterations))
        return 1.0 - (1.0 - self.final_rate) * progress
