"""Replay of whole episodes.

Axes: `B` episodes, `T` stored steps, `S` state entries, `D` degrees of freedom, `P` primitive parameters, `W = 1 + 2P`,
`N` control steps, `R` entries of what a goal is compared with.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from top_erl.errors import RunStopped, UserError
from top_erl.hardware.devices import send
from top_erl.trust_region.gaussian import Gaussian


@dataclass(frozen=True)
class EpisodeBatch:
    """Episodes as the learner sees them, after down-sampling."""

    state: Tensor
    """Raw observation and time before each action, [B, T, S]."""
    reference: Tensor
    """Desired position and velocity *before* each action, [B, T, 2D]; index 0 holds the measured ones."""
    action: Tensor
    """Desired position and velocity that each step tracked, [B, T, 2D]."""
    reward: Tensor
    """Reward of each action, [B, T]."""
    behaviour: Gaussian | None = None
    """The Gaussian each episode's parameters came from; kept only when the trust region is measured from it."""
    plans: Tensor | None = None
    """Where a plan starts, [1, its parameters, the mean they were drawn around], else zeros, [B, T, W]; kept only if
    there may be several an episode. The reference there is where it goes on from."""
    goalless: Tensor | None = None
    """What was reached after each *control* step, and what the step paid whatever the goal is, [B, N, R + 1]; kept only
    if episodes are counted for other goals."""

    def __len__(self) -> int:
        """Number of episodes."""
        return len(self.reward)

    @property
    def horizon(self) -> int:
        """T: stored steps per episode."""
        return self.reward.shape[1]

    def tensors(self) -> dict[str, Tensor]:
        """What is saved of a batch that made a step diverge."""
        return {name: getattr(self, name) for name in ("state", "reference", "action", "reward")}


class EpisodeReplay:
    """Ring of whole episodes in one packed tensor, so that sampling a batch is one gather."""

    def __init__(self, capacity: int, device: torch.device | None = None) -> None:
        """Make an empty ring; memory is reserved when the first episodes arrive."""
        self.capacity = capacity
        self.device = device or torch.device("cpu")
        self.total_added = 0
        self._steps = torch.empty(0)  # [capacity, T, S + 4D + 1]
        self._gaussians = torch.empty(0)  # [capacity, P + factor entries]; empty unless behaviour is kept
        self._plans = torch.empty(0)  # [capacity, T, W]; empty unless there may be several an episode
        self._goalless = torch.empty(0)  # [capacity, N, R + 1]; empty unless episodes are counted for other goals
        self._widths: tuple[int, int, int, int] = (0, 0, 0, 0)
        self._factor_shape: tuple[int, ...] = ()

    def __len__(self) -> int:
        """Number of episodes held."""
        return min(self.total_added, self.capacity)

    def add(self, episodes: EpisodeBatch) -> None:
        """Append episodes; the oldest give way."""
        count = len(episodes)
        if count > self.capacity:
            raise UserError(f"The replay holds {self.capacity} episodes, fewer than the {count} added at once.")
        if not self.total_added:
            self._reserve(episodes)
        slots = (torch.arange(count, device=self.device) + self.total_added) % self.capacity
        columns = (episodes.state, episodes.reference, episodes.action, episodes.reward.unsqueeze(-1))
        self._steps[slots] = send(torch.cat(columns, dim=-1).to(self._steps.dtype), self.device)
        if episodes.behaviour is not None:
            self._gaussians[slots] = _pack_gaussian(episodes.behaviour, count).to(self._gaussians)
        if episodes.plans is not None:
            self._plans[slots] = send(episodes.plans.to(self._plans.dtype), self.device)
        if episodes.goalless is not None:
            self._goalless[slots] = send(episodes.goalless.to(self._goalless.dtype), self.device)
        self.total_added += count

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw indices of episodes uniformly with replacement, [count]."""
        if not len(self):
            raise RunStopped("The replay is empty: no episode has been played to the end yet.")
        return torch.randint(len(self), (count,), generator=generator)

    def gather(self, index: Tensor) -> EpisodeBatch:
        """Copy out the episodes at the indices, [B]."""
        index = send(index, self.device)
        steps = self._steps.index_select(0, index)
        state, reference, action, reward = steps.split(self._widths, dim=-1)
        behaviour = None
        if self._gaussians.numel():
            packed = self._gaussians.index_select(0, index)
            size = packed.shape[1] - torch.Size(self._factor_shape).numel()
            factor = packed[:, size:].unflatten(1, self._factor_shape)
            behaviour = Gaussian(packed[:, :size], factor, diagonal=len(self._factor_shape) == 1)
        plans = self._plans.index_select(0, index) if self._plans.numel() else None
        goalless = self._goalless.index_select(0, index) if self._goalless.numel() else None
        return EpisodeBatch(state, reference, action, reward.squeeze(-1), behaviour, plans, goalless)

    @property
    def rewards(self) -> Tensor:
        """Rewards of all episodes held, without copying, [N, T]."""
        return self._steps[: len(self), :, -1]

    def gather_first(self) -> EpisodeBatch:
        """All episodes held, cut to their first step, without copying."""
        state, reference, action, reward = self._steps[: len(self), :1].split(self._widths, dim=-1)
        return EpisodeBatch(state, reference, action, reward.squeeze(-1))

    def state_dict(self) -> dict[str, Tensor]:
        """Everything needed to go on exactly, as plain tensors."""
        held = len(self)
        plans = {"plans": self._plans[:held]} if self._plans.numel() else {}
        goalless = {"goalless": self._goalless[:held]} if self._goalless.numel() else {}
        return {
            **plans,
            **goalless,
            "total_added": torch.tensor(self.total_added),
            "widths": torch.tensor(self._widths),
            "factor_shape": torch.tensor(self._factor_shape, dtype=torch.long),
            "steps": self._steps[:held],
            "gaussians": self._gaussians[:held],
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take over a saved state; the capacity must be the one it was saved with."""
        added, held = int(state["total_added"]), len(state["steps"])
        if held != min(added, self.capacity):
            raise UserError(f"The saved replay holds {held} episodes and does not fit a capacity of {self.capacity}.")
        self.total_added = added
        first, second, third, fourth = state["widths"].tolist()
        self._widths = (first, second, third, fourth)
        self._factor_shape = tuple(state["factor_shape"].tolist())
        self._steps = self._grown(state["steps"])
        self._gaussians = self._grown(state["gaussians"])
        self._plans = self._grown(state["plans"]) if "plans" in state else torch.empty(0)
        self._goalless = self._grown(state["goalless"]) if "goalless" in state else torch.empty(0)

    def _reserve(self, episodes: EpisodeBatch) -> None:
        """Reserve memory for the shapes of the first episodes."""
        self._widths = (episodes.state.shape[-1], episodes.reference.shape[-1], episodes.action.shape[-1], 1)
        self._steps = torch.zeros(self.capacity, episodes.horizon, sum(self._widths), device=self.device)
        if episodes.behaviour is not None:
            gaussian = episodes.behaviour
            self._factor_shape = tuple(gaussian.factor.shape[-1:] if gaussian.diagonal else gaussian.factor.shape[-2:])
            size = gaussian.mean.shape[-1] + torch.Size(self._factor_shape).numel()
            self._gaussians = torch.zeros(self.capacity, size, device=self.device)
        if episodes.plans is not None:
            self._plans = torch.zeros(self.capacity, *episodes.plans.shape[1:], device=self.device)
        if episodes.goalless is not None:
            self._goalless = torch.zeros(self.capacity, *episodes.goalless.shape[1:], device=self.device)

    def _grown(self, held: Tensor) -> Tensor:
        """Copy saved rows into a full-size ring."""
        if not held.numel():
            return torch.empty(0)
        full = torch.zeros(self.capacity, *held.shape[1:], device=self.device)
        full[: len(held)] = held.to(self.device)
        return full


def _pack_gaussian(gaussian: Gaussian, count: int) -> Tensor:
    """Flatten mean and factor to one row per episode, [B, P + factor entries]."""
    factor = gaussian.factor.flatten(-1) if gaussian.diagonal else gaussian.factor.flatten(-2)
    return torch.cat((gaussian.mean, factor.expand(count, -1)), dim=-1)
