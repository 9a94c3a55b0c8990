"""Plain multi-layer perceptrons with orthogonal initialisation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from torch import nn

Activation = Literal["leaky_relu", "relu", "tanh"]

_ACTIVATIONS: dict[str, type[nn.Module]] = {"leaky_relu": nn.LeakyReLU, "relu": nn.ReLU, "tanh": nn.Tanh}


def mlp(sizes: Sequence[int], activation: Activation, output_gain: float) -> nn.Sequential:
    """Build linear layers of the given sizes with an activation between them.

    Weights are orthogonal, with gain √2 in hidden layers and `output_gain` in the last; biases start at zero.
    """
    layers: list[nn.Module] = []
    for index, (fan_in, fan_out) in enumerate(pairwise(sizes)):
        last = index == len(sizes) - 2
        linear = nn.Linear(fan_in, fan_out)
        nn.init.orthogonal_(linear.weight, gain=output_gain if last else math.sqrt(2.0))
        nn.init.zeros_(linear.bias)
        layers.append(linear)
        if not last:
            layers.append(_ACTIVATIONS[activation]())
    return nn.Sequential(*layers)
