"""The transformer critic: values of a state and of every prefix of an action sequence after it (Sec. 4.2).

Tokens are `[s, a_0, …, a_{L−1}]`; the causal transformer answers `[V(s), Q(s, a_0), …, Q(s, a_0..a_{L−1})]`.
The state and the first action share one positional embedding, since they belong to the same instant.

Axes: `B` episodes, `K` segments, `L` actions per segment, `S` state entries, `A` action entries, `E` width.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as fn
from torch.utils.weak import WeakIdKeyDictionary

from top_erl.errors import UserError
from top_erl.models.attention import batched_is_faster
from top_erl.models.block import Block, transform, transform_after
from top_erl.models.passes import HeadPass, HeadWeights, Layout, rows_of
from top_erl.models.products import Products
from top_erl.models.standardizer import Standardizer
from top_erl.models.tokens import embed
from top_erl.models.tools import parameters_of


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


class TransformerCritic(nn.Module):
    """Decoder-only transformer over one state and the actions that follow it."""

    def __init__(self, config: CriticConfig, state_dim: int, action_dim: int) -> None:
        """Build the network; randomness comes from torch's global generator."""
        super().__init__()
        self.config = config
        self.standardize_state = Standardizer(state_dim)
        self.standardize_action = Standardizer(action_dim)
        self.state_encoder = nn.Linear(state_dim, config.width, bias=False)
        self.action_encoder = nn.Linear(action_dim, config.width, bias=False)
        self.position_table = nn.Embedding(config.max_positions, config.width)
        self.blocks = nn.ModuleList(
            Block(config.width, config.heads, layer_norm=config.layer_norm, dropout=config.dropout)
            for _ in range(config.layers)
        )
        self.norm_out = nn.LayerNorm(config.width) if config.layer_norm else nn.Identity()
        self.head = nn.Linear(config.width, 1, bias=False)
        self._initialise()

    def forward(self, state: Tensor, actions: Tensor, starts: Tensor, tail: int | None = None) -> Tensor:
        """Value a state and every prefix of the actions after it.

        Args:
            state: first state of each segment, [B, K, S].
            actions: its actions, [B, K, L, A].
            starts: time index of the first state of each segment, [K].
            tail: actions of the last segment that count; the outputs of the others are zero and cost nothing.

        Returns:
            `[V, Q_1, …, Q_L]`, [B, K, L + 1].
        """
        rows, layout = self._tokens(state, actions, starts, tail)
        values = transform(rows, layout, list(self.blocks), self._head())
        if len(layout) == 1 and layout[0][1] == actions.shape[-2] + 1:
            return values.view(*state.shape[:2], -1)
        parts = [
            fn.pad(part.view(len(state), -1, length), (0, actions.shape[-2] + 1 - length))  # [B, K or 1, L + 1]
            for part, (_, length) in zip(values.split(rows_of(layout)), layout, strict=True)
        ]
        return torch.cat(parts, dim=1)

    def prefix_values(self, state: Tensor, actions: Tensor, starts: Tensor) -> Tensor:
        """Value every prefix of the actions, with gradients into the actions alone: `forward` without V.

        By causality a state's token depends on no action, so for short segments its gradients, and what it does not
        pass on, are left out. That needs frozen weights; otherwise, this is a slice of `forward`.

        Returns:
            `[Q_1, …, Q_L]`, [B, K, L].
        """
        learning = torch.is_grad_enabled() and any(weight.requires_grad for weight in parameters_of(self))
        noisy = self.training and self.config.dropout > 0
        if learning or noisy or not batched_is_faster(actions.shape[-2] + 1, actions.device):
            values: Tensor = self(state, actions, starts)
            return values[..., 1:]
        place = self._positions(starts, actions.shape[-2])  # [K, L, E]
        with torch.no_grad():
            first = self.state_encoder(self.standardize_state(state)) + place[:, 0]  # [B, K, E]
        rest = self.action_encoder(self.standardize_action(actions)) + place  # [B, K, L, E]
        values = transform_after(rest.flatten(0, 2), first.flatten(0, 1), list(self.blocks), self._head())
        return values.view(actions.shape[:-1])

    @torch.no_grad()
    def sequence_value(
        self, state: Tensor, actions: Tensor, starts: Tensor, count: Tensor, tail: int | None = None
    ) -> Tensor:
        """Value the first `count` actions, [K], of each segment: output `count` of `forward`, without the others.

        Returns:
            `Q_count`, [B, K].
        """
        return self._targets(state, actions, starts, count, tail, None)[0]

    @torch.no_grad()
    def target_values(
        self,
        segments: tuple[Tensor, Tensor, Tensor],
        count: Tensor,
        tail: int | None,
        states: tuple[Tensor, Tensor],
    ) -> tuple[Tensor, Tensor]:
        """`sequence_value` of segments and the value of states alone, in one go.

        Args:
            segments: their first states, actions and starts, as in `forward`.
            count: actions of each segment to value, [K].
            tail: as in `forward`.
            states: states to value without any action, [B, J, S], and their time indices, [J].

        Returns:
            `Q_count`, [B, K], and `V`, [B, J].
        """
        lone = self._lone_tokens(*states)
        sequence, alone = self._targets(*segments, count, tail, lone.flatten(0, 1))
        return sequence, alone.view(lone.shape[:2])

    def _targets(
        self,
        state: Tensor,
        actions: Tensor,
        starts: Tensor,
        count: Tensor,
        tail: int | None,
        lone: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """Values of sequences, [B, K], and of lone tokens, [J, E] to [J]."""
        rows, layout = self._tokens(state, actions, starts, tail)
        *blocks, last = (cast(Block, block) for block in self.blocks)
        rows = transform(rows, layout, blocks) if blocks else rows
        if lone is not None:
            for block in blocks:
                lone = block.alone(lone)
        episodes, full = len(state), layout[0][0] // len(state)  # segments of full length come first
        index = torch.cat([part.repeat(episodes) for part in (count[:full], count[full:])])
        values = HeadPass(self._head()).forward(last.one_of(rows, layout, index, lone))  # [B·K + J]
        *parts, alone = values.split([*(number for number, _ in layout), 0 if lone is None else len(lone)])
        parts = [part.view(episodes, -1) for part in parts]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1), alone

    def _lone_tokens(self, state: Tensor, starts: Tensor) -> Tensor:
        """Tokens of states without actions, [B, J, S] to [B, J, E]."""
        tokens = self.standardize_state(state) @ self.state_encoder.weight.mT
        tokens += self._positions(starts, 1).squeeze(-2)
        return fn.dropout(tokens, self.config.dropout, self.training)

    def _tokens(self, state: Tensor, actions: Tensor, starts: Tensor, tail: int | None) -> tuple[Tensor, Layout]:
        """Embed states, [B, K, S], and actions, [B, K, L, A], as the tokens of sequences, [R, E], and their layout."""
        length = actions.shape[-2]
        weights = (self.state_encoder.weight, self.action_encoder.weight)
        place = self._positions(starts, length, with_state=True)  # [K, L + 1, E]
        state, actions = self.standardize_state(state), self.standardize_action(actions)
        rows, layout = embed(state, actions, place, weights, length if tail is None else tail)
        return fn.dropout(rows, self.config.dropout, self.training), layout

    def _head(self) -> HeadWeights:
        """The parameters behind the blocks."""
        if not isinstance(self.norm_out, nn.LayerNorm):
            return HeadWeights(None, None, self.head.weight)
        return HeadWeights(self.norm_out.weight, self.norm_out.bias, self.head.weight)

    def _positions(self, starts: Tensor, length: int, with_state: bool = False) -> Tensor:
        """Positional embeddings of the actions of each segment, [K, L, E], after that of its state, if asked for."""
        steps = _steps(length, with_state, starts.device)
        if self.config.positions == "absolute":
            return fn.embedding(_places(starts, steps, self.config.max_positions), self.position_table.weight)
        return fn.embedding(steps.expand(len(starts), -1), self.position_table.weight)

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


@cache  # kept for good: `_places` tells them by their identity
@torch.inference_mode(False)
def _steps(length: int, with_state: bool, device: torch.device) -> Tensor:
    """0 … L - 1, for the actions of a segment; its state comes first and has the index of the first action."""
    return torch.arange(-1 if with_state else 0, length, device=device).clamp_(min=0)


_PLACES: WeakIdKeyDictionary = WeakIdKeyDictionary()


@torch.inference_mode(False)
def _places(starts: Tensor, steps: Tensor, count: int) -> Tensor:
    """Rows of the positional table for steps after the starts, [K, L]; worked out once for each cut."""
    if starts.is_inference():  # it does not tell whether it was changed
        return (starts[:, None] + steps).clamp(max=count - 1)
    known: dict[tuple[int, int, int], Tensor] = _PLACES.setdefault(starts, {})
    key = (id(steps), count, starts._version)
    if key not in known:
        known[key] = (starts[:, None] + steps).clamp(max=count - 1)  # only padding lies beyond the episode
    return known[key]


class CriticEnsemble(nn.Module):
    """Independent critics that value the same segments; answers are stacked in front, [C, ...]."""

    def __init__(self, config: CriticConfig, state_dim: int, action_dim: int, count: int) -> None:
        """Build `count` critics."""
        super().__init__()
        self.members = nn.ModuleList(TransformerCritic(config, state_dim, action_dim) for _ in range(count))

    def __len__(self) -> int:
        """Number of members."""
        return len(self.members)

    def forward(self, state: Tensor, actions: Tensor, starts: Tensor, tail: int | None = None) -> Tensor:
        """`TransformerCritic.forward` of every member, [C, B, K, L + 1]."""
        return _stack([member(state, actions, starts, tail) for member in self.members])

    def prefix_values(self, state: Tensor, actions: Tensor, starts: Tensor) -> Tensor:
        """`TransformerCritic.prefix_values` of every member, [C, B, K, L]."""
        critics = [cast(TransformerCritic, member) for member in self.members]
        return _stack([critic.prefix_values(state, actions, starts) for critic in critics])

    def sequence_value(
        self, state: Tensor, actions: Tensor, starts: Tensor, count: Tensor, tail: int | None = None
    ) -> Tensor:
        """`TransformerCritic.sequence_value` of every member, [C, B, K]."""
        critics = [cast(TransformerCritic, member) for member in self.members]
        return _stack([critic.sequence_value(state, actions, starts, count, tail) for critic in critics])

    def target_values(
        self,
        segments: tuple[Tensor, Tensor, Tensor],
        count: Tensor,
        tail: int | None,
        states: tuple[Tensor, Tensor],
    ) -> tuple[Tensor, Tensor]:
        """`TransformerCritic.target_values` of every member, [C, B, K] and [C, B, J]."""
        critics = [cast(TransformerCritic, member) for member in self.members]
        answers = [critic.target_values(segments, count, tail, states) for critic in critics]
        return _stack([sequence for sequence, _ in answers]), _stack([alone for _, alone in answers])

    def set_products(self, products: Products) -> None:
        """Choose how every member multiplies matrices."""
        for module in self.modules():
            if isinstance(module, Block):
                module.products = products

    def fit_standardizers(self, state: Tensor, action: Tensor) -> None:
        """Standardise the inputs of every member by statistics of states, [..., S], and actions, [..., A]."""
        for member in self.members:
            cast(TransformerCritic, member).standardize_state.fit(state)
            cast(TransformerCritic, member).standardize_action.fit(action)


def _stack(answers: list[Tensor]) -> Tensor:
    """Several critics' answers, [...] each, as one tensor, [C, ...]; that of a single critic is not copied."""
    return torch.stack(answers) if len(answers) > 1 else answers[0].unsqueeze(0)
