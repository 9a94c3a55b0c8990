"""The transformer critic: values of a state and of every prefix of an action sequence after it (Sec. 4.2).

Tokens are `[s, a_0, …, a_{L−1}]`; the causal transformer answers `[V(s), Q(s, a_0), …, Q(s, a_0..a_{L−1})]`.
The state and the first action share one positional embedding, since they belong to the same instant.

This is the definition of the critic, and what runs on a GPU. `top_erl.models.fast` answers the same questions faster on
a CPU; tests hold it to this file, in values and gradients.

Axes: `B` episodes, `T` states of an episode, `K` sequences per episode, `L` actions per sequence, `S` state entries,
`A` action entries, `E` width, `n` state tokens, `N` sequences, `M` tokens per sequence, `H` heads, `d` = E/H.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as fn

from top_erl.errors import UserError
from top_erl.models.bf16 import torch_is_safe
from top_erl.models.standardizer import Standardizer
from top_erl.models.tools import frozen

Initial = Literal["small", "fan_in"]
"""How the weights of a transformer start."""
_SMALL = 0.02
"""Standard deviation of small weights."""
_POSITIONS = 0.3
"""Standard deviation of positions if weights start as `fan_in`: tokens of standardised inputs are then about 1."""


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
    initial: Initial = "small"
    """How weights start: small, with a standard deviation of 0.02 whatever the width (as in the authors' code), or with
    one over the root of a layer's inputs (fan_in), from which a narrow critic's loss falls faster."""
    backend: Literal["auto", "plain", "fast"] = "auto"
    """Plain PyTorch, or the same written out for a CPU; auto: fast wherever it can."""

    def __post_init__(self) -> None:
        """Check the values."""
        if min(self.width, self.heads, self.layers, self.max_positions) < 1:
            raise UserError("critic.width, heads, layers and max_positions must be at least 1.")
        if self.width % self.heads:
            raise UserError(f"critic.width ({self.width}) must be a multiple of critic.heads ({self.heads}).")
        if not 0.0 <= self.dropout < 1.0:
            raise UserError("critic.dropout must be at least 0 and less than 1.")


@dataclass(frozen=True, eq=False)
class Sequences:
    """Action sequences to value, each beginning in a state of an episode."""

    states: Tensor
    """All states of the episodes, [B, T, S]."""
    starts: Tensor
    """Time index of the state each sequence begins in, [K]."""
    actions: Tensor
    """Their actions, [B, K, L, A]."""
    counts: Tensor
    """How many actions of each sequence count, [K]; later ones are padding."""

    def rows(self, rows: slice) -> Sequences:
        """The sequences of some of the episodes."""
        return Sequences(self.states[rows], self.starts, self.actions[rows], self.counts)


class Block(nn.Module):
    """Pre-norm transformer block: causal self-attention, then an MLP of four times the width."""

    def __init__(self, config: CriticConfig, *, bias: bool = True) -> None:
        super().__init__()
        width, self.heads, self.dropout = config.width, config.heads, config.dropout
        self.norm_attention = norm(config, bias=bias)
        self.query_key_value = nn.Linear(width, 3 * width, bias=bias)
        self.attention_out = nn.Linear(width, width, bias=bias)
        self.norm_mlp = norm(config, bias=bias)
        self.mlp_in = nn.Linear(width, 4 * width, bias=bias)
        self.mlp_out = nn.Linear(4 * width, width, bias=bias)

    def forward(self, tokens: Tensor) -> Tensor:
        """Transform tokens, [N, M, E]; each sees itself and the ones before."""
        rate = self.dropout if self.training else 0.0
        query, key, value = self._attention_inputs(tokens)
        mixed = fn.scaled_dot_product_attention(query, key, value, dropout_p=rate, is_causal=True)
        return self._after_attention(tokens, mixed, rate)

    def after_first(self, tokens: Tensor) -> Tensor:
        """`forward` without the first token's output, [N, M, E] to [N, M - 1, E]."""
        rate = self.dropout if self.training else 0.0
        query, key, value = self._attention_inputs(tokens)
        count = tokens.shape[1]
        seen = torch.ones(count - 1, count, dtype=torch.bool, device=tokens.device).tril(1)
        mask = None if count == 2 else seen  # the second of two sees both
        mixed = fn.scaled_dot_product_attention(query[:, :, 1:], key, value, attn_mask=mask, dropout_p=rate)
        return self._after_attention(tokens[:, 1:], mixed, rate)

    def _attention_inputs(self, tokens: Tensor) -> tuple[Tensor, ...]:
        """Queries, keys and values, [N, H, M, d] each."""
        heads = self.query_key_value(self.norm_attention(tokens)).unflatten(-1, (3, self.heads, -1))
        return heads.transpose(1, 3).unbind(2)

    def _after_attention(self, tokens: Tensor, mixed: Tensor, rate: float) -> Tensor:
        """The rest of the block, from what attention has mixed, [N, H, M, d], on."""
        tokens = tokens + fn.dropout(self.attention_out(mixed.transpose(1, 2).flatten(-2)), rate)
        hidden = fn.gelu(self.mlp_in(self.norm_mlp(tokens)))  # [N, M, 4E]
        return tokens + fn.dropout(self.mlp_out(hidden), rate)


class TransformerCritic(nn.Module):
    """Decoder-only transformer over a state and the actions that follow it."""

    def __init__(self, config: CriticConfig, state_dim: int, action_dim: int) -> None:
        """Build the network; randomness comes from torch's global generator."""
        super().__init__()
        self.config = config
        self.bf16 = False
        self.standardize_state = Standardizer(state_dim)
        self.standardize_action = Standardizer(action_dim)
        self.state_encoder = nn.Linear(state_dim, config.width, bias=False)
        self.action_encoder = nn.Linear(action_dim, config.width, bias=False)
        self.position_table = nn.Embedding(config.max_positions, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm_out = norm(config)
        self.head = nn.Linear(config.width, 1, bias=False)
        initialise(self, config.layers, config.initial)

    def forward(self, sequences: Sequences) -> Tensor:
        """Value the states and every prefix of the actions, `[V, Q_1, …, Q_L]`, [B, K, L + 1].

        Outputs of padded actions mean nothing.
        """
        state = self.state_tokens(sequences.states, sequences.starts)  # [B, K, n, E]
        actions = self.action_encoder(self.standardize_action(sequences.actions))  # [B, K, L, E]
        actions = actions + self.positions(sequences.starts, actions.shape[2])
        return self._transform(torch.cat((state, actions), dim=2))[..., state.shape[2] - 1 :]

    def state_tokens(self, states: Tensor, times: Tensor) -> Tensor:
        """Embed what the critic sees of an episode at time indices, [B, T, S] and [K] to [B, K, n, E].

        Here that is one token, the state at that time. A critic that sees more of the past overrides this method; the
        output of the last of these tokens is V.
        """
        state = self.state_encoder(self.standardize_state(states[:, times])).unsqueeze(2)
        return state + self.positions(times, 1)

    def action_values(self, sequences: Sequences) -> Tensor:
        """The sum of Q over all prefixes, Σ_i Q_i, [B, K], with gradients into the actions only."""
        with frozen(self):
            return self(sequences)[..., 1:].sum(-1)

    @torch.no_grad()
    def last_value(self, sequences: Sequences) -> Tensor:
        """Q after the last action that counts, [B, K], without a gradient."""
        index = sequences.counts.expand(len(sequences.states), -1).unsqueeze(-1)  # [B, K, 1]
        return self(sequences).gather(-1, index).squeeze(-1)

    @torch.no_grad()
    def state_value(self, states: Tensor, times: Tensor) -> Tensor:
        """V of the states, [B, T, S], at time indices, [J], without any action and without a gradient, [B, J]."""
        return self._transform(self.state_tokens(states, times))[..., -1]

    def target_values(self, sequences: Sequences, times: Tensor) -> tuple[Tensor, Tensor]:
        """`last_value` of the sequences, [B, K], and `state_value` at time indices, [J] to [B, J]."""
        return self.last_value(sequences), self.state_value(sequences.states, times)

    def use_bf16(self) -> str:
        """Multiply the matrices of the blocks in bfloat16 from now on, by autocast; returns that route's name."""
        if not torch_is_safe(self.head.weight.device):
            raise UserError("PyTorch's bfloat16 products are not safe on this processor: use --precision float32.")
        self.bf16 = True
        return "autocast"

    def positions(self, starts: Tensor, length: int) -> Tensor:
        """Embeddings of successive time indices, the first of which is each start, [K] to [K, length, E]."""
        index = torch.arange(length, device=starts.device).expand(len(starts), -1)
        if self.config.positions == "absolute":
            index = (starts[:, None] + index).clamp(max=self.config.max_positions - 1)  # only padding lies beyond
        return self.position_table(index)

    def _transform(self, tokens: Tensor) -> Tensor:
        """Outputs of all tokens, [B, K, M, E] to [B, K, M]."""
        shape = tokens.shape[:-1]
        tokens = fn.dropout(tokens.flatten(0, 1), self.config.dropout, self.training)
        with torch.autocast(tokens.device.type, torch.bfloat16) if self.bf16 else nullcontext():
            for block in self.blocks:
                tokens = block(tokens)
        return self.head(self.norm_out(tokens)).view(shape)


def initialise(critic: nn.Module, layers: int, initial: Initial) -> None:
    """Normal weights, residual outputs scaled by 1/√(2·layers), zero biases."""
    for name, parameter in critic.named_parameters():
        if parameter.dim() < 2:
            continue  # biases and LayerNorm, set below or by default
        residual = name.endswith(("attention_out.weight", "mlp_out.weight"))
        scale = (2 * layers) ** -0.5 if residual else 1.0
        nn.init.normal_(parameter, std=scale * _spread(name, parameter, initial))
    for module in critic.modules():
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)


def _spread(name: str, weight: Tensor, initial: Initial) -> float:
    """Standard deviation of a weight, [outputs, inputs], or of a table of positions at the start."""
    if initial == "small":
        return _SMALL
    return _POSITIONS if name.startswith("position_table") else float(weight.shape[1] ** -0.5)


def norm(config: CriticConfig, *, bias: bool = True) -> nn.Module:
    """The normalisation of a token, if there is any."""
    return nn.LayerNorm(config.width, bias=bias) if config.layer_norm else nn.Identity()
