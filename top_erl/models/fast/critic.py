"""The critic's questions by written-out passes, in pieces that fit the processor's cache.

A batch is cut into pieces of some episodes. Where a question has a gradient and there are several pieces, the gradient
of each is taken at once, and its activations are freed before the next piece makes its own; backward then only scales
what is there. Padding at the end of the last sequence is left out where that saves time.

Axes: as in `top_erl.models.transformer`; `R` tokens of all sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as fn

from top_erl.errors import UserError
from top_erl.models.ensemble import CriticEnsemble
from top_erl.models.fast.attention import LONGEST_BATCHED
from top_erl.models.fast.passes import BlockWeights, HeadWeights, Layout, rows_of
from top_erl.models.fast.products import FULL, Products, low_products
from top_erl.models.fast.stack import Stack, transform, transform_after, transform_alone, transform_chosen
from top_erl.models.fast.tokens import embed
from top_erl.models.tools import frozen
from top_erl.models.transformer import Block, CriticConfig, Sequences, TransformerCritic

PIECE_TOKENS = 6144
"""Tokens of a piece, measured: more do not fit the cache, fewer cost more calls."""
_LITTLE_PADDING = 160 * 64**2
"""Padded tokens times width² that are cheaper to compute than sequences of a second length, measured."""


class FastCritic(TransformerCritic):
    """`TransformerCritic` on a CPU: the same parameters and answers, written-out passes."""

    piece_tokens = PIECE_TOKENS

    def __init__(self, config: CriticConfig, state_dim: int, action_dim: int) -> None:
        """Build the same network."""
        if config.dropout:
            raise UserError("critic.backend fast has no dropout: use --critic.backend auto or plain.")
        if type(self).state_tokens is not TransformerCritic.state_tokens:
            raise UserError("critic.backend fast has one state token: derive your critic from TransformerCritic.")
        super().__init__(config, state_dim, action_dim)
        self.products: Products = FULL

    def forward(self, sequences: Sequences) -> Tensor:
        """`[V, Q_1, …, Q_L]`, [B, K, L + 1], in one piece; zero for padding that was left out."""
        rows, layout = self._tokens(sequences)
        values = transform(rows, layout, self._stack())
        episodes, _, length = sequences.actions.shape[:3]
        if layout[0][1] == length + 1 and len(layout) == 1:
            return values.view(episodes, -1, length + 1)
        outputs = values.split(rows_of(layout))
        padded = [
            fn.pad(own.view(episodes, -1, tokens), (0, length + 1 - tokens))  # [B, K or 1, L + 1]
            for own, (_, tokens) in zip(outputs, layout, strict=True)
        ]
        return torch.cat(padded, dim=1)

    def action_values(self, sequences: Sequences) -> Tensor:
        """The sum of Q over all prefixes, [B, K], with gradients into the actions only."""
        pieces = self.pieces(sequences)
        if len(pieces) == 1:
            return self._action_values(sequences)
        if torch.is_grad_enabled() and sequences.actions.requires_grad:
            return _action_values_of(sequences.actions, self, sequences, pieces)
        return torch.cat([self._action_values(sequences.rows(rows)) for rows in pieces])

    @torch.no_grad()
    def last_value(self, sequences: Sequences) -> Tensor:
        """Q after the last action that counts, [B, K].

        There may be as many sequences as states, so a piece has only some of those of an episode.
        """
        episodes, count, length = sequences.actions.shape[:3]
        rows = min(episodes, max(1, self.piece_tokens // (length + 1)))
        columns = max(1, self.piece_tokens // (rows * (length + 1)))
        values = sequences.states.new_empty(episodes, count)
        for row in range(0, episodes, rows):
            own = sequences.rows(slice(row, row + rows))
            for column in range(0, count, columns):
                chosen = slice(column, column + columns)
                piece = Sequences(own.states, own.starts[chosen], own.actions[:, chosen], own.counts[chosen])
                values[row : row + rows, chosen] = self._targets(piece, None)[0]
        return values

    @torch.no_grad()
    def state_value(self, states: Tensor, times: Tensor) -> Tensor:
        """V of states at time indices, [B, J]."""
        if not len(times):
            return states.new_empty(len(states), 0)
        size = max(1, self.piece_tokens // len(times))
        pieces = (self._state_rows(own, times) for own in states.split(size))  # [b · J, E] each
        return torch.cat([transform_alone(rows, self._stack()) for rows in pieces]).view(len(states), -1)

    @torch.no_grad()
    def target_values(self, sequences: Sequences, times: Tensor) -> tuple[Tensor, Tensor]:
        """`last_value`, [B, K], and `state_value`, [B, J], which share what they can."""
        answers = [self._targets(sequences.rows(rows), times) for rows in self.pieces(sequences)]
        last, state = zip(*answers, strict=True)
        return torch.cat(last), torch.cat(state).view(len(sequences.states), len(times))

    def use_bf16(self) -> str:
        """Multiply the matrices of the blocks in bfloat16 from now on, by the route that is fast here."""
        self.products = low_products()
        return type(self.products).__name__

    def pieces(self, sequences: Sequences) -> list[slice]:
        """Rows of the pieces of a batch."""
        episodes, count, length = sequences.actions.shape[:3]
        size = max(1, self.piece_tokens // (count * (length + 1)))
        return [slice(first, min(first + size, episodes)) for first in range(0, episodes, size)]

    def _action_values(self, sequences: Sequences) -> Tensor:
        """`action_values` of one piece.

        By causality a state's token depends on no action, so for short sequences its gradients, and what it does not
        pass on, are left out.
        """
        length = sequences.actions.shape[2]
        with frozen(self):
            if length + 1 > LONGEST_BATCHED:
                full = replace(sequences, counts=torch.full_like(sequences.counts, length))
                return self(full)[..., 1:].sum(-1)
            place = self.positions(sequences.starts, length)  # [K, L, E]
            state = self.standardize_state(sequences.states[:, sequences.starts])
            first = self.state_encoder(state) + place[:, 0]  # [B, K, E]
            actions = self.action_encoder(self.standardize_action(sequences.actions)) + place  # [B, K, L, E]
            values = transform_after(actions.flatten(0, 2), first.flatten(0, 1), self._stack())
        return values.view(actions.shape[:-1]).sum(-1)

    def _targets(self, sequences: Sequences, times: Tensor | None) -> tuple[Tensor, Tensor]:
        """`last_value`, [B, K], and `state_value`, [B · J], of one piece."""
        rows, layout = self._tokens(sequences)
        alone = None if times is None else self._state_rows(sequences.states, times)  # [B · J, E]
        episodes, full = len(sequences.states), layout[0][0] // len(sequences.states)  # full sequences come first
        index = torch.cat([own.repeat(episodes) for own in (sequences.counts[:full], sequences.counts[full:])])
        values = transform_chosen(rows, layout, index, alone, self._stack())  # [B · K + B · J]
        last = values[: len(index)].split([number for number, _ in layout])
        return torch.cat([own.view(episodes, -1) for own in last], dim=1), values[len(index) :]

    def _state_rows(self, states: Tensor, times: Tensor) -> Tensor:
        """Tokens of states without actions, [B, T, S] and [J] to [B · J, E]."""
        tokens = self.standardize_state(states[:, times]) @ self.state_encoder.weight.mT
        return tokens.add_(self.positions(times, 1).squeeze(-2)).flatten(0, 1)

    def _tokens(self, sequences: Sequences) -> tuple[Tensor, Layout]:
        """Embed states and actions as the tokens of sequences, [R, E], and say how these lie there."""
        length = sequences.actions.shape[2]
        steps = torch.arange(-1, length, device="cpu").clamp_(min=0)  # since the start: 0 for the state, then 0 … L - 1
        index = steps.expand(len(sequences.starts), -1)
        if self.config.positions == "absolute":
            index = (sequences.starts[:, None] + index).clamp(max=self.config.max_positions - 1)
        place = self.position_table(index)  # [K, L + 1, E]
        state = self.standardize_state(sequences.states[:, sequences.starts])
        actions = self.standardize_action(sequences.actions)
        weights = (self.state_encoder.weight, self.action_encoder.weight)
        return embed(state, actions, place, weights, self._tail(sequences))

    def _tail(self, sequences: Sequences) -> int:
        """Actions of the last sequence to compute: those that count, if all others are full and it saves time."""
        episodes, _, length = sequences.actions.shape[:3]
        *others, last = sequences.counts.tolist()
        padding = episodes * (length - last)
        worthwhile = padding * self.config.width**2 > _LITTLE_PADDING
        return last if worthwhile and all(count == length for count in others) else length

    def _stack(self) -> Stack:
        blocks = tuple(BlockWeights.of(cast(Block, block)) for block in self.blocks)
        return Stack(blocks, HeadWeights.of(self.norm_out, self.head), self.config.heads, self.products)


class FastEnsemble(CriticEnsemble):
    """Critics of which each is a `FastCritic`."""

    def squared_error(self, sequences: Sequences, target: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Mean squared error of all outputs and mean of V; with several pieces, the gradient is taken at once."""
        pieces = cast(FastCritic, self.members[0]).pieces(sequences)
        if len(pieces) == 1:
            return super().squared_error(sequences, target, weight)
        learning = torch.is_grad_enabled()
        weights = [parameter for parameter in self.parameters() if learning and parameter.requires_grad]
        return _squared_error_of(self, pieces, sequences, target, weight, *weights)


class _ActionValues(torch.autograd.Function):
    """`action_values` of several pieces. Each sum depends on its own actions only, so their gradients are all of it."""

    @staticmethod
    def forward(ctx: Any, actions: Tensor, critic: FastCritic, sequences: Sequences, pieces: Sequence[slice]) -> Tensor:
        """Values, [B, K]; their gradients, [B, K, L, A], are kept.

        They are taken of the mean over all sequences: where that is asked for, backward multiplies them by one.
        """
        values: list[Tensor] = []
        gradients: list[Tensor] = []
        scale = actions.new_ones(()) / (actions.shape[0] * actions.shape[1])
        for rows in pieces:
            own = replace(sequences.rows(rows), actions=actions[rows].detach().requires_grad_())
            with torch.enable_grad():
                value = critic._action_values(own)
            gradients += torch.autograd.grad(value, own.actions, scale.expand_as(value))
            values.append(value.detach())
            del value  # and its activations
        ctx.save_for_backward(torch.cat(gradients), scale)
        return torch.cat(values)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Gradient of the actions from that of the values, [B, K]."""
        gradient, scale = ctx.saved_tensors
        return gradient * (grad / scale)[..., None, None], None, None, None


class _SquaredError(torch.autograd.Function):
    """`squared_error` of several pieces, each weighted by its share of the batch."""

    @staticmethod
    def forward(
        ctx: Any,
        ensemble: FastEnsemble,
        pieces: Sequence[slice],
        sequences: Sequences,
        target: Tensor,
        weight: Tensor,
        *weights: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """The error and the mean of V; the gradients of the weights are kept."""
        losses, values = [], []
        gradients: tuple[Tensor, ...] = ()
        for rows in pieces:
            share = (rows.stop - rows.start) / len(target)
            with torch.set_grad_enabled(bool(weights)):
                loss, value = CriticEnsemble.squared_error(ensemble, sequences.rows(rows), target[rows], weight)
                scaled = len(ensemble) * share * loss  # each critic has a mean of its own
            if weights:
                own = torch.autograd.grad(scaled, weights)
                for total, gradient in zip(gradients, own, strict=bool(gradients)):
                    total += gradient
                gradients = gradients or own
            losses.append(share * loss.detach())
            values.append(share * value)
            del loss, scaled  # and their activations
        ctx.num_critics = len(ensemble)
        ctx.save_for_backward(*gradients)
        error, mean = torch.stack(losses).sum(0), torch.stack(values).sum(0)
        ctx.mark_non_differentiable(mean)
        return error, mean

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of the weights from that of the error."""
        scale = grad / ctx.num_critics
        return None, None, None, None, None, *(gradient * scale for gradient in ctx.saved_tensors)


_action_values_of = cast(Callable[..., Tensor], _ActionValues.apply)
_squared_error_of = cast(Callable[..., tuple[Tensor, Tensor]], _SquaredError.apply)
