"""Several critics that value the same sequences.

Axes: `C` critics; the others as in `top_erl.models.transformer`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

import torch
from torch import Tensor, nn

from top_erl.models.transformer import Sequences, TransformerCritic


class CriticEnsemble(nn.Module):
    """Independent critics; answers to the questions of `TransformerCritic` are stacked in front, [C, ...]."""

    def __init__(self, members: Iterable[TransformerCritic]) -> None:
        """Put critics together."""
        super().__init__()
        self.members = nn.ModuleList(members)

    def __len__(self) -> int:
        """Number of members."""
        return len(self.members)

    def forward(self, sequences: Sequences) -> Tensor:
        """`[V, Q_1, …, Q_L]` of every member, [C, B, K, L + 1]."""
        return self._ask(lambda critic: critic(sequences))

    def squared_error(self, sequences: Sequences, target: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Mean squared error of all outputs (Eq. 7), with gradients into the weights of the critics.

        Args:
            sequences: what to value.
            target: of `[V, Q_1, …, Q_L]`, [B, K, L + 1].
            weight: 0 for outputs that have no target, such as those of padding, [K, L + 1]. They still count in the
                mean, as in the authors' code.

        Returns:
            The error, averaged over the critics too, and the mean of V, without a gradient.
        """
        values = self(sequences)  # [C, B, K, L + 1]
        return ((values - target) * weight).square().mean(), values[..., 0].detach().mean()

    def action_values(self, sequences: Sequences) -> Tensor:
        """The sum of Q over all prefixes, [C, B, K], with gradients into the actions only."""
        return self._ask(lambda critic: critic.action_values(sequences))

    def last_value(self, sequences: Sequences) -> Tensor:
        """Q after the last action that counts, [C, B, K], without a gradient."""
        return self._ask(lambda critic: critic.last_value(sequences))

    def state_value(self, states: Tensor, times: Tensor) -> Tensor:
        """V of the states, [B, T, S], at time indices, [J], without any action or gradient, [C, B, J]."""
        return self._ask(lambda critic: critic.state_value(states, times))

    def target_values(self, sequences: Sequences, times: Tensor) -> tuple[Tensor, Tensor]:
        """`last_value` of the sequences, [C, B, K], and `state_value` at time indices, [J] to [C, B, J]."""
        answers = [critic.target_values(sequences, times) for critic in self._critics()]
        return _stack([last for last, _ in answers]), _stack([state for _, state in answers])

    def use_bf16(self) -> str:
        """Multiply the matrices of all blocks in bfloat16 from now on; returns how, which decides the last bits."""
        routes = [critic.use_bf16() for critic in self._critics()]
        return routes[0]

    def fit_standardizers(self, state: Tensor, action: Tensor) -> None:
        """Standardise the inputs of every member by statistics of states, [..., S], and actions, [..., A]."""
        for critic in self._critics():
            critic.standardize_state.fit(state)
            critic.standardize_action.fit(action)

    def _critics(self) -> list[TransformerCritic]:
        return [cast(TransformerCritic, member) for member in self.members]

    def _ask(self, question: Callable[[TransformerCritic], Tensor]) -> Tensor:
        return _stack([question(critic) for critic in self._critics()])


def _stack(answers: list[Tensor]) -> Tensor:
    """The answers of the critics, [...] each, as one tensor, [C, ...]; that of a single critic is not copied."""
    return torch.stack(answers) if len(answers) > 1 else answers[0].unsqueeze(0)
