"""The replay of single steps, with a state of plain tensors. Axes: `M` stored rows, `N` environments."""

from __future__ import annotations

from typing import Any

import torch
from stable_baselines3.common.buffers import ReplayBuffer
from torch import Tensor

from top_erl.algorithms.saved_state import check_tensors
from top_erl.errors import UserError

_ARRAYS = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


class StepReplay(ReplayBuffer):  # type: ignore[misc]  # the package may be missing, and is Any then
    """A ring of rows, each with one step of every environment."""

    last_batch: dict[str, Tensor]
    """What was drawn last."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Take what Stable-Baselines3's replay takes."""
        super().__init__(*arguments, **options)
        self.last_batch = {}

    def sample(self, batch_size: int, env: Any = None) -> Any:
        """Draw steps with replacement."""
        drawn = super().sample(batch_size, env)
        self.last_batch = {name: value for name, value in drawn._asdict().items() if isinstance(value, Tensor)}
        return drawn

    def state_dict(self) -> dict[str, Tensor]:
        """The rows that are filled, [M, N, ...], and where the next one goes."""
        held = self.size()
        state = {name: torch.from_numpy(getattr(self, name)[:held]) for name in _ARRAYS}
        return {**state, "next_row": torch.tensor(self.pos)}

    def check_state(self, state: dict[str, Tensor]) -> None:
        """Refuse a saved state that is not one of a replay of this capacity and these environments."""
        held = len(state["rewards"]) if "rewards" in state and state["rewards"].dim() else 0
        rows = {name: torch.from_numpy(getattr(self, name)[:0]) for name in _ARRAYS}
        expected = {name: row.new_empty((held, *row.shape[1:]), device="meta") for name, row in rows.items()}
        check_tensors(state, {**expected, "next_row": torch.tensor(0)})
        row = int(state["next_row"])
        fits = 0 <= row < held if held == self.buffer_size else row == held < self.buffer_size
        if not fits:
            raise UserError(
                f"The saved replay holds {held} rows and does not fit a capacity of {self.buffer_size} with its next "
                f"row at {row}: use the config.yaml it was saved with."
            )

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take over a saved state; the capacity must be the one it was saved with."""
        self.check_state(state)
        held = len(state["rewards"])
        for name in _ARRAYS:
            getattr(self, name)[:held] = state[name].cpu().numpy()
        self.pos, self.full = int(state["next_row"]), held == self.buffer_size
