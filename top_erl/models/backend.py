"""Which of the two critics to use: the plain one, or the one that is written out for a CPU."""

from __future__ import annotations

import torch

from top_erl.errors import UserError
from top_erl.models.ensemble import CriticEnsemble
from top_erl.models.fast.critic import FastCritic, FastEnsemble
from top_erl.models.transformer import CriticConfig, TransformerCritic


def make_critics(
    config: CriticConfig, state_dim: int, action_dim: int, count: int, device: torch.device
) -> CriticEnsemble:
    """Build `count` critics on a device; randomness comes from torch's global generator.

    Raises:
        UserError: If the fast backend is asked for what it cannot do.
    """
    supported = device.type == "cpu" and not config.dropout
    if config.backend == "plain" or (config.backend == "auto" and not supported):
        return CriticEnsemble(TransformerCritic(config, state_dim, action_dim) for _ in range(count)).to(device)
    if device.type != "cpu":
        raise UserError(
            f"critic.backend fast runs on a CPU only, not on {device.type}: use --critic.backend auto or plain."
        )
    return FastEnsemble(FastCritic(config, state_dim, action_dim) for _ in range(count))
