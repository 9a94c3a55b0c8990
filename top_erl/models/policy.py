"""The policy: a Gaussian over movement-primitive parameters, π(w | s) = N(μ(s), L Lᵀ) (Sec. 4.1).

Axes: `B` states, `S` state entries, `P` primitive parameters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as fn

from top_erl.errors import UserError
from top_erl.models.mlp import Activation, mlp
from top_erl.models.standardizer import Standardizer
from top_erl.trust_region.gaussian import Gaussian

_SMALLEST_STD = 1e-12
"""What a factor that is set keeps above `min_std`, so that its raw entries stay finite."""


@dataclass(frozen=True)
class PolicyConfig:
    """Shape and start of the Gaussian policy."""

    hidden: tuple[int, ...] = (128, 128)
    """Widths of the hidden layers of the mean network."""
    activation: Activation = "leaky_relu"
    """Activation between the layers."""
    covariance: Literal["full", "diagonal"] = "full"
    """Full covariance, or standard deviations only."""
    contextual: bool = False
    """Whether the covariance depends on the state (a second network) or is one shared, trained matrix."""
    initial_std: float = 1.0
    """Standard deviation of every parameter before training."""
    min_std: float = 1e-5
    """Added to the diagonal of the factor, so that it never vanishes."""

    def __post_init__(self) -> None:
        """Check the values."""
        if not self.hidden or min(self.hidden) < 1:
            raise UserError("policy.hidden needs at least one layer of at least one unit, e.g. 128 128.")
        if not 0.0 <= self.min_std < self.initial_std:
            raise UserError("policy.initial_std must be larger than policy.min_std, which must not be negative.")


class GaussianPolicy(nn.Module):
    """Maps states to Gaussians over primitive parameters."""

    def __init__(
        self, config: PolicyConfig, state_dim: int, num_params: int, inputs: Sequence[int] | None = None
    ) -> None:
        """Build the networks; randomness comes from torch's global generator.

        Args:
            config: Shape and start.
            state_dim: S: entries of a state.
            num_params: P: parameters of the primitive.
            inputs: Entries of the state that the networks see; None: all.
        """
        super().__init__()
        self.diagonal = config.covariance == "diagonal"
        self.contextual = config.contextual
        self.num_params = num_params
        self.min_std = config.min_std
        self.register_buffer("_inputs", input_index(inputs, state_dim), persistent=False)
        self._inputs: Tensor | None
        num_inputs = state_dim if inputs is None else len(inputs)
        self.standardize = Standardizer(num_inputs)
        sizes = (num_inputs, *config.hidden)
        self.mean_net = mlp((*sizes, num_params), config.activation, output_gain=0.01)

        lower = 0 if self.diagonal else num_params * (num_params - 1) // 2
        start = torch.zeros(num_params + lower)  # [P + P(P−1)/2]: raw diagonal, then strictly lower rows
        start[:num_params] = math.log(math.expm1(config.initial_std - config.min_std))  # softplus⁻¹
        self.raw_covariance = nn.Parameter(start)
        self.covariance_net = (
            mlp((*sizes, len(start)), config.activation, output_gain=0.01) if config.contextual else None
        )
        rows, columns = torch.tril_indices(num_params, num_params, offset=-1)
        self.register_buffer("_lower_index", rows * num_params + columns, persistent=False)
        self._lower_index: Tensor

    def forward(self, state: Tensor) -> Gaussian:
        """Predict the Gaussian for each state, [B, S]; a shared covariance comes without the batch axis."""
        state = self.standardize(self.select(state))
        raw = self.raw_covariance
        if self.covariance_net is not None:
            raw = raw + self.covariance_net(state)  # [B, P + P(P−1)/2]
        return Gaussian(self.mean_net(state), self._factor(raw), diagonal=self.diagonal)

    def select(self, state: Tensor) -> Tensor:
        """The entries of states, [..., S], that the networks see."""
        return state if self._inputs is None else state.index_select(-1, self._inputs)

    @torch.no_grad()
    def set_factor(self, factor: Tensor) -> None:
        """Make a factor, [P, P], or standard deviations, [P], the shared covariance: the inverse of `_factor`."""
        if self.contextual:
            raise UserError("A covariance that depends on the state cannot be set; use policy.contextual = false.")
        factor = factor.double()
        scale = factor if self.diagonal else factor.diagonal()  # [P]
        above = (scale - self.min_std).clamp_min(_SMALLEST_STD)
        raw = above + torch.log(-torch.expm1(-above))  # softplus⁻¹
        if not self.diagonal:
            raw = torch.cat((raw, factor.flatten()[self._lower_index]))
        self.raw_covariance.copy_(raw)

    def _factor(self, raw: Tensor) -> Tensor:
        """Turn raw entries into standard deviations, [..., P], or a lower-triangular factor, [..., P, P]."""
        std = fn.softplus(raw[..., : self.num_params]) + self.min_std  # [..., P]
        if self.diagonal:
            return std
        size = self.num_params
        flat = raw.new_zeros(*raw.shape[:-1], size * size)
        flat = flat.index_copy(-1, self._lower_index, raw[..., size:])
        return flat.unflatten(-1, (size, size)) + torch.diag_embed(std)


def input_index(inputs: Sequence[int] | None, state_dim: int) -> Tensor | None:
    """Indices of the state entries a network sees as a tensor; None for all."""
    if inputs is None:
        return None
    if not inputs or min(inputs) < 0 or max(inputs) >= state_dim:
        raise UserError(f"A network that sees the entries {tuple(inputs)} needs some, all from 0 to {state_dim - 1}.")
    return torch.tensor(inputs, dtype=torch.long)
