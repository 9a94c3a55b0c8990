"""A transformer critic of single steps: the value of every prefix of the actions that follow a state (T-SAC).

Tokens are `[s, a_0, …, a_{L−1}]`, as in `TransformerCritic`, whose blocks these are. Positions count
from the segment's start: the state has 0, the actions 1 … L. Outputs of the action tokens are `[Q_1, …, Q_L]`.

Axes: `B` sequences, `L` actions of each, `S` features of a state, `A` action entries, `E` width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from top_erl.errors import UserError
from top_erl.models.standardizer import Standardizer
from top_erl.models.transformer import Block, CriticConfig, Initial, initialise, norm


@dataclass(frozen=True)
class StepCriticConfig:
    """Shape of both critics."""

    width: int = 128
    """Embedding size of a token."""
    heads: int = 4
    """Attention heads; `width` must be a multiple of it."""
    layers: int = 2
    """Transformer blocks."""
    layer_norm: bool = True
    """Normalise before attention, before the MLP and before the head."""
    bias: bool = False
    """Whether layers have biases."""
    initial: Initial = "small"
    """How weights start: small, with a standard deviation of 0.02 (as published), or with one over the root of a
    layer's inputs (fan_in)."""
    action_time: bool = False
    """Append the share of the episode that is over to every action."""

    def __post_init__(self) -> None:
        """Check the values."""
        if min(self.width, self.heads, self.layers) < 1:
            raise UserError("critic.width, heads and layers must be at least 1.")
        if self.width % self.heads:
            raise UserError(f"critic.width ({self.width}) must be a multiple of critic.heads ({self.heads}).")


class StepCritic(nn.Module):
    """Decoder-only transformer over a state and the actions that follow it."""

    def __init__(self, config: StepCriticConfig, state_dim: int, action_dim: int, longest: int) -> None:
        """Build a network for up to `longest` actions; randomness comes from torch's global generator."""
        super().__init__()
        width, bias = config.width, config.bias
        block = CriticConfig(width, config.heads, config.layers, positions="relative", layer_norm=config.layer_norm)
        self.standardize_state = Standardizer(state_dim)
        self.state_encoder = nn.Linear(state_dim, width, bias=bias)
        self.action_encoder = nn.Linear(action_dim, width, bias=bias)
        self.position_table = nn.Embedding(longest + 1, width)
        self.blocks = nn.ModuleList(Block(block, bias=bias) for _ in range(config.layers))
        self.norm_out = norm(block, bias=bias)
        self.head = nn.Linear(width, 1, bias=bias)
        initialise(self, config.layers, config.initial)

    def forward(self, state: Tensor, actions: Tensor) -> Tensor:
        """Value every prefix of the actions after a state, [B, S] and [B, L, A] to [B, L]."""
        first = self.state_encoder(self.standardize_state(state)).unsqueeze(1)  # [B, 1, E]
        tokens = torch.cat((first, self.action_encoder(actions)), dim=1)  # [B, 1 + L, E]
        tokens = tokens + self.position_table.weight[: tokens.shape[1]]
        *others, last = self.blocks
        for block in others:
            tokens = block(tokens)
        tokens = cast(Block, last).after_first(tokens)  # nobody asks for the value of the state alone
        values: Tensor = self.head(self.norm_out(tokens)).squeeze(-1)
        return values
