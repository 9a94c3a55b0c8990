"""A policy of single steps: a Gaussian squashed by tanh, with mean and spread from networks of the state.

Axes: `S` features of a state, `A` action entries; leading axes are batch axes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as fn

from top_erl.errors import UserError
from top_erl.models.standardizer import Standardizer

_LOG_STD = (-20.0, 2.0)
"""Bounds on the logarithm of the standard deviation before squashing."""
_OUTPUT_GAIN = 0.01
"""Scale of the last layers' weights at the start: means near 0, standard deviations near 1."""


@dataclass(frozen=True)
class StepPolicyConfig:
    """Networks of a step policy."""

    hidden: tuple[int, ...] = (256, 256)
    """Width of each hidden layer of the mean's network."""
    std_hidden: tuple[int, ...] = (256, 256)
    """Width of each hidden layer of the standard deviations' network."""
    activation: Literal["leaky_relu", "relu"] = "relu"
    """Activation function."""
    layer_norm: bool = True
    """Normalise every hidden layer before its activation."""

    def __post_init__(self) -> None:
        """Check the values."""
        if min((*self.hidden, *self.std_hidden), default=1) < 1:
            raise UserError("policy.hidden and policy.std_hidden need at least one unit per layer.")


class StepPolicy(nn.Module):
    """Actions in (-1, 1) from a diagonal Gaussian through tanh."""

    def __init__(self, config: StepPolicyConfig, state_dim: int, action_dim: int) -> None:
        """Build the networks; randomness comes from torch's global generator."""
        super().__init__()
        self.standardize = Standardizer(state_dim)
        self.mean_net = _network((state_dim, *config.hidden, action_dim), config)
        self.std_net = _network((state_dim, *config.std_hidden, action_dim), config)

    def mode(self, state: Tensor) -> Tensor:
        """The action without exploration, [..., S] to [..., A]."""
        return torch.tanh(self.mean_net(self.standardize(state)))

    def sample(self, state: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Actions, [..., A], and their log-densities, [...], from standard normal noise, [..., A]."""
        inputs = self.standardize(state)
        log_std = self.std_net(inputs).clamp(*_LOG_STD)
        raw = self.mean_net(inputs) + log_std.exp() * noise
        # log N(raw) − Σ log(1 − tanh²(raw)), the latter as 2 (log 2 − raw − softplus(−2 raw))
        gaussian = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi)
        squashed = 2.0 * (math.log(2.0) - raw - fn.softplus(-2.0 * raw))
        return torch.tanh(raw), (gaussian - squashed).sum(-1)


def _network(sizes: Sequence[int], config: StepPolicyConfig) -> nn.Sequential:
    """Linear layers with LayerNorm and activation between them; weights start uniform from the fan-in, biases at 0."""
    layers: list[nn.Module] = []
    for index, (fan_in, fan_out) in enumerate(pairwise(sizes)):
        linear = nn.Linear(fan_in, fan_out)
        last = index == len(sizes) - 2
        bound = fan_in**-0.5 * (_OUTPUT_GAIN if last else 1.0)
        nn.init.uniform_(linear.weight, -bound, bound)
        nn.init.zeros_(linear.bias)
        layers.append(linear)
        if not last:
            layers += [nn.LayerNorm(fan_out)] if config.layer_norm else []
            layers.append(nn.ReLU() if config.activation == "relu" else nn.LeakyReLU())
    return nn.Sequential(*layers)
