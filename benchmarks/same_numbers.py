"""Do two versions of the program train the same numbers?

python -m benchmarks.same_numbers record OLD           # in a checkout of the version before
python -m benchmarks.same_numbers record NEW           # in a checkout of the version after
python -m benchmarks.same_numbers compare OLD NEW      # bit by bit; exit code 1 if anything differs

A redesign should change none. Short runs of every method on two tasks, and of the options of TOP-ERL, are made by the
command line, on one thread and without workers, so that both versions are asked for the same in the same words. What is
compared are all columns of the old `metrics.csv` but the times (the new one may have more), and all tensors of the last
checkpoint.
"""

from __future__ import annotations

import csv
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors.torch import load_file

TASKS = {"arm": "top_erl/ViaPointReacher-v0", "reach": "metaworld/reach-v3"}
STEPS = {"arm": 4_000, "reach": 24_000}
"""Control steps of the short runs: some iterations with updates of both networks."""
EVERY_FIFTH = ("--evaluation.interval", "5")
"""TCE and BBRL were evaluated less often on Meta-World up to version 0.1."""
STEP_BASED = {"ppo": 12_000, "gsde": 12_000, "gtrxl": 8_000, "sac": 12_000, "pink": 12_000, "t_sac": 8_000}
"""Step-based methods need more, since their iterations are longer."""
CONSTANT_RATES = ("--learn.final-rate", "1")
"""TOP-ERL's learning rates fell one iteration earlier than those of the other methods up to version 0.1."""
VARIATIONS = {
    "q": ("--learn.target", "q"),
    "clipped": ("--learn.target", "clipped"),
    "ensemble": ("--learn.target", "ensemble", "--learn.ensemble-size", "3"),
    "no_layer_norm": ("--critic.no-layer-norm",),
    "relative": ("--critic.positions", "relative"),
    "dropout": ("--critic.dropout", "0.05"),
    "wide": ("--critic.width", "128", "--critic.heads", "8", "--critic.layers", "2", "--learn.batch-size", "128"),
    "pieces": ("--learn.batch-size", "256", "--learn.target", "clipped"),
    "behaviour": ("--trust-region.anchor", "behaviour"),
    "contextual": ("--policy.contextual",),
    "diagonal": ("--policy.covariance", "diagonal", "--trust-region.entropy", "linear"),
    "w2": ("--trust-region.projection", "w2"),
    "frobenius": ("--trust-region.projection", "frobenius"),
    "no_trust_region": ("--trust-region.projection", "none"),
    "conditions": ("--learn.policy-condition", "segment", "--learn.critic-condition", "episode"),
    "mean_objective": ("--learn.policy-objective", "mean", "--learn.discount", "0.98"),
    "fixed_count": ("--segments.kind", "fixed_count", "--segments.count", "6"),
    "fixed_length": ("--segments.kind", "fixed_length", "--segments.fraction", "0.4"),
    "overlap": ("--collect.overlap", "--collect.stride", "2"),
    "relative_goal": ("--primitive.relative-goal",),
    "bf16": ("--precision", "bf16"),
    "plans": ("--plan.every", "10", "--plan.random"),
}
"""Options of TOP-ERL, tried on the arm."""
TIMES = {"wall_time", "steps_per_second"}


def runs() -> Iterator[tuple[str, list[str]]]:
    """Name and options of every run."""
    for short, task in TASKS.items():
        steps = STEPS[short]
        for method in ("top_erl", "tce", "bbrl_cov", "bbrl_std"):
            others = EVERY_FIFTH if short == "reach" else ()
            yield f"{method}-{short}", _options(task, method, steps, CONSTANT_RATES if method == "top_erl" else others)
        for method, steps in STEP_BASED.items():
            yield f"{method}-{short}", _options(task, method, steps, ())
    for name, options in VARIATIONS.items():
        yield f"top_erl-{name}", _options(TASKS["arm"], "top_erl", STEPS["arm"], (*CONSTANT_RATES, *options))


def _options(task: str, method: str, steps: int, others: tuple[str, ...]) -> list[str]:
    common = ["--seed", "5", "--threads", "1", "--workers", "0", "--evaluation.episodes", "4"]
    return ["--task", task, "--method", method, "--total-env-steps", str(steps), *common, *others]


def record(folder: Path) -> None:
    """Make every run that is not there yet; one thread, so that the order of sums is fixed."""
    for name, options in runs():
        if (folder / name / "metrics.csv").exists():
            continue
        command = [sys.executable, "-m", "top_erl.cli", "train", *options, "--log.no-tensorboard"]
        done = subprocess.run([*command, "--run-dir", str(folder / name)], capture_output=True, text=True, check=False)
        print(name, "made" if done.returncode == 0 else f"failed: {done.stderr.strip()}", flush=True)


def compare(old: Path, new: Path) -> int:
    """Print every difference; returns their number."""
    differences = 0
    for name, _ in runs():
        found = [*_metric_differences(old / name, new / name), *_tensor_differences(old / name, new / name)]
        print(name, "the same" if not found else "differs: " + "; ".join(found[:6]))
        differences += bool(found)
    return differences


def _metric_differences(old: Path, new: Path) -> Iterator[str]:
    if not ((old / "metrics.csv").exists() and (new / "metrics.csv").exists()):
        yield "one of the runs is missing"
        return
    before, after = _rows(old), _rows(new)
    if len(before) != len(after):
        yield f"{len(before)} rows against {len(after)}"
    for column in sorted({key for row in before[:1] for key in row} - TIMES):
        pairs = [(one.get(column), other.get(column)) for one, other in zip(before, after, strict=False)]
        first = next((row for row, (one, other) in enumerate(pairs, start=1) if one != other), None)
        if first is not None:
            yield f"{column} from row {first} on ({pairs[first - 1][0]} against {pairs[first - 1][1]})"


def _rows(run: Path) -> list[dict[str, str]]:
    with (run / "metrics.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _tensor_differences(old: Path, new: Path) -> Iterator[str]:
    for name in ("state.safetensors", "replay.safetensors"):
        before, after = _tensors(old, name), _tensors(new, name)
        if not (before and after) and name == "state.safetensors":
            yield "one of them has no checkpoint"
        for key in sorted(before.keys() ^ after.keys()):
            yield f"{key} only in one of them"
        for key in sorted(before.keys() & after.keys()):
            if not torch.equal(before[key], after[key]):
                yield f"{key} of the last checkpoint"


def _tensors(run: Path, name: str) -> dict[str, torch.Tensor]:
    last = max((run / "checkpoints").glob("[0-9]*"), default=None)
    return {} if last is None else load_file(last / name)


if __name__ == "__main__":
    action, *folders = sys.argv[1:] or ["help"]
    if action == "record" and len(folders) == 1:
        record(Path(folders[0]))
    elif action == "compare" and len(folders) == 2:
        sys.exit(compare(*map(Path, folders)) > 0)
    else:
        sys.exit(__doc__)
