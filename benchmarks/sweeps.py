"""What a sweep costs besides its runs: two runs at a time by `top-erl sweep`, and the same two started by hand.

python -m benchmarks.sweeps [--rounds 3] [--steps 100000] [--csv FILE]

Both ways in turns, each from the command to its end: the sweep's own start, its checks and its waiting are part of it.
Prints the ratio of the medians; above 1 the sweep is slower. Needs two idle cores.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

TASK = "top_erl/ViaPointReacher-v0"
SEEDS = (0, 1)


def by_hand(folder: Path, steps: int) -> float:
    """Seconds until two `top-erl train --threads 1` that are started together have ended."""
    began = time.perf_counter()
    processes = [
        _start("train", "--seed", seed, "--run-dir", folder / f"seed{seed}", "--workers", 0, *_shared(steps))
        for seed in SEEDS
    ]
    return _seconds(processes, began)


def by_sweep(folder: Path, steps: int) -> float:
    """Seconds until a sweep of the same two runs has ended."""
    began = time.perf_counter()
    options = ("--tasks", TASK, "--seeds", len(SEEDS), "--into", folder / "sweep", "--fresh-episodes", 0)
    return _seconds([_start("sweep", *options, *_shared(steps))], began)


def _shared(steps: int) -> tuple[object, ...]:
    return "--total-env-steps", steps, "--threads", 1, "--log.no-tensorboard"


def _start(*words: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "top_erl.cli", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def _seconds(processes: list[subprocess.Popen[bytes]], began: float) -> float:
    codes = [process.wait() for process in processes]
    if any(codes):
        raise RuntimeError(f"a command ended with {codes}")
    return time.perf_counter() - began


def main() -> None:
    """Time both ways in turns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=100_000, help="control steps of each run")
    parser.add_argument("--csv", type=Path, help="also write the seconds of every round")
    options = parser.parse_args()
    rows = []
    for number in range(options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            ways = (by_hand, by_sweep) if number % 2 == 0 else (by_sweep, by_hand)
            seconds = {way.__name__: way(Path(folder), options.steps) for way in ways}
        rows.append(
            {"round": number, "steps": options.steps, **{name: round(seconds[name], 2) for name in sorted(seconds)}}
        )
        print(rows[-1], flush=True)
    ratio = median(row["by_sweep"] for row in rows) / median(row["by_hand"] for row in rows)
    print(f"by sweep / by hand: {ratio:.3f}")
    if options.csv is not None:
        with options.csv.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
