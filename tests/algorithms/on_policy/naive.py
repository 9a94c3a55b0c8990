"""BBRL's and TCE's formulas as plain loops over episodes, steps and segments: slow, and easy to read."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from top_erl.models import GaussianPolicy
from top_erl.primitives import Primitive
from top_erl.trust_region import Gaussian, KlProjection

Array = NDArray[np.float64]


def normalized(values: Array) -> Array:
    """(A - mean) / (std + 1e-8), with n - 1 below the variance; a std of 1 for a single number."""
    flat = values.ravel()
    mean = sum(flat) / len(flat)
    std = 1.0
    if len(flat) > 1:
        std = math.sqrt(sum((value - mean) ** 2 for value in flat) / (len(flat) - 1))
    return np.array([(value - mean) / (std + 1e-8) for value in flat]).reshape(values.shape)


def gae(reward: Array, value: Array, discount: float, trace: float) -> Array:
    """Backwards through every episode, with flags that say where it is done: [B, T]; `value` is [B, T + 1]."""
    episodes, horizon = reward.shape
    result = np.zeros((episodes, horizon))
    for n in range(episodes):
        following = 0.0
        for i in reversed(range(horizon)):
            going_on = 0.0 if i == horizon - 1 else 1.0
            delta = reward[n, i] + discount * going_on * value[n, i + 1] - value[n, i]
            following = delta + discount * trace * going_on * following
            result[n, i] = following
    return result


def points(horizon: int, count: int, offset: int) -> list[int]:
    """offset, offset + I, offset + 2 I, ... below the horizon."""
    interval, found = horizon // count, []
    while offset < horizon:
        found.append(offset)
        offset += interval
    return found


def segment_advantages(reward: Array, value: Array, cut: list[int], discount: float) -> Array:
    """Rewards of the segment, plus the discounted value at its end, minus the value at its start."""
    result = np.zeros((len(reward), len(cut) - 1))
    for n in range(len(reward)):
        for k in range(len(cut) - 1):
            first, last = cut[k], cut[k + 1]
            total = 0.0
            for i in range(first, last):
                total += discount ** (i - first) * reward[n, i]
            result[n, k] = total + discount ** (last - first) * value[n, last] - value[n, first]
    return result


def accumulated_advantages(step_advantage: Array, cut: list[int]) -> Array:
    """Normalised step-wise advantages, added up over each segment with both of its ends."""
    steps = normalized(step_advantage)
    result = np.zeros((len(steps), len(cut) - 1))
    for n in range(len(steps)):
        for k in range(len(cut) - 1):
            for i in range(cut[k], cut[k + 1] + 1):
                result[n, k] += steps[n, i]
    return result


def accumulated_rewards(reward: Array, cut: list[int]) -> Array:
    """Rewards of each segment, minus what the episodes got there on average."""
    result = np.array(
        [[sum(episode[i] for i in range(cut[k], cut[k + 1])) for k in range(len(cut) - 1)] for episode in reward]
    )
    for k in range(result.shape[1]):
        result[:, k] -= sum(result[:, k]) / len(result)
    return result


# ---------------------------------------------------------------------- likelihoods


def pair_gaussians(
    primitive: Primitive, mean: Tensor, factor: Tensor, position: Tensor, velocity: Tensor, cut: list[int], dt: float
) -> tuple[Tensor, Tensor]:
    """Means, [B, K, 2D], and covariances, [B, K, 2D, 2D], of positions at both ends of every segment.

    The design matrix is what the trajectory does when one parameter after the other is 1.
    """
    units, dof = torch.eye(primitive.num_params, dtype=torch.float64), primitive.num_dof
    means, covariances = [], []
    for n in range(len(mean)):
        start = (0.0, position[n], velocity[n])
        for k in range(len(cut) - 1):
            times = torch.tensor([cut[k] + 1, cut[k + 1] + 1], dtype=torch.float64) * dt
            expected = primitive.trajectory(mean[n], times, *start).position  # [2, D]
            nothing = primitive.trajectory(0 * mean[n], times, *start).position
            responses = [primitive.trajectory(unit, times, *start).position - nothing for unit in units]  # [2, D] each
            rows = [torch.stack([r[end, d] for r in responses]) for d in range(dof) for end in range(2)]
            design = torch.stack(rows)  # [2D, P]
            means.append(torch.stack([expected[end, d] for d in range(dof) for end in range(2)]))
            covariances.append(design @ factor[n] @ factor[n].T @ design.T)
    largest = max(float(covariance.detach().diagonal().max()) for covariance in covariances)
    noise = 1e-4 * largest * torch.eye(2 * dof, dtype=torch.float64)
    shape = (len(mean), len(cut) - 1)
    return (
        torch.stack(means).unflatten(0, shape),
        torch.stack([covariance + noise for covariance in covariances]).unflatten(0, shape),
    )


def gaussian_log_prob(value: Tensor, mean: Tensor, covariance: Tensor) -> Tensor:
    """Density of one point, from the textbook."""
    difference = value - mean
    maha = difference @ torch.linalg.inv(covariance) @ difference
    return -0.5 * (maha + torch.logdet(covariance) + len(value) * math.log(2 * math.pi))


# ---------------------------------------------------------------------- the policy's loss

LogProb = Callable[[Tensor, Tensor], Tensor]
"""Log-likelihoods, [B] or [B, K], from means, [B, P], and factors, [B, P, P]."""


def policy_loss(
    policy: GaussianPolicy,
    first_state: Tensor,
    behaviour: Gaussian,
    log_prob: LogProb,
    advantage: Array,
    *,
    bounds: tuple[float, float],
    weight: float,
    with_covariance: bool,
    entropy_bound: float | None = None,
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Loss, objective and projected factors; every episode is projected by itself."""
    projection = KlProjection(*bounds)
    old_factor = behaviour.matrix_factor()
    means, factors, pulls = [], [], []
    for n in range(len(first_state)):
        new = policy(first_state[n])
        old = Gaussian(behaviour.mean[n], behaviour.factor if behaviour.shared else behaviour.factor[n], new.diagonal)
        projected = projection.project(new, old, entropy_bound).gaussian
        means.append(projected.mean)
        factors.append(projected.matrix_factor())
        pulls.append(_pull(new, projected.detach(), with_covariance))
    old_factors = [old_factor if behaviour.shared else old_factor[n] for n in range(len(first_state))]
    before = log_prob(behaviour.mean, torch.stack(old_factors)).detach()
    after = log_prob(torch.stack(means), torch.stack(factors))
    terms = [
        torch.exp(after[index] - before[index]) * float(advantage[index]) for index in np.ndindex(*advantage.shape)
    ]
    objective = torch.stack(terms).sum() / len(terms)
    pull = torch.stack(pulls).sum() / len(pulls)
    return weight * pull - objective, objective, factors


def _pull(new: Gaussian, projected: Gaussian, with_covariance: bool) -> Tensor:
    """KL(new ‖ projected): the mean's part, and the covariance's if wanted."""
    covariance, wanted = new.covariance(), projected.covariance()
    precision = torch.linalg.inv(wanted)
    difference = new.mean - projected.mean
    result = 0.5 * difference @ precision @ difference
    if with_covariance:
        trace = torch.trace(precision @ covariance) - len(difference)
        result = result + 0.5 * (trace + torch.logdet(wanted) - torch.logdet(covariance))
    return result
