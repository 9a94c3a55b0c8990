"""Does a critic rank the movements of one context?

The policy asks its critic one thing: which of two movements from the same start is better. A critic may explain well
which contexts are hard, and still not know that. So several movements are sampled in each of some contexts and played,
and within each context the critic's values are compared with the returns, by their ranks.

Axes: `C` contexts, `W` movements of a context, `B` episodes, `P` primitive parameters, `T` stored steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from top_erl.models.policy import GaussianPolicy
from top_erl.rollout.collector import EpisodeCollector
from top_erl.rollout.replay import EpisodeBatch
from top_erl.seeding import episode_seeds, torch_generator
from top_erl.tasks.contract import Array

COLUMN = "critic_ranking"
"""Its name in `metrics.csv`."""
MOVEMENTS = 16
"""W: movements that are played in each context."""


@dataclass(frozen=True)
class CriticRanking:
    """What a critic says of movements, and what they were worth; contexts with fewer than two movements are missing."""

    values: list[Array]
    """The critic's value of every movement, [W] for each context."""
    returns: list[Array]
    """Its return, scaled and discounted as the critic counts, [W] for each context."""

    @property
    def correlations(self) -> Array:
        """Spearman's rank correlation of every context, [C]; NaN where all returns are the same."""
        pairs = zip(self.values, self.returns, strict=True)
        return np.array([rank_correlation(values, returns) for values, returns in pairs])

    @property
    def mean(self) -> float:
        """Mean rank correlation within a context; NaN if no context has movements that differ in their return."""
        known = self._known
        return float(known.mean()) if len(known) else math.nan

    @property
    def error(self) -> float:
        """Standard error of that mean over contexts; NaN with fewer than two."""
        known = self._known
        return float(known.std(ddof=1) / math.sqrt(len(known))) if len(known) > 1 else math.nan

    @property
    def overall(self) -> float:
        """Pearson's correlation over all movements of all contexts; NaN if it has none."""
        if not self.values:
            return math.nan
        return _correlation(np.concatenate(self.values), np.concatenate(self.returns))

    @property
    def _known(self) -> Array:
        found = self.correlations
        return found[np.isfinite(found)]


def rank_movements(
    collector: EpisodeCollector,
    policy: GaussianPolicy,
    value: Callable[[EpisodeBatch], Tensor],
    discount: float,
    *,
    contexts: int,
    seed: int,
    stream: str,
    movements: int = MOVEMENTS,
) -> CriticRanking:
    """Play sampled movements in some contexts and compare a critic's values with their returns.

    Args:
        collector: Plays them; they are no training episodes.
        policy: What movements are sampled from.
        value: The critic's values of episodes, [B].
        discount: γ of the returns, per stored step.
        contexts: How many contexts.
        seed: Chooses contexts and movements,
        stream: together with this name. Both are the same in every call, so that calls can be compared.
        movements: How many movements in each context.
    """
    values, returns = [], []
    for number, episode_seed in enumerate(episode_seeds(seed, stream, 0, contexts)):
        generator = torch_generator(seed, f"{stream}, movements", number)
        noise = torch.randn(movements, policy.num_params, generator=generator)
        rollout, _ = collector.play(policy, [episode_seed] * movements, noise)
        if len(rollout.reward) < 2:
            continue  # the others failed
        batch = collector.stored(rollout)
        weights = discount ** torch.arange(batch.horizon, dtype=torch.float64)
        values.append(value(batch).double().cpu().numpy())
        returns.append((batch.reward.double() @ weights).numpy())
    return CriticRanking(values, returns)


def rank_correlation(values: Array, returns: Array) -> float:
    """Spearman's rank correlation of [W] and [W]; equal ones share the mean of their ranks.

    NaN if all returns are the same, since then there is nothing to rank; 0 if only all values are.
    """
    if np.ptp(returns) == 0.0:
        return math.nan
    return 0.0 if np.ptp(values) == 0.0 else _correlation(average_ranks(values), average_ranks(returns))


def average_ranks(values: Array) -> Array:
    """Ranks from 1 on, [W]; equal values share the mean of theirs."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Array = count.cumsum() - (count - 1) / 2
    return ranks[place]


def _correlation(one: Array, other: Array) -> float:
    """Pearson's correlation; NaN if one of them does not vary."""
    if np.ptp(one) == 0.0 or np.ptp(other) == 0.0:
        return math.nan
    return float(np.corrcoef(one, other)[0, 1])
