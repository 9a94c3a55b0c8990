"""T-SAC's update with loops over trajectories, steps and prefixes, as it is written on paper."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from top_erl.algorithms.t_sac.replay import Trajectories

AdamW = torch.optim.AdamW


def optimizer(network: nn.Module, rate: float, decay: float, betas: tuple[float, float]) -> AdamW:
    """PyTorch's own, one group per parameter; matrices alone decay."""
    groups = [{"params": [p], "weight_decay": decay if p.dim() > 1 else 0.0} for p in network.parameters()]
    return AdamW(groups, lr=rate, betas=betas)


def log_density(policy: Any, state: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """An action, [A], and its log-density, by the change of variables."""
    mean, log_std = policy.mean_net(state), policy.std_net(state)
    raw = mean + log_std.exp() * noise
    action = torch.tanh(raw)
    total = torch.zeros((), dtype=state.dtype)
    for i in range(len(noise)):
        density = torch.exp(-0.5 * noise[i] ** 2) / (log_std[i].exp() * math.sqrt(2 * math.pi))
        total = total + torch.log(density / (1 - action[i] ** 2))
    return action, total


def values_of(critics: nn.ModuleList, state: Tensor, actions: Tensor) -> list[Tensor]:
    """Each critic's value of a whole sequence of actions, [L, A]."""
    return [critic(state[None], actions[None])[0, -1] for critic in critics]


def following(learner: Any, batch: Trajectories, noise: Tensor, how: str, choice: Tensor | None) -> list[list[float]]:
    """V̄ of every state of every trajectory."""
    rows = []
    for b in range(len(batch)):
        row = []
        for t in range(batch.state.shape[1]):
            if bool(batch.ended[b]) and t >= int(batch.length[b]):
                row.append(0.0)
                continue
            action, _ = log_density(learner.policy, batch.state[b, t], noise[b, t])
            one, two = (value.item() for value in values_of(learner.target_critics, batch.state[b, t], action[None]))
            first = choice is not None and bool(choice[b, t])
            row.append({"mean": (one + two) / 2, "min": min(one, two), "random": one if first else two}[how])
        rows.append(row)
    return rows


def critic_losses(
    critics: nn.ModuleList, batch: Trajectories, values: list[list[float]], start: int, length: int, discount: float
) -> list[Tensor]:
    """Each critic's mean squared error over the prefixes that were played."""
    errors: list[list[Tensor]] = [[] for _ in critics]
    for b in range(len(batch)):
        for i in range(1, length + 1):
            if start + i > int(batch.length[b]):
                break
            target = sum(discount**j * float(batch.reward[b, start + j]) for j in range(i))
            target += discount**i * values[b][start + i]
            answers = values_of(critics, batch.state[b, start], batch.action[b, start : start + i])
            for error, answer in zip(errors, answers, strict=True):
                error.append((answer - target) ** 2)
    return [torch.stack(error).mean() for error in errors]


def policy_loss(learner: Any, batch: Trajectories, start: int, noise: Tensor, alpha: float) -> tuple[Tensor, float]:
    """The policy's loss, and the mean log-density."""
    losses, densities = [], []
    for b in range(len(batch)):
        if start >= int(batch.length[b]):
            continue
        action, log_prob = log_density(learner.policy, batch.state[b, start], noise[b])
        one, two = values_of(learner.critics, batch.state[b, start], action[None])
        losses.append(-torch.minimum(one, two) + alpha * log_prob)
        densities.append(log_prob.item())
    return torch.stack(losses).mean(), sum(densities) / len(densities)
