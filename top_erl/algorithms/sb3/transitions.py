"""The replay of single steps, with a state of plain tensors. Axes: `M` stored rows, `N` environments."""

from __future__ import annotations

from typing import Any

import torch
from stable_baselines3.common.buffers import ReplayBuffer
from torch import Tensor

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

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take over a saved state; the capacity must be the one it was saved with."""
        held, row = len(state["rewards"]), int(state["next_row"])
        fits = row < held if held == self.buffer_size else row == held < self.buffer_size
        if not fits:
            raise UserError(
                f"The saved replay holds {held} rows and does not fit a capacity of {self.buffer_size}: use the "
                "config.yaml it was saved with."
            )
        for name in _ARRAYS:
            array, saved = getattr(self, name), state[name].cpu().numpy()
            if saved.shape[1:] != array.shape[1:]:
                raise UserError(
                    f"The saved replay has {name} of shape {saved.shape[1:]} where this run has {array.shape[1:]}: use "
                    "the config.yaml it was saved with."
                )
            array[:held] = saved
        self.pos, self.full = row, held == self.buffer_size
