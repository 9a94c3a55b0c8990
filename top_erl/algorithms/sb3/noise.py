"""Pink exploration noise: one sequence per episode and action entry.

The noise of an episode derives from the episode's number alone, so environments that are stepped together have streams
of their own, and a resumed run goes on with the same noise. Axes: `N` environments, `A` action entries.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from pink.colorednoise import powerlaw_psd_gaussian
from stable_baselines3.common.distributions import SquashedDiagGaussianDistribution
from torch import Tensor

from top_erl.algorithms.sb3.environments import StepVecEnv


class PinkNoise:
    """Sequences of Gaussian noise with power falling as 1/f and unit variance (Timmer & König, 1995)."""

    def __init__(self, action_dim: int, length: int, seed_of: Callable[[int], int]) -> None:
        """Draw sequences of `length` steps; `seed_of` gives the seed of an episode's."""
        self._action_dim, self._length, self._seed_of = action_dim, length, seed_of
        self._sequences: dict[int, tuple[int, NDArray[np.float64]]] = {}

    def at(self, place: int, episode: int, step: int) -> NDArray[np.float64]:
        """The noise, [A], of a step of an episode that is played at some place; each place keeps its last sequence."""
        known = self._sequences.get(place)
        if known is None or known[0] != episode:
            generator = np.random.default_rng(self._seed_of(episode))
            known = episode, powerlaw_psd_gaussian(1.0, (self._action_dim, self._length), rng=generator)
            self._sequences[place] = known
        noise: NDArray[np.float64] = known[1][:, step]
        return noise


class EpisodeNoiseDistribution(SquashedDiagGaussianDistribution):  # type: ignore[misc]  # Any without the package
    """A squashed Gaussian that acts with the episodes' noise, and is sampled independently in updates."""

    def __init__(self, action_dim: int, noise: PinkNoise, environments: StepVecEnv) -> None:
        """Take noise for the episodes that `environments` play."""
        super().__init__(action_dim)
        self._noise, self._environments = noise, environments

    def actions_from_params(self, mean_actions: Tensor, log_std: Tensor, deterministic: bool = False) -> Tensor:
        """Actions for the next step of every environment, or the mode; means and log stds are [N, A]."""
        if deterministic:
            return super().actions_from_params(mean_actions, log_std, deterministic=True)
        noise = torch.from_numpy(self.next_noise()).to(mean_actions)
        self.proba_distribution(mean_actions, log_std)
        self.gaussian_actions = mean_actions + self.distribution.stddev * noise
        return torch.tanh(self.gaussian_actions)

    def log_prob_from_params(self, mean_actions: Tensor, log_std: Tensor) -> tuple[Tensor, Tensor]:
        """Independent samples and their log probabilities, for updates; means and log stds are [batch, A]."""
        self.proba_distribution(mean_actions, log_std)
        actions = self.sample()
        return actions, self.log_prob(actions, self.gaussian_actions)

    def next_noise(self) -> NDArray[np.float64]:
        """The noise of the coming step in every environment, [N, A]."""
        playing = zip(self._environments.episodes, self._environments.step_indices, strict=True)
        return np.stack([self._noise.at(place, episode, step) for place, (episode, step) in enumerate(playing)])
