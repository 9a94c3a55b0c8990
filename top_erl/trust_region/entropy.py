"""A lower bound on the entropy of the policy, and how it falls during training.

The bound is applied after the trust region and has the last word: where it widens a covariance, the trust
region may be exceeded. It keeps exploration noise alive until the schedule lets it go.

Entropies are totals over all P dimensions; the `target` of a schedule is per dimension.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch

from top_erl.errors import UserError, unknown_name
from top_erl.trust_region.gaussian import Gaussian


def apply_entropy_bound(gaussian: Gaussian, bound: float | None, equality: bool = False) -> Gaussian:
    """Widen covariances until their entropy reaches the bound.

    Args:
        gaussian: Gaussians of dimension P.
        bound: Smallest allowed entropy β; None for no bound.
        equality: Bring every entropy to β exactly, also the larger ones.

    Returns:
        The same means, with factors scaled by one number each. Gradients flow through the entropy.
    """
    if bound is None:
        return gaussian
    missing = bound - gaussian.entropy()  # β - H, [...] or [] if shared
    if not equality:
        missing = torch.where(missing > 0, missing, torch.zeros_like(missing))
    # H(c L) = H(L) + P log c, so c = exp((β - H) / P)
    widen = (missing / gaussian.dim).exp().unsqueeze(-1)  # [..., 1]
    if not gaussian.diagonal:
        widen = widen.unsqueeze(-1)  # [..., 1, 1]
    return Gaussian(gaussian.mean, gaussian.factor * widen, gaussian.diagonal)


class EntropySchedule(ABC):
    """The entropy bound as a function of training progress."""

    @abstractmethod
    def bound(self, iteration: int, total_iterations: int, initial_entropy: float, dim: int) -> float | None:
        """Entropy bound of one iteration.

        Args:
            iteration: Current iteration; the first is 1.
            total_iterations: Planned number of iterations. Later ones keep the final bound.
            initial_entropy: Mean entropy of the anchor policy before training, H₀.
            dim: Dimension P of the Gaussian.

        Returns:
            The bound β, a total over all dimensions; None for no bound.
        """


@dataclass(frozen=True)
class NoEntropyBound(EntropySchedule):
    """Leaves the entropy free."""

    def bound(self, iteration: int, total_iterations: int, initial_entropy: float, dim: int) -> float | None:
        """See `EntropySchedule.bound`."""
        return None


@dataclass(frozen=True)
class LinearEntropyBound(EntropySchedule):
    """Falls on a straight line from the initial entropy to the target.

    Attributes:
        target: Entropy per dimension at the last iteration.
    """

    target: float = 0.0

    def bound(self, iteration: int, total_iterations: int, initial_entropy: float, dim: int) -> float | None:
        """See `EntropySchedule.bound`."""
        # β = H₀ + progress (P target - H₀)
        final = dim * self.target
        return initial_entropy + _progress(iteration, total_iterations) * (final - initial_entropy)


@dataclass(frozen=True)
class ExponentialEntropyBound(EntropySchedule):
    """Decays from the initial entropy towards the target.

    Attributes:
        target: Entropy per dimension that is approached.
        temperature: What is left of the distance to the target after a tenth of the training, in (0, 1).
    """

    target: float = 0.0
    temperature: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.temperature < 1:
            raise UserError(f"The temperature of an entropy schedule must be in (0, 1), got {self.temperature}.")

    def bound(self, iteration: int, total_iterations: int, initial_entropy: float, dim: int) -> float | None:
        """See `EntropySchedule.bound`."""
        # β = P target + (H₀ - P target) temperature^(10 progress)
        final = dim * self.target
        left = float(self.temperature ** (10 * _progress(iteration, total_iterations)))
        return final + (initial_entropy - final) * left


def entropy_schedule(name: str, target: float = 0.0, temperature: float = 0.5) -> EntropySchedule:
    """The schedule called `none`, `linear` or `exponential`."""
    schedules: dict[str, EntropySchedule] = {
        "none": NoEntropyBound(),
        "linear": LinearEntropyBound(target),
        "exponential": ExponentialEntropyBound(target, temperature),
    }
    if name not in schedules:
        raise unknown_name("entropy schedule", name, schedules)
    return schedules[name]


def _progress(iteration: int, total_iterations: int) -> float:
    """Share of the planned iterations, at most one."""
    if total_iterations < 1:
        raise UserError(f"An entropy schedule needs at least one planned iteration, got {total_iterations}.")
    return min(1.0, iteration / total_iterations)
