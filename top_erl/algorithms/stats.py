"""Statistics of an update, as typed records of tensors (no host sync until they are logged)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar, TypeVar

import torch
from torch import Tensor

from top_erl.rollout import EpisodeBatch, Scores


@dataclass(frozen=True)
class CriticStats:
    """One critic step, or the mean over an iteration's."""

    loss: Tensor
    """Mean squared error, averaged over the critics."""
    value: Tensor
    """Mean predicted state value."""
    target: Tensor
    """Mean one-step target."""

    def scaled(self, share: float) -> CriticStats:
        """The contribution of a part of the batch, without its graph."""
        return CriticStats(*(share * getattr(self, field.name).detach() for field in fields(self)))


@dataclass(frozen=True)
class PolicyStats:
    """One policy step, or the mean over an iteration's."""

    loss: Tensor
    """What is minimised."""
    objective: Tensor
    """Critic's value of the re-generated segments."""
    regression_loss: Tensor
    """Distance of the network's output from its projection."""
    entropy: Tensor
    """Entropy of the projected policy."""
    kl_to_anchor: Tensor
    """KL of the network's output from the anchor."""
    mean_projected: Tensor
    """Fraction of states whose mean had to be projected."""
    covariance_projected: Tensor
    """Fraction of states whose covariance had to be projected."""


@dataclass(frozen=True)
class IterationStats:
    """One iteration."""

    exploration: Scores
    """How the collected episodes went."""
    critic: CriticStats | None
    """Mean over the critic steps; None if there were none."""
    policy: PolicyStats | None
    """Mean over the policy steps; None if there were none."""


class Diverged(ArithmeticError):  # noqa: N818 - it names what happened
    """A gradient step whose loss is NaN, infinite or absurdly large, with the batch that did it."""

    LIMIT: ClassVar[float] = 1e10

    def __init__(self, kind: str, number: int, reason: str, batch: EpisodeBatch) -> None:
        """Say which step failed and why."""
        super().__init__(f"{kind} step {number} diverged: {reason}")
        self.kind, self.number, self.reason, self.batch = kind, number, reason, batch


Stats = TypeVar("Stats", CriticStats, PolicyStats)


def mean_stats(steps: list[Stats], kind: type[Stats]) -> Stats | None:
    """Average the records of several steps; None if there are none."""
    if not steps:
        return None
    total = sum_stats(steps, kind)
    return kind(*(getattr(total, field.name) / len(steps) for field in fields(kind)))


def sum_stats(parts: list[Stats], kind: type[Stats]) -> Stats:
    """Add records up, entry by entry."""
    return kind(*(torch.stack([getattr(part, field.name) for part in parts]).sum() for field in fields(kind)))
