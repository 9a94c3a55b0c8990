"""Targets and losses of T-SAC as pure functions.

After i actions from a state s_t the critics should answer

    G_i = Σ_{j<i} γ^j r_{t+j} + γ^i V̄(s_{t+i}),    V̄(s) = Q̄(s, a), a ~ π(·|s)

with V̄ = 0 where the episode has ended; no entropy, and no importance weights.

Axes: `B` trajectories, `T` steps, `L` steps of a segment, `C` = 2 critics.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as fn

from top_erl.algorithms.t_sac.config import Combination


def combined(values: Tensor, how: Combination, generator: torch.Generator) -> Tensor:
    """One value of two target critics, [2, ...] to [...]."""
    if how == "mean":
        return values.mean(0)
    if how == "min":
        return values.amin(0)
    first = torch.rand(values.shape[1:], generator=generator) < 0.5
    return torch.where(first.to(values.device), values[0], values[1])


def without_end(values: Tensor, length: Tensor, ended: Tensor) -> Tensor:
    """V̄ of all states, [B, T + 1], with 0 for the state after which nothing follows."""
    steps = torch.arange(values.shape[1], device=values.device)
    return values.masked_fill(ended[:, None] & (steps >= length[:, None]), 0.0)


def n_step_targets(reward: Tensor, value: Tensor, discount: float) -> Tensor:
    """G_1 … G_L, [B, L], from rewards, [B, L], and V̄ of the states that follow each of them, [B, L]."""
    power = discount ** torch.arange(reward.shape[1] + 1, dtype=reward.dtype, device=reward.device)
    return (power[:-1] * reward).cumsum(1) + power[1:] * value


def critic_loss(values: Tensor, targets: Tensor, counts: Tensor) -> Tensor:
    """Mean squared error over the prefixes that count, values [C, B, L], targets and whether they count [B, L].

    A prefix counts if all of its steps were made. The mean is over both critics as well.
    """
    error = (values - targets).square() * counts
    return error.sum() / (len(values) * counts.sum()).clamp(min=1)


def policy_loss(values: Tensor, log_prob: Tensor, coefficient: Tensor, counts: Tensor) -> Tensor:
    """−min(Q_1, Q_2) + α log π, averaged over the states that count; values [C, B], the others [B] or one number."""
    loss = coefficient * log_prob - values.amin(0)
    return masked_mean(loss, counts)


def coefficient_loss(raw: Tensor, log_prob: Tensor, target_entropy: float, counts: Tensor) -> Tensor:
    """α (−log π − target entropy), averaged, with α = softplus(raw): α falls while the entropy is above its target."""
    return masked_mean(fn.softplus(raw) * (-log_prob.detach() - target_entropy), counts)


def masked_mean(values: Tensor, counts: Tensor) -> Tensor:
    """Mean of the values, [B], that count."""
    return (values * counts).sum() / counts.sum().clamp(min=1)
