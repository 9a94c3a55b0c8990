"""Gradient steps on batches from the replay, with an eye on divergence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from top_erl.algorithms.stats import Diverged, Stats
from top_erl.errors import RunStopped
from top_erl.rollout import EpisodeBatch, EpisodeReplay

LinAlgError = torch.linalg.LinAlgError  # type: ignore[attr-defined]


@dataclass(frozen=True)
class GradientSteps:
    """The critic's or the policy's steps of an iteration."""

    kind: str
    """`critic` or `policy`."""
    replay: EpisodeReplay
    """Where batches come from."""
    batch_size: int
    """B: episodes per step."""
    rate: float
    """Learning rate, for the advice given when steps diverge."""

    def run(self, count: int, generator: torch.Generator, step: Callable[[EpisodeBatch, Tensor], Stats]) -> list[Stats]:
        """Do steps on fresh batches, given with their places in the replay, [B].

        Raises:
            Diverged: If, looking back, a loss was NaN or exploded, or a covariance could not be used.
        """
        drawn: list[Tensor] = []
        stats: list[Stats] = []
        failure: Exception | None = None
        while len(drawn) < count and failure is None:
            drawn.append(self.replay.draw(self.batch_size, generator))
            try:
                stats.append(step(self.replay.gather(drawn[-1]), drawn[-1]))
            except (RunStopped, LinAlgError) as error:  # a mean or covariance that cannot be used
                failure = error
        losses = torch.stack([s.loss for s in stats]).tolist() if stats else []  # the only wait for the device
        for number, loss in enumerate(losses, start=1):
            if not abs(loss) < Diverged.LIMIT:
                raise self._diverged(number, f"its loss is {loss:.3g}", drawn[number - 1])
        if failure is not None:
            raise self._diverged(len(drawn), str(failure), drawn[-1]) from failure
        return stats

    def _diverged(self, number: int, reason: str, drawn: Tensor) -> Diverged:
        """Say which step failed, with its batch."""
        batch = self.replay.gather(drawn)
        tensors = {name: getattr(batch, name) for name in ("state", "reference", "action", "reward")}
        return Diverged(self.kind, number, reason, tensors, f"--learn.{self.kind}-rate {self.rate / 3:.1g}")
