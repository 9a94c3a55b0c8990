"""Is a version slower than another? Updates of two checkouts in turns, each in a process of its own.

python -m benchmarks.versions OLD [NEW] [--rounds 20] [--threads 2] [--csv FILE]

Times whole iterations of critic steps alone and of policy steps alone, at laptop and at Box Pushing size, and prints
the median of the ratios new / old of the rounds: above 1 the new version is slower.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
from pathlib import Path
from statistics import median, quantiles

SERVER = """
import sys, time
from dataclasses import replace
import torch
from benchmarks.sizes import BOX, LAPTOP
from benchmarks.synthetic import make_learner
torch.set_num_threads(int(sys.argv[1]))
learners, number = {"laptop": make_learner(LAPTOP), "box": make_learner(BOX)}, 0
for line in sys.stdin:
    name, critic_steps, policy_steps = line.split()
    learner, number = learners[name], number + 1
    learn = replace(learner.config.learn, critic_steps=int(critic_steps), policy_steps=int(policy_steps))
    learner.config = replace(learner.config, learn=learn)
    began = time.perf_counter()
    learner.iterate(number)
    print(time.perf_counter() - began, flush=True)
"""
CASES = {
    "laptop, 20 critic steps": "laptop 20 0",
    "laptop, 20 policy steps": "laptop 0 20",
    "box, 1 critic step": "box 1 0",
    "box, 1 policy step": "box 0 1",
}


class Version:
    """A checkout at work; its iterations draw the same random numbers as another's."""

    def __init__(self, checkout: Path, threads: int) -> None:
        """Start its process."""
        environment = {**os.environ, "PYTHONPATH": str(checkout.resolve())}
        command = [sys.executable, "-c", SERVER, str(threads)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=checkout, env=environment)

    def seconds(self, case: str) -> float:
        """Time one iteration."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{case}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def main() -> None:
    """Compare two checkouts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path, nargs="?", default=Path())
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--csv", type=Path, default=Path("benchmarks/versions.csv"), help="where the seconds go")
    options = parser.parse_args()
    old, new = (Version(checkout, options.threads) for checkout in (options.old, options.new))
    rows = []
    for name, case in CASES.items():
        pairs = []
        for number in range(options.rounds + 1):
            first, second = (old, new) if number % 2 else (new, old)  # whoever comes second finds a warm machine
            times = {version: version.seconds(case) for version in (first, second)}
            pairs.append((times[old], times[new]))
        pairs = pairs[1:]  # the first warms up
        rows += [(name, number, *pair) for number, pair in enumerate(pairs, start=1)]
        ratios = [after / before for before, after in pairs]
        low, _, high = quantiles(ratios, n=4)
        before, after = (1000 * median(times) for times in zip(*pairs, strict=True))
        print(f"{name}: {before:.0f} ms, {after:.0f} ms, ratio {median(ratios):.3f} (quartiles {low:.3f} {high:.3f})")
    old.close()
    new.close()
    with options.csv.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("case", "round", "old_seconds", "new_seconds"), *rows])


if __name__ == "__main__":
    main()
