"""Phases: they turn time into the variable that basis functions are placed on.

A phase is called with times in seconds, of any shape. `unbounded` is the same map without its limits; basis
functions that lie before the start or after the end of a movement get their centres from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class Phase(Protocol):
    """What a basis needs of a phase."""

    @property
    def tau(self) -> float:
        """Duration of the movement in seconds."""
        ...

    def __call__(self, times: Tensor) -> Tensor:
        """Phase at times in seconds, same shape."""
        ...

    def unbounded(self, times: Tensor) -> Tensor:
        """Phase without limits at times in seconds, same shape."""
        ...


@dataclass(frozen=True)
class LinearPhase:
    """From 0 to 1 over tau seconds, constant outside."""

    tau: float
    """Duration of the movement in seconds."""

    def __call__(self, times: Tensor) -> Tensor:
        """Phase at times in seconds, same shape, within [0, 1]."""
        return self.unbounded(times).clamp(0.0, 1.0)

    def unbounded(self, times: Tensor) -> Tensor:
        """Phase without limits: t / tau."""
        return times / self.tau


@dataclass(frozen=True)
class ExponentialPhase:
    """From 1 towards 0, solving tau dx/dt = -alpha_phase x; it goes on decaying after tau."""

    tau: float
    """Time constant in seconds."""
    alpha_phase: float = 3.0
    """Decay rate."""

    def __call__(self, times: Tensor) -> Tensor:
        """Phase at times in seconds, same shape; 1 before the start."""
        return self.unbounded(times.clamp(min=0.0))

    def unbounded(self, times: Tensor) -> Tensor:
        """Phase without limits: exp(-alpha_phase t / tau), above 1 before the start."""
        return torch.exp(-self.alpha_phase * times / self.tau)
