"""Milliseconds per critic and policy step, against the plain reference in the same process."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass

import torch

from benchmarks.plain_reference import PlainUpdates
from benchmarks.sizes import LAPTOP, SIZES, Size
from benchmarks.synthetic import make_learner
from benchmarks.timing import critic_operations, interleaved, matmul_rate, policy_operations
from top_erl.algorithms import SegmentsConfig

CUTS = {
    "1": SegmentsConfig("fixed_count", 1),
    "5": SegmentsConfig("fixed_count", 5),
    "25": SegmentsConfig("fixed_count", 25),
    "random": SegmentsConfig("random", 25),
}


@dataclass(frozen=True)
class StepTiming:
    """One row of the table."""

    size: str
    segments: str
    step: str
    ours_ms: float
    plain_ms: float
    ratio: float
    """Plain over ours."""
    plain_once_ratio: float
    """The same when the plain reference projects a shared covariance once, as the authors do."""
    matmul_share: float
    """Needed operations over (time x the matmul rate of the machine at these shapes)."""


def measure(size: Size, cut: str, rounds: int) -> list[StepTiming]:
    """Time both steps of one size and cut; every round uses the same batch and cut for all contestants."""
    learner = make_learner(size, CUTS[cut])
    contestants = (learner, PlainUpdates(learner), PlainUpdates(learner, projection_per_copy=False))
    rate = matmul_rate(size.batch * (size.horizon + 1), size.width)
    rows = []
    for name, operations in (("critic", critic_operations), ("policy", policy_operations)):

        def run(updates: object, number: int, step: str = f"{name}_step") -> None:
            generator = torch.Generator().manual_seed(number)
            batch = learner.replay.gather(learner.replay.draw(size.batch, generator))
            getattr(updates, step)(batch, generator)

        functions = [lambda number, updates=updates: run(updates, number) for updates in contestants]
        ours, plain, once = interleaved(functions, rounds)
        needed = [operations(size, _cut(learner, size, number, name == "critic")) for number in range(rounds)]
        rows.append(
            StepTiming(
                size.name,
                cut,
                name,
                1e3 * statistics.mean(ours),
                1e3 * statistics.mean(plain),
                sum(plain) / sum(ours),
                sum(once) / sum(ours),
                sum(needed) / (sum(ours) * rate),
            )
        )
    return rows


def run(quick: bool) -> list[dict[str, object]]:
    """Measure all sizes and cuts."""
    rows: list[StepTiming] = []
    for size in SIZES[:2] if quick else SIZES:
        rounds = 40 if size is LAPTOP else max(2, 400 // size.batch)
        for cut in CUTS:
            rows += measure(size, cut, rounds if cut == "random" else max(2, rounds // 2))
    return [asdict(row) for row in rows]


def _cut(learner: object, size: Size, number: int, padded: bool) -> object:
    """The cut that round `number` used."""
    generator = torch.Generator().manual_seed(number)
    learner.replay.draw(size.batch, generator)
    return learner.segmentation.draw(size.horizon, generator, padded=padded)
