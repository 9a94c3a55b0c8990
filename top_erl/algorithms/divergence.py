"""The gradient steps of an iteration, with an eye on divergence: shared by all episodic methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import ClassVar, Generic

import torch
from torch import Tensor

from top_erl.algorithms.stats import Stats
from top_erl.errors import RunStopped

LinAlgError = torch.linalg.LinAlgError  # type: ignore[attr-defined]


class Diverged(ArithmeticError):  # noqa: N818 - it names what happened
    """A gradient step whose loss is NaN, infinite or absurdly large, with the batch that did it."""

    LIMIT: ClassVar[float] = 1e10

    def __init__(self, kind: str, number: int, reason: str, batch: Mapping[str, Tensor], remedy: str = "") -> None:
        """Say which step failed and why; `remedy` is an option of the command line that may help."""
        super().__init__(f"{kind} step {number} diverged: {reason}")
        self.kind, self.number, self.reason, self.batch, self.remedy = kind, number, reason, batch, remedy


class GradientSteps(Generic[Stats]):
    """Collects the statistics of one network's steps; leaving the context makes sure that none has diverged.

    Losses are read only then, so that a step never waits for the device. A mean or covariance that cannot be used ends
    the steps at once, but an earlier loss that was NaN or exploded is the one that is reported.
    """

    def __init__(self, network: str, rate: float, batch_of: Callable[[int], Mapping[str, Tensor]]) -> None:
        """Prepare for steps.

        Args:
            network: `critic` or `policy`.
            rate: Its learning rate, for the advice given when steps diverge.
            batch_of: The batch of a step, counted from 1, to be saved if that step diverged.
        """
        self.network, self.rate, self.batch_of = network, rate, batch_of
        self.stats: list[Stats] = []

    def __enter__(self) -> GradientSteps[Stats]:
        """Begin the steps."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raise `Diverged` if, looking back, a loss was NaN or exploded, or a covariance could not be used."""
        unusable = isinstance(error, (RunStopped, LinAlgError))
        if error is not None and not unusable:
            return
        losses = torch.stack([stats.loss for stats in self.stats]).tolist() if self.stats else []
        for number, loss in enumerate(losses, start=1):
            if not abs(loss) < Diverged.LIMIT:
                raise self._diverged(number, f"its loss is {loss:.3g}") from None
        if unusable:
            raise self._diverged(len(losses) + 1, str(error)) from error

    def add(self, stats: Stats) -> None:
        """Note a step."""
        self.stats.append(stats)

    def _diverged(self, number: int, reason: str) -> Diverged:
        remedy = f"--learn.{self.network}-rate {self.rate / 3:.1g}"
        return Diverged(self.network, number, reason, self.batch_of(number), remedy)
