"""The value of states for on-policy methods: a small network, and running statistics of what it sees.

Axes: `...` any batch of states, `S` state entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from top_erl.errors import UserError
from top_erl.models.mlp import Activation, mlp
from top_erl.models.policy import input_index
from top_erl.models.standardizer import Standardizer


@dataclass(frozen=True)
class ValueConfig:
    """Shape of the state-value network."""

    hidden: tuple[int, ...] = (128, 128)
    """Widths of the hidden layers."""
    activation: Activation = "leaky_relu"
    """Activation between the layers."""

    def __post_init__(self) -> None:
        """Check the values."""
        if not self.hidden or min(self.hidden) < 1:
            raise UserError("critic.hidden needs at least one layer of at least one unit, e.g. 128 128.")


class ValueNetwork(nn.Module):
    """V(s), a plain multi-layer perceptron."""

    def __init__(self, config: ValueConfig, state_dim: int, inputs: Sequence[int] | None = None) -> None:
        """Build the network; randomness comes from torch's global generator.

        Args:
            config: Its shape.
            state_dim: S.
            inputs: Entries of the state that the network sees; None: all.
        """
        super().__init__()
        self.register_buffer("_inputs", input_index(inputs, state_dim), persistent=False)
        self._inputs: Tensor | None
        num_inputs = state_dim if inputs is None else len(inputs)
        self.standardize = Standardizer(num_inputs)
        self.net = mlp((num_inputs, *config.hidden, 1), config.activation, output_gain=1.0)

    def forward(self, state: Tensor) -> Tensor:
        """Values, [...], of states, [..., S]."""
        return self.net(self.standardize(self.select(state))).squeeze(-1)

    def select(self, state: Tensor) -> Tensor:
        """The entries of states, [..., S], that the network sees."""
        return state if self._inputs is None else state.index_select(-1, self._inputs)


class RunningNormalizer(nn.Module):
    """Brings states to zero mean and unit variance over all that were shown so far; saved with the networks."""

    FIRST_COUNT = 1e-4
    """States that the initial mean 0 and variance 1 stand for."""
    EPSILON = 1e-8
    """Added to the variance."""

    def __init__(self, state_dim: int) -> None:
        """Start with mean 0 and variance 1; statistics are float64 whatever the networks are."""
        super().__init__()
        self.register_buffer("mean", torch.zeros(state_dim, dtype=torch.float64))
        self.register_buffer("variance", torch.ones(state_dim, dtype=torch.float64))
        self.register_buffer("count", torch.tensor(self.FIRST_COUNT, dtype=torch.float64))
        self.mean: Tensor
        self.variance: Tensor
        self.count: Tensor

    @torch.no_grad()
    def update(self, data: Tensor) -> None:
        """Take states, [..., S], into the statistics: two sets of numbers merged by count, mean and variance."""
        rows = data.reshape(-1, data.shape[-1]).double()  # [N, S]
        if len(rows) < 2:
            return  # no variance of its own
        variance, mean = torch.var_mean(rows, dim=0)  # unbiased
        total = self.count + len(rows)
        difference = mean - self.mean
        # total v = n_a v_a + n_b v_b + (m_b - m_a)² n_a n_b / total
        spread = difference.square() * (self.count * len(rows) / total)
        self.variance.copy_((self.variance * self.count + variance * len(rows) + spread) / total)
        self.mean.add_(difference * (len(rows) / total))
        self.count.copy_(total)

    def forward(self, data: Tensor) -> Tensor:
        """(s - mean) / sqrt(variance + ε), [..., S], in the precision of the states."""
        return ((data.double() - self.mean) / (self.variance + self.EPSILON).sqrt()).to(data.dtype)
