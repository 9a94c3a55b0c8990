"""The batches of an iteration's gradient steps; each can be made again if its step has diverged."""

from __future__ import annotations

import torch
from torch import Tensor

from top_erl.algorithms.top_erl.hindsight import Hindsight
from top_erl.rollout.replay import EpisodeBatch, EpisodeReplay


class Batches:
    """Draws episodes from a replay, and exchanges their goals if asked to."""

    def __init__(
        self, replay: EpisodeReplay, size: int, generator: torch.Generator, hindsight: Hindsight | None = None
    ) -> None:
        """Draw `size` episodes at a time."""
        self._replay, self._size, self._generator, self._hindsight = replay, size, generator, hindsight
        self._places: list[Tensor] = []
        self._chances: list[Tensor] = []  # the generator's states before goals were exchanged

    def draw(self) -> EpisodeBatch:
        """The batch of the next step."""
        self._places.append(self._replay.draw(self._size, self._generator))  # [B]
        episodes = self._replay.gather(self.places)
        if self._hindsight is None:
            return episodes
        self._chances.append(self._generator.get_state())
        return self._hindsight(episodes, self._generator)

    @property
    def places(self) -> Tensor:
        """Where the newest batch's episodes are in the replay, [B]."""
        return self._places[-1]

    def again(self, number: int) -> dict[str, Tensor]:
        """The batch of a step, counted from 1, as it was, while the replay has not changed."""
        episodes = self._replay.gather(self._places[number - 1])
        if self._hindsight is not None:
            generator = torch.Generator()
            generator.set_state(self._chances[number - 1])
            episodes = self._hindsight(episodes, generator)
        return episodes.tensors()
