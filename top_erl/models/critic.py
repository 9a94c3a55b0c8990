"""The transformer critic: values of a state and of every prefix of an action sequence after it (Sec. 4.2).

Tokens are `[s, a_0, …, a_{L−1}]`; the causal transformer answers `[V(s), Q(s, a_0), …, Q(s, a_0..a_{L−1})]`.
The state and the first action share one positional embedding, since they belong to the same instant.

Axes: `B` episodes, `K` segments, `L` actions per segment, `S` state entries, `A` action entries, `E` width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as fn

from top_erl.errors import UserError


@dataclass(frozen=True)
class CriticConfig:
    """Shape of the transformer critic."""

    width: int = 128
    """Embedding size of a token."""
    heads: int = 8
    """Attention heads; `width` must be a multiple of it."""
    layers: int = 2
    """Transformer blocks."""
    max_positions: int = 1024
    """Rows of the learned positional table."""
    positions: Literal["absolute", "relative"] = "absolute"
    """Count positions from the start of the episode, or from the start of the segment."""
    layer_norm: bool = True
    """Normalise before attention, before the MLP and before the head."""
    dropout: float = 0.0
    """Dropout rate of embedding, attention, residual and MLP; the paper found it harmful."""

    def __post_init__(self) -> None:
        """Check the values."""
        if min(self.width, self.heads, self.layers, self.max_positions) < 1:
            raise UserError("critic.width, heads, layers and max_positions must be at least 1.")
        if self.width % self.heads:
            raise UserError(f"critic.width ({self.width}) must be a multiple of critic.heads ({self.heads}).")
        if not 0.0 <= self.dropout < 1.0:
            raise UserError("critic.dropout must be at least 0 and less than 1.")


class _Block(nn.Module):
    """Pre-norm transformer block: causal self-attention, then a GELU MLP of four times the width."""

    def __init__(self, config: CriticConfig) -> None:
        super().__init__()
        width = config.width
        self.heads = config.heads
        self.dropout = config.dropout
        self.norm_attention = nn.LayerNorm(width) if config.layer_norm else nn.Identity()
        self.query_key_value = nn.Linear(width, 3 * width)
        self.attention_out = nn.Linear(width, width)
        self.norm_mlp = nn.LayerNorm(width) if config.layer_norm else nn.Identity()
        self.mlp_in = nn.Linear(width, 4 * width)
        self.mlp_out = nn.Linear(4 * width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Transform tokens, [N, M, E]."""
        tokens = tokens + self._drop(self._attend(self.norm_attention(tokens)))
        hidden = fn.gelu(self.mlp_in(self.norm_mlp(tokens)))  # [N, M, 4E]
        return tokens + self._drop(self.mlp_out(hidden))

    def _attend(self, tokens: Tensor) -> Tensor:
        """Causal multi-head attention over [N, M, E]."""
        heads = self.query_key_value(tokens).unflatten(-1, (3, self.heads, -1))  # [N, M, 3, H, E/H]
        query, key, value = heads.transpose(1, 3).unbind(2)  # [N, H, M, E/H] each
        rate = self.dropout if self.training else 0.0
        mixed = fn.scaled_dot_product_attention(query, key, value, dropout_p=rate, is_causal=True)
        return self.attention_out(mixed.transpose(1, 2).flatten(-2))  # [N, M, E]

    def _drop(self, tokens: Tensor) -> Tensor:
        return fn.dropout(tokens, self.dropout, self.training) if self.dropout else tokens


class TransformerCritic(nn.Module):
    """Decoder-only transformer over one state and the actions that follow it."""

    def __init__(self, config: CriticConfig, state_dim: int, action_dim: int) -> None:
        """Build the network; randomness comes from torch's global generator."""
        super().__init__()
        self.config = config
        self.state_encoder = nn.Linear(state_dim, config.width, bias=False)
        self.action_encoder = nn.Linear(action_dim, config.width, bias=False)
        self.position_table = nn.Embedding(config.max_positions, config.width)
        self.blocks = nn.ModuleList(_Block(config) for _ in range(config.layers))
        self.norm_out = nn.LayerNorm(config.width) if config.layer_norm else nn.Identity()
        self.head = nn.Linear(config.width, 1, bias=False)
        self._initialise()

    def forward(self, state: Tensor, actions: Tensor, starts: Tensor) -> Tensor:
        """Value a state and every prefix of the actions after it.

        Args:
            state: first state of each segment, [B, K, S].
            actions: its actions, [B, K, L, A].
            starts: time index of the first state of each segment, [K].

        Returns:
            `[V, Q_1, …, Q_L]`, [B, K, L + 1].
        """
        length = actions.shape[-2]
        place = self._positions(starts, length)  # [K, L, E]
        first = self.state_encoder(state).unsqueeze(-2) + place[:, :1]  # [B, K, 1, E]
        rest = self.action_encoder(actions) + place  # [B, K, L, E]
        values = self._transform(torch.cat((first, rest), dim=-2).flatten(0, 1))
        return values.unflatten(0, state.shape[:2])

    def state_value(self, state: Tensor, starts: Tensor) -> Tensor:
        """Value states alone, [B, K, S] at time indices `starts`, [K]: the transformer on one token. [B, K]."""
        tokens = self.state_encoder(state) + self._positions(starts, 1).squeeze(-2)  # [B, K, E]
        return self._transform(tokens.flatten(0, 1).unsqueeze(-2)).unflatten(0, state.shape[:2]).squeeze(-1)

    def _transform(self, tokens: Tensor) -> Tensor:
        """Run blocks and head over [N, M, E]; returns [N, M]."""
        tokens = fn.dropout(tokens, self.config.dropout, self.training)
        for block in self.blocks:
            tokens = block(tokens)
        values: Tensor = self.head(self.norm_out(tokens)).squeeze(-1)
        return values

    def _positions(self, starts: Tensor, length: int) -> Tensor:
        """Positional embeddings of the actions of each segment, [K, L, E]."""
        steps = torch.arange(length, device=starts.device)
        if self.config.positions == "absolute":
            index = starts[:, None] + steps  # [K, L]
            index = index.clamp(max=self.config.max_positions - 1)  # only padding lies beyond the episode
        else:
            index = steps.expand(len(starts), length)
        embedded: Tensor = self.position_table(index)
        return embedded

    def _initialise(self) -> None:
        """Normal weights of std 0.02, residual outputs scaled by 1/√(2·layers), zero biases."""
        for name, parameter in self.named_parameters():
            if parameter.dim() < 2:
                continue  # biases and LayerNorm, set below or by default
            residual = name.endswith(("attention_out.weight", "mlp_out.weight"))
            scale = (2 * self.config.layers) ** -0.5 if residual else 1.0
            nn.init.normal_(parameter, std=0.02 * scale)
        for module in self.modules():
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
