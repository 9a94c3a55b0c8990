"""Milliseconds per critic and policy step, against the plain reference in the same process."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import torch

from benchmarks.plain_reference import PlainUpdates
from benchmarks.sizes import LAPTOP, SIZES, SMALL, Size
from benchmarks.synthetic import make_learner
from benchmarks.timing import MatmulClock, critic_operations, interleaved, policy_operations
from top_erl.algorithms.top_erl.learner import TopErlLearner
from top_erl.algorithms.top_erl.segments import SegmentsConfig

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
    precision: str
    ours_ms: float
    plain_ms: float
    ratio: float
    """Plain over ours."""
    matmul_share: float
    """Needed operations over (time x the machine's float32 rate at the same products, measured in the same round)."""


_IN_A_ROW = 5
"""Steps of a turn at laptop size. Training makes dozens in a row; alone, a step of a few milliseconds would mostly find
the cache full of another contestant's numbers."""


def measure(size: Size, cut: str, rounds: int, low: bool = False) -> list[StepTiming]:
    """Time both steps of one size and cut; every round uses the same batches and cuts for all contestants."""
    row = _IN_A_ROW if size is LAPTOP else 1
    learner = make_learner(size, CUTS[cut])
    if low:
        learner.use_bf16()
    plain = PlainUpdates(learner)
    rows = []
    for name, operations in (("critic", critic_operations), ("policy", policy_operations)):
        clock = MatmulClock(size.batch * (size.horizon + 1), size.width, name)
        ours = _critic_step(learner) if name == "critic" else _policy_step(learner)
        steps = (ours, getattr(plain, f"{name}_step"))
        functions = [lambda number, step=step: _run(learner, size, _turn(number, row), step) for step in steps]
        ours_s, plain_s, clock_s = interleaved([*functions, clock], rounds)
        ours_s, plain_s = ([seconds / row for seconds in record] for record in (ours_s, plain_s))
        if name == "critic":  # the policy is projected once for all critic steps of an iteration
            projecting = interleaved([lambda _: learner._project_replay(None)], 5)[0]
            share = statistics.median(projecting) / learner.config.learn.critic_steps
            ours_s = [seconds + share for seconds in ours_s]
        needed = [
            statistics.mean(
                operations(size, _cut(learner, size, seed, name == "critic")) for seed in _turn(number, row)
            )
            for number in range(rounds)
        ]
        rows.append(
            StepTiming(
                *(size.name, cut, name, "bf16" if low else "float32"),
                *(1e3 * statistics.mean(ours_s), 1e3 * statistics.mean(plain_s)),
                _ratio(plain_s, ours_s),
                statistics.median(
                    n * c / (o * clock.operations) for n, o, c in zip(needed, ours_s, clock_s, strict=True)
                ),
            )
        )
    return rows


def _ratio(slow: list[float], fast: list[float]) -> float:
    """How often the fast one fits into the slow one: the median over the rounds, each round's two side by side."""
    return statistics.median(a / b for a, b in zip(slow, fast, strict=True))


def _turn(number: int, row: int) -> range:
    """Seeds of the steps of round `number`."""
    return range(number * row, (number + 1) * row)


def _run(learner: TopErlLearner, size: Size, seeds: range, step: Callable[..., object]) -> None:
    """Make a step on the batch and cut of each seed."""
    for seed in seeds:
        generator = torch.Generator().manual_seed(seed)
        step(learner.replay.gather(learner.replay.draw(size.batch, generator)), generator)


def _critic_step(learner: TopErlLearner) -> Callable[..., object]:
    """A critic step as an iteration makes it: the policy is projected already."""
    known = learner._project_replay(None)
    assert known is not None
    gaussian = replace(known, mean=known.mean[: learner.config.learn.batch_size])
    return lambda batch, generator: learner.critic_step(batch, generator, None, gaussian)


def _policy_step(learner: TopErlLearner) -> Callable[..., object]:
    """A policy step as an iteration makes all but the last: without measuring the trust region."""
    return lambda batch, generator: learner.policy_step(batch, generator, None, measure=False)


def run(quick: bool) -> list[dict[str, object]]:
    """Measure all sizes and cuts in float32, and random cuts in bfloat16 where it is meant for."""
    rows: list[StepTiming] = []
    for size in SMALL if quick else SIZES:
        rounds = 20 if size is LAPTOP else max(3, 500 // size.batch)
        for cut in CUTS:
            rows += measure(size, cut, rounds)
        if size is not LAPTOP:
            rows += measure(size, "random", rounds, low=True)
    return [asdict(row) for row in rows]


def _cut(learner: object, size: Size, seed: int, padded: bool) -> object:
    """The cut that the step of a seed used."""
    generator = torch.Generator().manual_seed(seed)
    learner.replay.draw(size.batch, generator)
    return learner.segmentation.draw(size.horizon, generator, padded=padded)
