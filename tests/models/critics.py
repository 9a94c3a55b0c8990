"""Small critics and sequences for the tests of both backends."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from top_erl.models import CriticConfig, Sequences, TransformerCritic
from top_erl.models.fast.critic import FastCritic

STATE, ACTION, HORIZON = 5, 4, 12


def small_config(**settings: object) -> CriticConfig:
    return CriticConfig(**({"width": 8, "heads": 2, "layers": 2, "max_positions": 16} | settings))  # type: ignore[arg-type]


def strong(critic: TransformerCritic, dtype: torch.dtype = torch.float64) -> TransformerCritic:
    """The critic with weights large enough for everything to matter."""
    for parameter in critic.parameters():
        nn.init.normal_(parameter, std=0.5)
    return critic.to(dtype).eval()


def plain_critic(**settings: object) -> TransformerCritic:
    return strong(TransformerCritic(small_config(**settings), STATE, ACTION))


def fast_copy(critic: TransformerCritic) -> FastCritic:
    """The same weights with the other backend."""
    fast = FastCritic(critic.config, STATE, ACTION).to(next(critic.parameters()).dtype)
    fast.load_state_dict(critic.state_dict())
    return fast.eval()


def sequences(
    length: int = 6,
    starts: tuple[int, ...] = (0, 2, 9),
    *,
    tail: int | None = None,
    episodes: int = 3,
    dtype: torch.dtype = torch.float64,
) -> Sequences:
    """Random sequences, of which the last has `tail` actions that count."""
    states = torch.randn(episodes, max(HORIZON, max(starts) + 1), STATE, dtype=dtype)
    actions = torch.randn(episodes, len(starts), length, ACTION, dtype=dtype)
    counts = torch.full((len(starts),), length)
    counts[-1] = length if tail is None else tail
    return Sequences(states, torch.tensor(starts), actions, counts)


def with_actions(given: Sequences, actions: Tensor) -> Sequences:
    return Sequences(given.states, given.starts, actions, given.counts)
