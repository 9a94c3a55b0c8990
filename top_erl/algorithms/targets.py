"""Critic targets: the options of the paper's target ablation and the n-step return.

Axes: `C` critics, `B` episodes, `K` segments, `L` actions per segment, `T` steps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor

from top_erl.algorithms.segments import Segments

TargetName = Literal["v", "q", "clipped", "ensemble"]


@dataclass(frozen=True)
class CriticTarget(ABC):
    """How the future return after N steps is estimated from the target critics."""

    num_critics: int = 1
    """Critics that are trained, each with a target network."""
    bootstraps_with_q: bool = False
    """Bootstrap with Q of fresh action sequences instead of V; the V output is then not trained."""

    @abstractmethod
    def combine(self, values: Tensor) -> Tensor:
        """Reduce the critics' estimates, [C, ...], to one, [...]."""


class VTarget(CriticTarget):
    """One target critic's state value (the method's default)."""

    def combine(self, values: Tensor) -> Tensor:
        """The only estimate."""
        return values[0]


@dataclass(frozen=True)
class QTarget(VTarget):
    """One target critic's value of a freshly sampled action sequence."""

    bootstraps_with_q: bool = True


@dataclass(frozen=True)
class ClippedTarget(CriticTarget):
    """The smaller of two target critics."""

    num_critics: int = 2

    def combine(self, values: Tensor) -> Tensor:
        """Element-wise minimum."""
        return values.amin(0)


@dataclass(frozen=True)
class EnsembleTarget(CriticTarget):
    """The mean of two or more target critics."""

    num_critics: int = 2

    def combine(self, values: Tensor) -> Tensor:
        """Mean."""
        return values.mean(0)


def make_target(name: TargetName, ensemble_size: int = 2) -> CriticTarget:
    """Make a target option by its name."""
    if name == "v":
        return VTarget()
    if name == "q":
        return QTarget()
    return ClippedTarget() if name == "clipped" else EnsembleTarget(num_critics=ensemble_size)


def n_step_returns(reward: Tensor, bootstrap: Tensor, segments: Segments, discount: float) -> Tensor:
    """N-step returns of every prefix of every segment (Eq. 8).

    Args:
        reward: rewards, [B, T].
        bootstrap: estimated value of the state at each index, [B, T]; beyond the end it is zero.
        segments: the cut.
        discount: γ.

    Returns:
        G⁽ᴺ⁾ for N = 1 … L, [B, K, L]. Entries of padded actions are meaningless and must be masked.
    """
    powers = _powers(discount, segments.length + 1, reward.dtype, reward.device)  # γ⁰ … γᴸ
    collected = (reward[:, segments.inside] * powers[:-1]).cumsum(-1)  # Σ_{i<N} γⁱ r_i, [B, K, L]
    after, exists = segments.following
    future = bootstrap[:, after] * exists  # V(s_N), [B, K, L]
    return collected + powers[1:] * future


@lru_cache(maxsize=1024)
@torch.inference_mode(False)
def _powers(discount: float, count: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The first powers of the discount, [count]."""
    return discount ** torch.arange(count, device=device, dtype=dtype)


def critic_loss(prediction: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """Mean squared error over the outputs [V, Q_1, …, Q_L], [B, K, L + 1] (Eq. 7).

    `weight`, [K, L + 1], is 0 for padded actions; they still count in the mean, as in the authors' code.
    """
    return ((prediction - target) * weight).square().mean()
