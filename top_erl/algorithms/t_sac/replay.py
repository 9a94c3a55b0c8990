"""Trajectories of step-based episodes, and a replay of them.

Axes: `B` trajectories, `T` steps of the longest episode, `S` features of a state, `A` action entries.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from top_erl.algorithms.saved_state import check_tensors, does_not_fit
from top_erl.errors import RunStopped
from top_erl.hardware.devices import send


@dataclass(frozen=True)
class Trajectories:
    """Episodes as they were played, padded to the longest that there can be."""

    state: Tensor
    """Features before each step and after the last, [B, T + 1, S]."""
    action: Tensor
    """Actions in [-1, 1], [B, T, A]."""
    reward: Tensor
    """What each step paid, [B, T]."""
    length: Tensor
    """Steps that were made, at least 1, long, [B]."""
    ended: Tensor
    """Whether nothing follows the last step, bool, [B]; else it was cut off there."""

    def __len__(self) -> int:
        """Number of trajectories."""
        return len(self.length)

    def tensors(self) -> dict[str, Tensor]:
        """All of it by name."""
        return {name: getattr(self, name) for name in ("state", "action", "reward", "length", "ended")}


class TrajectoryReplay:
    """A ring of trajectories."""

    def __init__(self, capacity: int, horizon: int, state_dim: int, action_dim: int) -> None:
        """Make an empty ring on the CPU."""
        self.capacity, self.total_added = capacity, 0
        self._rows = Trajectories(
            torch.zeros(capacity, horizon + 1, state_dim),
            torch.zeros(capacity, horizon, action_dim),
            torch.zeros(capacity, horizon),
            torch.zeros(capacity, dtype=torch.long),
            torch.zeros(capacity, dtype=torch.bool),
        )

    def __len__(self) -> int:
        """Number of trajectories held."""
        return min(self.total_added, self.capacity)

    def add(self, trajectories: Trajectories) -> None:
        """Append trajectories; the oldest give way."""
        count = len(trajectories)
        kept = torch.arange(max(0, count - self.capacity), count)
        slots = (kept + self.total_added) % self.capacity
        for rows, new in zip(self._rows.tensors().values(), trajectories.tensors().values(), strict=True):
            rows[slots] = new[kept]
        self.total_added += count

    def draw(self, count: int, generator: torch.Generator, device: torch.device) -> Trajectories:
        """Draw trajectories uniformly with replacement."""
        if not len(self):
            raise RunStopped("The replay is empty: no step of any episode has been played yet.")
        index = torch.randint(len(self), (count,), generator=generator)
        return Trajectories(**{name: send(rows[index], device) for name, rows in self._rows.tensors().items()})

    def states(self) -> Tensor:
        """All states that were seen, [rows, S]."""
        length = self._rows.length[: len(self), None]
        seen = torch.arange(self._rows.state.shape[1]) <= length  # [B, T + 1]
        return self._rows.state[: len(self)][seen]

    def state_dict(self) -> dict[str, Tensor]:
        """Everything needed to go on exactly, as plain tensors."""
        held = {name: rows[: len(self)] for name, rows in self._rows.tensors().items()}
        return {**held, "total_added": torch.tensor(self.total_added)}

    def check_state(self, state: dict[str, Tensor]) -> None:
        """Refuse a saved state that is not one of a replay like this."""
        held = len(state["length"]) if "length" in state and state["length"].dim() else 0
        rows = self._rows.tensors().items()
        expected = {name: own.new_empty((held, *own.shape[1:]), device="meta") for name, own in rows}
        check_tensors(state, {**expected, "total_added": torch.tensor(0)})
        added, longest = int(state["total_added"]), self._rows.action.shape[1]
        if added < 0 or held != min(added, self.capacity):
            raise does_not_fit(f"its replay holds {held} of {added} trajectories, with a capacity of {self.capacity}")
        if held and not bool(((state["length"] >= 1) & (state["length"] <= longest)).all()):
            raise does_not_fit(f"its replay has trajectories that are not 1 to {longest} steps long")

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take over a saved state."""
        self.check_state(state)
        self.total_added = int(state["total_added"])
        for name, rows in self._rows.tensors().items():
            rows[: len(self)] = state[name]
