"""Tables of `docs/performance.md`, from the files that `make bench` writes."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from results.make.markdown import MISSING, TIMES, digits, number, several, table

Section = Callable[[list[dict[str, Any]]], str]


def products(rows: list[dict[str, Any]]) -> str:
    """Rates of matrix products."""
    header = (
        f"product (tokens {TIMES} inputs {TIMES} outputs)",
        "float32 out, back, weights",
        "bf16 out, back, weights",
    )
    kinds = ("out", "back", "weights")
    return table(
        header,
        (
            (
                f"{row['size']} {row['product'].replace('x', TIMES)}",
                *(several((row[f"{precision}_{kind}"] for kind in kinds), 0) for precision in ("float32", "bf16")),
            )
            for row in rows
        ),
    )


def steps(rows: list[dict[str, Any]]) -> str:
    """Both steps of a size and cut side by side."""
    lines = []
    for (size, cut, precision), group in groupby(
        rows, key=lambda row: (row["size"], row["segments"], row["precision"])
    ):
        by_step = {row["step"]: row for row in group}
        segments = {"1": "1 segment", "random": "random"}.get(cut, f"{cut} segments")
        line = [f"{_size(size)}, {segments}{', bf16' if precision == 'bf16' else ''}"]
        for row in (by_step["critic"], by_step["policy"]):
            line += [digits(row["ours_ms"]), number(row["ratio"]), number(row["matmul_share"])]
        lines.append(line)
    names = (f"{TIMES} plain", "share")
    return table(("size, cut", "critic ms", *names, "policy ms", *names), lines)


def sweeps(results: Path) -> str:
    """Two runs at a time by a sweep and by hand, a row per round."""
    with (_folder(results) / "sweeps.csv").open(encoding="utf-8") as file:
        rounds = [(float(row["by_hand"]), float(row["by_sweep"])) for row in csv.DictReader(file)]
    rounds.append((median(hand for hand, _ in rounds), median(sweep for _, sweep in rounds)))
    names = [*(str(number) for number in range(1, len(rounds))), "median"]
    rows = [
        (name, f"{hand:.0f}", f"{sweep:.0f}", f"{sweep / hand:.3f}")
        for name, (hand, sweep) in zip(names, rounds, strict=True)
    ]
    return table(("round", "by hand s", "by sweep s", "sweep / hand"), rows)


def versions(results: Path) -> str:
    """Iterations of this version and of the one before the redesign, in turns."""
    path = _folder(results) / "versions.csv"
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    lines = []
    for case in dict.fromkeys(row["case"] for row in rows):
        pairs = [(float(row["old_seconds"]), float(row["new_seconds"])) for row in rows if row["case"] == case]
        before, after = (1000 * median(times) for times in zip(*pairs, strict=True))
        ratios = [new / old for old, new in pairs]
        low, _, high = quantiles(ratios, n=4)
        quartiles = f"{number(low, 3)} to {number(high, 3)}"
        lines.append((case, digits(before), digits(after), number(median(ratios), 3), quartiles, str(len(pairs))))
    return table(("case", "before, ms", "now, ms", "ratio, median", "ratio, quartiles", "rounds"), lines)


def attention(rows: list[dict[str, Any]]) -> str:
    """Attention of the paper's width, for sequences of growing length."""
    names = {"PairAttention": "formula", "BatchedAttention": "batched", "FusedAttention": "fused"}
    lines = [
        (
            f"{row['tokens']} tokens a sequence, groups of {row['group']}",
            *(digits(row["batched_ms"]), digits(row["fused_ms"])),
            f"{digits(row['used_ms'])} ({names.get(row['used'], row['used'])})",
            number(row["fused_ms"] / row["used_ms"]),
        )
        for row in rows
        if row["size"] == "paper"
    ]
    title = "attention, forward and backward, 4096 tokens, 8 heads of 16"
    return table((title, "batched ms", "fused ms", "used ms", "fused over used"), lines)


def memory(rows: list[dict[str, Any]]) -> str:
    """Peak memory of a critic step."""
    return table(
        ("peak extra memory of a critic step", "ours MB", "plain MB", "ratio"),
        ((_size(row["size"]), f"{row['ours_mb']:.0f}", f"{row['plain_mb']:.0f}", number(row["ratio"])) for row in rows),
    )


def growth(rows: list[dict[str, Any]]) -> str:
    """Exponents of step time."""
    return table(
        ("growth of a critic step", "values", "ms", "exponent"),
        (
            (row["quantity"], several(row["values"], 0), several(row["critic_ms"], 0), number(row["exponent"]))
            for row in rows
        ),
    )


def rollouts(rows: list[dict[str, Any]]) -> str:
    """Control steps per second."""
    ways = ("bare_simulator", "in_process", "one_worker", "two_workers")
    header = ("control steps per second", *(way.replace("_", " ") for way in ways), "two over one")
    lines = ((f"`{row['task']}`", *(f"{row[way]:.0f}" for way in ways), number(row["two_over_one"])) for row in rows)
    return table(header, lines)


def overlap(rows: list[dict[str, Any]]) -> str:
    """How much of collecting hides behind updates."""
    columns = ("collecting_s", "4_critic_steps_s", "the_same_meanwhile_s", "waited_s")
    header = (
        *("collected during four critic steps", "collecting s", "critic steps alone s", "both s"),
        *("waited for episodes s", "hidden"),
    )
    lines = (
        (f"`{row['task']}`", *(number(row[name], 3) for name in columns), f"{100 * row['hidden']:.0f} %")
        for row in rows
    )
    return table(header, lines)


def startup(rows: list[dict[str, Any]]) -> str:
    """Imports and checkpoints."""
    return table(("start-up and checkpoints", "seconds"), ((row["what"], number(row["seconds"])) for row in rows))


SECTIONS: dict[str, Section] = {
    "products": products,
    "steps": steps,
    "attention": attention,
    "memory": memory,
    "growth": growth,
    "rollouts": rollouts,
    "overlap": overlap,
    "startup": startup,
}


def section(name: str, results: Path) -> str:
    """One table, from the first measurement that has it, or the word that it was not measured."""
    rows = next((found for path in _files(results) if (found := _measured(path).get(name))), None)
    return SECTIONS[name](rows) if rows else f"(`{name}` {MISSING} not measured)"


def machine(results: Path) -> str:
    """What the measurements were made on, and which sections each has."""
    lines = []
    for path in _files(results):
        known = _measured(path)
        sections = ", ".join(name for name in SECTIONS if name in known)
        lines.append((f"`{path.name}`", *(str(known.get(key, MISSING)) for key in _FACTS.values()), sections))
    return table(("raw numbers in `results/claims/benchmarks/`", *_FACTS, "sections"), lines)


_FACTS = {"processor": "processor", "PyTorch": "torch", "threads": "threads"}


def _size(name: str) -> str:
    return name.replace(" x ", f" {TIMES} ")


def _folder(results: Path) -> Path:
    return results / "claims/benchmarks"


def _files(results: Path) -> list[Path]:
    return sorted(_folder(results).glob("*.json"))


@cache
def _measured(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8")))


SPEED: dict[str, Callable[[Path], str]] = {
    **{f"bench_{name}": partial(section, name) for name in SECTIONS},
    "bench_machine": machine,
    "bench_versions": versions,
    "bench_sweeps": sweeps,
}
