"""Statistics of an update, as typed records of tensors (no host sync until they are logged)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TypeVar

import torch
from torch import Tensor

from top_erl.trust_region import Gaussian, Projected, kl_divergence


@dataclass(frozen=True)
class CriticStats:
    """One critic step, or the mean over an iteration's."""

    loss: Tensor
    """Mean squared error, averaged over the critics."""
    value: Tensor
    """Mean predicted state value."""
    target: Tensor
    """Mean one-step target."""


@dataclass(frozen=True)
class PolicyStats:
    """One policy step, or the mean over an iteration's; not every step must measure the last four."""

    loss: Tensor
    """What is minimised."""
    objective: Tensor
    """Critic's value of the re-generated segments."""
    regression_loss: Tensor
    """Distance of the network's output from its projection."""
    entropy: Tensor | None = None
    """Entropy of the projected policy."""
    kl_to_anchor: Tensor | None = None
    """KL of the network's output from the anchor."""
    mean_projected: Tensor | None = None
    """Fraction of states whose mean had to be projected."""
    covariance_projected: Tensor | None = None
    """Fraction of states whose covariance had to be projected."""


@dataclass(frozen=True)
class SoftPolicyStats:
    """One step of a policy that is rewarded for its entropy, or the mean over an iteration's."""

    loss: Tensor
    """What is minimised."""
    objective: Tensor
    """Critic's value of the policy's actions."""
    entropy: Tensor
    """Entropy of the policy, estimated by the log-densities of those actions."""
    entropy_coefficient: Tensor
    """What the entropy is weighed with."""


def trust_region_stats(new: Gaussian, projected: Projected, old: Gaussian) -> dict[str, Tensor]:
    """Where in the trust region around an old policy a new one is; entries of `PolicyStats`."""
    return {
        "entropy": projected.gaussian.detach().entropy().mean(),
        "kl_to_anchor": kl_divergence(new, old).mean(),
        "mean_projected": projected.mean_active.float().mean(),
        "covariance_projected": projected.covariance_active.float().mean(),
    }


Stats = TypeVar("Stats", CriticStats, PolicyStats, SoftPolicyStats)


def mean_stats(steps: list[Stats], kind: type[Stats]) -> Stats | None:
    """Average the records of several steps, entry by entry, over those that have it; None if there are none."""
    return kind(*(_known(steps, field.name).mean(0) for field in fields(kind))) if steps else None


def _known(records: list[Stats], name: str) -> Tensor:
    """An entry of all records that have it."""
    values = [value for record in records if (value := getattr(record, name)) is not None]
    return torch.stack(values)


def named_numbers(critic: CriticStats | None, policy: PolicyStats | SoftPolicyStats | None) -> dict[str, float]:
    """The records of an iteration under the names of their columns; reading them waits for the device."""
    records = (("critic", critic), ("policy", policy))
    return {
        _column(prefix, field.name): float(getattr(record, field.name))
        for prefix, record in records
        if record is not None
        for field in fields(record)
    }


def columns(policy: type[PolicyStats | SoftPolicyStats] = PolicyStats) -> tuple[str, ...]:
    """Names of all statistics, in the order of the records."""
    kinds: tuple[tuple[str, type[CriticStats | PolicyStats | SoftPolicyStats]], ...]
    kinds = (("critic", CriticStats), ("policy", policy))
    return tuple(_column(prefix, field.name) for prefix, kind in kinds for field in fields(kind))


_SHORT = {"regression_loss": "trust_region_loss"}
_PLAIN = ("entropy", "entropy_coefficient", "kl_to_anchor", "mean_projected", "covariance_projected")


def _column(prefix: str, name: str) -> str:
    """Column of a statistic: its own name where that is clear by itself, else prefixed."""
    return _SHORT.get(name, name if name in _PLAIN else f"{prefix}_{name}")
