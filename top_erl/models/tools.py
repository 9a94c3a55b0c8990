"""Small tools for networks: frozen copies, moving averages, seeded construction."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import nn

Module = TypeVar("Module", bound=nn.Module)


def frozen_copy(module: Module) -> Module:
    """Copy a module; the copy never receives gradients and stays in evaluation mode."""
    return copy.deepcopy(module).requires_grad_(False).eval()


@torch.no_grad()
def move_towards(slow: nn.Module, fast: nn.Module, rate: float) -> None:
    """Polyak averaging of all parameters: slow ← (1 − rate) slow + rate fast."""
    torch._foreach_lerp_(list(slow.parameters()), list(fast.parameters()), rate)


def in_mode(module: Module, *, training: bool) -> Module:
    """The module in training or evaluation mode."""
    if module.training != training:
        module.train(training)
    return module


@contextmanager
def frozen(module: nn.Module) -> Iterator[None]:
    """Let gradients pass through a module without computing those of its weights."""
    learning = [parameter for parameter in module.parameters() if parameter.requires_grad]
    for parameter in learning:
        parameter.requires_grad = False
    try:
        yield
    finally:
        for parameter in learning:
            parameter.requires_grad = True


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's global generators inside the block and restore them afterwards."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield
