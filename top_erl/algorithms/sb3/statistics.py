"""What Stable-Baselines3 logs, kept in memory: means over an iteration, nothing on disk or screen."""

from __future__ import annotations

import math
from typing import Any

from stable_baselines3.common.logger import Logger

from top_erl.algorithms.divergence import Diverged


class MeanLogger(Logger):  # type: ignore[misc]  # the package may be missing, and is Any then
    """Averages every number that is recorded until it is cleared."""

    def __init__(self) -> None:
        """Write nowhere."""
        super().__init__(folder=None, output_formats=[])
        self.clear()

    def record(self, key: str, value: Any, exclude: str | tuple[str, ...] | None = None) -> None:
        """Count a number in."""
        self._sums[key] = self._sums.get(key, 0.0) + float(value)
        self._counts[key] = self._counts.get(key, 0) + 1
        if not abs(value) < Diverged.LIMIT:
            self.absurd.setdefault(key, (self._counts[key], float(value)))

    @property
    def rounds(self) -> int:
        """How often the number recorded most often was recorded."""
        return max(self._counts.values(), default=0)

    def mean(self, key: str) -> float | None:
        """Mean of what was recorded; None if there is nothing, or nothing finite."""
        if key not in self._sums:
            return None
        mean = self._sums[key] / self._counts[key]
        return mean if math.isfinite(mean) else None

    def clear(self) -> None:
        """Forget everything."""
        self._sums: dict[str, float] = {}
        self._counts: dict[str, int] = {}
        self.absurd: dict[str, tuple[int, float]] = {}
        """The first value of each number that is NaN or too large, after how many records it came."""
