"""Activation functions by name."""

from __future__ import annotations

from torch import nn

from top_erl.algorithms.step_based.config import Activation

_ACTIVATIONS: dict[Activation, type[nn.Module]] = {
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
    "leaky_relu": nn.LeakyReLU,
    "elu": nn.ELU,
}


def activation(name: Activation) -> type[nn.Module]:
    """The module of an activation function."""
    return _ACTIVATIONS[name]
