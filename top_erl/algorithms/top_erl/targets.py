"""Critic targets: what every prefix of a segment is regressed onto (Eq. 7 and 8), and the options of the ablation.

A target owns its bootstrap: it asks the target critics for the value of the future in its own way. `register_target`
makes another one known to `--learn.target`.

Axes: `C` critics, `B` episodes, `K` segments, `L` actions per segment, `T` steps, `P` primitive parameters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional as fn

from top_erl.algorithms.top_erl.segments import Segments, every_state
from top_erl.errors import UserError
from top_erl.models import CriticEnsemble, Sequences
from top_erl.rollout.replay import EpisodeBatch


@dataclass(frozen=True)
class Future:
    """What a target may ask about what comes after the episodes' states."""

    critics: CriticEnsemble
    """The target critics."""
    params: Tensor
    """Primitive parameters for every segment, sampled from the projected policy, [B, K, P]."""
    sample: Callable[[Segments], Tensor]
    """Samples more parameters, for other segments of the same episodes, [B, K, P]."""
    sequences: Callable[[Segments, Tensor], Sequences]
    """New actions of segments under parameters, [B, K, P], each from the segment's first state on."""
    discount: float
    """Discount factor per stored token."""


class CriticTarget(ABC):
    """How the future return after N steps is estimated from the target critics."""

    num_critics: int = 1
    """Critics that are trained, each with a target network."""
    trains_state_value: bool = True
    """Whether V, the first output, has a target."""

    @abstractmethod
    def combine(self, values: Tensor) -> Tensor:
        """Reduce the critics' estimates, [C, ...], to one, [...]."""

    def __call__(self, batch: EpisodeBatch, segments: Segments, future: Future) -> Tensor:
        """Targets of `[V, Q_1, …, Q_L]`, [B, K, L + 1]: Eq. 7, with V of the states that follow in Eq. 8.

        V of a segment's first state is regressed onto the value of a new action sequence from there: the last Q, after
        all its actions that lie inside the episode.
        """
        fresh = future.sequences(segments, future.params)
        sequence, later = future.critics.target_values(fresh, segments.later)  # [C, B, K] and [C, B, J]
        state_value = fn.pad(self.combine(later), (segments.offset + 1, 0))  # no action leads to earlier states
        returns = n_step_returns(batch.reward, state_value, segments, future.discount)
        return torch.cat((self.combine(sequence).unsqueeze(-1), returns), dim=-1)

    def mask(self, segments: Segments) -> Tensor:
        """1 for outputs that have a target, 0 for the others, [K, L + 1]."""
        return segments.mask if self.trains_state_value else fn.pad(segments.mask[:, 1:], (1, 0))


class VTarget(CriticTarget):
    """One target critic's state value (the method's default)."""

    def combine(self, values: Tensor) -> Tensor:
        """The only estimate."""
        return values[0]


class QTarget(VTarget):
    """One target critic's value of a freshly sampled action sequence from every state; V is not trained."""

    trains_state_value = False

    def __call__(self, batch: EpisodeBatch, segments: Segments, future: Future) -> Tensor:
        """Targets of `[V, Q_1, …, Q_L]`, [B, K, L + 1], with Q of new sequences in Eq. 8; those of V mean nothing."""
        states = every_state(batch.horizon, segments.length, segments.device)
        fresh = future.sequences(states, future.sample(states))
        bootstrap = self.combine(future.critics.last_value(fresh))  # [B, T]
        returns = n_step_returns(batch.reward, bootstrap, segments, future.discount)
        return fn.pad(returns, (1, 0))


class ClippedTarget(CriticTarget):
    """The smaller of two target critics."""

    num_critics = 2

    def combine(self, values: Tensor) -> Tensor:
        """Element-wise minimum."""
        return values.amin(0)


class EnsembleTarget(CriticTarget):
    """The mean of two or more target critics."""

    def __init__(self, num_critics: int = 2) -> None:
        """Average over a number of critics."""
        self.num_critics = num_critics

    def combine(self, values: Tensor) -> Tensor:
        """Mean."""
        return values.mean(0)


TARGETS: dict[str, Callable[[int], CriticTarget]] = {
    "v": lambda size: VTarget(),
    "q": lambda size: QTarget(),
    "clipped": lambda size: ClippedTarget(),
    "ensemble": EnsembleTarget,
}
"""Makes each target, given `learn.ensemble_size`."""


def register_target(name: str, factory: Callable[[int], CriticTarget]) -> None:
    """Make a target of your own known to `--learn.target`; the factory is given `learn.ensemble_size`."""
    if name in TARGETS:
        raise UserError(f"There is a target {name!r} already; register yours under another name.")
    TARGETS[name] = factory


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
