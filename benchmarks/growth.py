"""How step time and memory grow with batch, horizon, number of segments and width."""

from __future__ import annotations

import math
import statistics
import subprocess
import sys
from dataclasses import replace

import torch

from benchmarks.plain_reference import PlainUpdates
from benchmarks.sizes import BOX, MEDIUM, SIZES, Size
from benchmarks.synthetic import make_learner
from benchmarks.timing import interleaved, peak_memory
from top_erl.algorithms.top_erl.segments import SegmentsConfig

GROWTH = {
    "batch": [replace(MEDIUM, batch=batch) for batch in (32, 64, 128, 256)],
    "horizon": [replace(MEDIUM, horizon=horizon, dt=2.0 / horizon) for horizon in (50, 100, 200, 400)],
    "width": [replace(MEDIUM, width=width) for width in (64, 128, 256)],
}


def growth(quick: bool) -> list[dict[str, object]]:
    """Fitted exponents of critic-step time; segments are 20 tokens long, so that the horizon only adds segments."""
    rows: list[dict[str, object]] = []
    for quantity, sizes in GROWTH.items():
        chosen = sizes[:2] if quick else sizes
        times = [_critic_ms(size, FixedTokens(20, size).config) for size in chosen]
        values = [float(getattr(size, quantity)) for size in chosen]
        rows.append(_row(quantity, values, times))
    counts = [1.0, 5.0, 25.0][: 2 if quick else 3]
    times = [_critic_ms(MEDIUM, SegmentsConfig("fixed_count", int(count))) for count in counts]
    rows.append(_row("segments", counts, times))
    return rows


class FixedTokens:
    """A cut into segments of a fixed number of tokens."""

    def __init__(self, tokens: int, size: Size) -> None:
        """Express the number of tokens as a fraction of the horizon."""
        self.config = SegmentsConfig("fixed_length", fraction=tokens / size.horizon)


def memory(quick: bool) -> list[dict[str, object]]:
    """Peak extra memory of a critic step, ours and plain, each in a fresh process."""
    rows: list[dict[str, object]] = []
    for size in (MEDIUM,) if quick else (MEDIUM, BOX):
        ours, plain = (_memory_in_child(size.name, kind) for kind in ("ours", "plain"))
        rows.append({"size": size.name, "ours_mb": ours / 1e6, "plain_mb": plain / 1e6, "ratio": ours / plain})
    return rows


def _memory_in_child(name: str, kind: str) -> int:
    command = [sys.executable, "-m", "benchmarks.growth", name, kind]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def _measure_memory(name: str, kind: str) -> int:
    """Peak growth of this process over a critic step with five segments (the same for both kinds)."""
    size = next(size for size in SIZES if size.name == name)
    learner = make_learner(size, SegmentsConfig("fixed_count", 5), episodes=size.batch)
    updates = learner if kind == "ours" else PlainUpdates(learner)
    batch = learner.replay.gather(torch.arange(size.batch))

    def step() -> None:
        updates.critic_step(batch, torch.Generator().manual_seed(0))

    return peak_memory(step)


def _critic_ms(size: Size, segments: SegmentsConfig) -> float:
    learner = make_learner(size, segments, episodes=size.batch)
    batch = learner.replay.gather(torch.arange(size.batch))
    (seconds,) = interleaved(
        [lambda number: learner.critic_step(batch, torch.Generator().manual_seed(number))], rounds=5
    )
    return 1e3 * statistics.median(seconds)


def _row(quantity: str, values: list[float], times: list[float]) -> dict[str, object]:
    """Least-squares slope in log-log."""
    logs = [(math.log(value), math.log(time)) for value, time in zip(values, times, strict=True)]
    mean_x, mean_y = (statistics.mean(column) for column in zip(*logs, strict=True))
    slope = sum((x - mean_x) * (y - mean_y) for x, y in logs) / sum((x - mean_x) ** 2 for x, _ in logs)
    return {"quantity": quantity, "values": values, "critic_ms": times, "exponent": slope}


if __name__ == "__main__":
    print(_measure_memory(sys.argv[1], sys.argv[2]))
