"""Rewards in units of their own: what a step pays beyond the mean, in spreads of the returns (not in the paper).

Rewards of two tasks may differ by a factor of a thousand, and those of one task grow by a hundred while it is
learned. A critic whose values start near zero spends its first steps on what all episodes have in common, and small
differences between movements drown in it. Both are taken away before it sees rewards, from the episodes in the replay.

Where few episodes are disasters, they are most of the variance: the worst of each step may count as the best of them.

Axes: `N` stored episodes, `B` episodes, `T` stored steps.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from top_erl.algorithms.top_erl.config import CollectConfig

_SMALLEST_SHARE = 1e-4
"""Returns that spread by less than this share of their size are not blown up any further: rounding would be."""
_SMALLEST = 1e-6
"""The same where returns are zero."""


class RewardStandardizer(nn.Module):
    """Subtracts a mean per step, and scales so that returns have a given standard deviation.

    All episodes last equally long and lose the same, so no movement is favoured; a value is then what is to come beyond
    the mean. The statistics are saved with the networks, since values mean nothing without them.
    """

    def __init__(self, steps: int, spread: float, trim: float = 0.0) -> None:
        """Make one for episodes of so many steps: the identity until `fit` is called.

        Args:
            steps: Stored steps of an episode.
            spread: Standard deviation that returns are brought to.
            trim: Share of the stored rewards of each step, the worst ones, that count as the best of them.
        """
        super().__init__()
        self.spread, self.trim = spread, trim
        if trim:
            self.register_buffer("floor", torch.full((steps,), -torch.inf))
            self.floor: Tensor
        self.register_buffer("mean", torch.zeros(steps))
        self.register_buffer("factor", torch.ones(()))
        self.mean: Tensor
        self.factor: Tensor

    @torch.no_grad()
    def fit(self, reward: Tensor) -> None:
        """Take the statistics of stored rewards, [N, T]; those of one episode tell no spread."""
        if len(reward) < 2:
            return
        if self.trim:
            self.floor.copy_(reward.quantile(self.trim, dim=0))
            reward = reward.maximum(self.floor)
        returns = reward.sum(-1)  # [N]
        smallest = (_SMALLEST_SHARE * returns.abs().mean()).clamp_min(_SMALLEST)
        self.mean.copy_(reward.mean(0))
        self.factor.copy_(self.spread / returns.std().clamp_min(smallest))

    def forward(self, reward: Tensor) -> Tensor:
        """Standardise rewards, [B, T]."""
        if self.trim:
            reward = reward.maximum(self.floor)
        return (reward - self.mean) * self.factor


def make_rewards(collect: CollectConfig, steps: int, device: torch.device) -> RewardStandardizer | None:
    """The standardiser that is configured; None if rewards stay as they are."""
    spread = collect.reward_spread
    return None if spread is None else RewardStandardizer(steps, spread, collect.reward_trim).to(device)
