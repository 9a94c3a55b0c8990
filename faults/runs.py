"""Runs that take a second, and what a run has to show: if that is the same bit by bit, it is the same run."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError
from safetensors.numpy import load_file

from faults.scenario import Lost
from top_erl.errors import UserError
from top_erl.experiment.metrics_file import Row, read_metrics

ITERATIONS = 24
_COMMON = [
    "--task=top_erl/ViaPointReacher-v0",
    f"--total-env-steps={ITERATIONS * 100}",
    "--evaluation.interval=6",
    "--evaluation.episodes=2",
    "--checkpoint.interval=2",
    "--log.no-tensorboard",
    "--threads=1",
    "--workers=0",
]
EPISODIC = [
    "--method=top_erl",
    "--policy.hidden=8",
    "--critic.width=8",
    "--critic.heads=2",
    "--critic.layers=1",
    "--segments.count=2",
    "--collect.episodes=2",
    "--collect.prefill=2",
    "--collect.capacity=20",
    "--learn.batch-size=4",
    "--learn.critic-steps=1",
    "--learn.policy-steps=1",
]
STEPWISE = [
    "--method=sac",
    "--collect.environments=2",
    "--collect.steps=100",
    "--networks.policy-hidden=8",
    "--networks.critic-hidden=8",
    "--learn.learning-starts=100",
    "--learn.update-every=50",
    "--learn.gradient-steps=1",
    "--learn.batch-size=16",
    "--learn.buffer-size=1000",
]
_TCE = ["--method=tce", "--collect.episodes=2", "--learn.policy-epochs=1", "--learn.critic-epochs=1"]

TINY = {
    "top_erl": [*_COMMON, *EPISODIC],
    "top_erl, two workers": [*_COMMON, *EPISODIC, "--workers=2", "--collect.overlap"],
    "top_erl, saved at its end": [*_COMMON, *EPISODIC, "--checkpoint.interval=1000", "--log.tensorboard"],
    "tce": [*_COMMON, *_TCE],
    "tce, a worker": [*_COMMON, *_TCE, "--workers=1"],
    "sac": [*_COMMON, *STEPWISE],
}
"""Options of `top-erl train` for runs on the arm, of 24 iterations or so each."""

_TIMES = ("wall_time", "steps_per_second")
"""Columns that differ from run to run."""
RECORD = ("config.yaml", "fingerprint.json", "metrics.csv", "checkpoints")
"""What was saved of a run, and must not change when the program refuses to go on."""


@dataclass(frozen=True)
class Numbers:
    """All that a run has to show."""

    rows: list[Row]
    """Of `metrics.csv`, without times."""
    last: str
    """Name of the last checkpoint."""
    tensors: dict[str, str]
    """The last checkpoint: type, shape and hash of each tensor."""


def numbers(run: Path) -> Numbers:
    """Read what a run has to show; one that cannot be read is lost."""
    try:
        rows = [
            {name: value for name, value in row.items() if name not in _TIMES}
            for row in read_metrics(run / "metrics.csv")
        ]
        last = newest_checkpoint(run)
        tensors = {}
        for file in sorted(last.glob("*.safetensors")):
            for name, value in load_file(file).items():
                digest = hashlib.sha256(value.tobytes()).hexdigest()
                tensors[f"{file.name} {name}"] = f"{value.dtype} {value.shape} {digest}"
    except (OSError, UserError, SafetensorError) as error:
        raise Lost(f"the run cannot be read: {error}") from None
    return Numbers(rows, last.name, tensors)


def must_be_the_same(found: Path, expected: Path) -> None:
    """Demand that two runs have the same to show, to the last bit."""
    mine, theirs = numbers(found), numbers(expected)
    if len(mine.rows) != len(theirs.rows) or mine.last != theirs.last:
        raise Lost(f"{len(mine.rows)} rows to checkpoint {mine.last}, not {len(theirs.rows)} to {theirs.last}")
    for row, other in zip(mine.rows, theirs.rows, strict=True):
        if row != other:
            differing = [name for name in other if row.get(name) != other[name]] or sorted(row.keys() - other.keys())
            raise Lost(f"other numbers in iteration {other['iteration']:.0f}: {', '.join(differing[:3])}")
    if mine.tensors != theirs.tensors or not mine.tensors:
        names = [name for name in theirs.tensors if mine.tensors.get(name) != theirs.tensors[name]]
        raise Lost(f"other tensors: {', '.join(names[:3]) or 'more than there should be'}")


def checkpoints(run: Path) -> list[Path]:
    """The checkpoints of a run, oldest first."""
    folder = run / "checkpoints"
    return sorted(path for path in folder.iterdir() if path.name.isdigit()) if folder.is_dir() else []


def newest_checkpoint(run: Path) -> Path:
    """The last checkpoint of a run."""
    if not (found := checkpoints(run)):
        raise Lost("the run has no checkpoint")
    return found[-1]


def rows_written(run: Path) -> int:
    """Whole lines of `metrics.csv` below its header."""
    try:
        return max(0, (run / "metrics.csv").read_bytes().count(b"\n") - 1)
    except OSError:
        return 0


def being_saved(run: Path) -> bool:
    """Whether a checkpoint is being written."""
    try:
        return any(name.startswith(".") for name in os.listdir(run / "checkpoints"))
    except OSError:
        return False


Snapshot = dict[str, str]


def snapshot(*paths: Path) -> Snapshot:
    """Files, links and folders below some paths, with what they hold; links are not followed."""
    found: Snapshot = {}
    for top in paths:
        for path in [top, *(sorted(top.rglob("*")) if top.is_dir() and not top.is_symlink() else [])]:
            if path.is_symlink():
                found[str(path)] = f"link to {os.readlink(path)}"
            elif path.is_file():
                found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
            elif path.exists():
                found[str(path)] = "folder"
    return found


def record(run: Path) -> Snapshot:
    """What was saved of a run."""
    return snapshot(*(run / name for name in RECORD))


def must_be_unchanged(before: Snapshot, *paths: Path, growing: bool = False) -> None:
    """Demand that nothing was changed or deleted, and unless it is `growing` that nothing is new."""
    now = snapshot(*paths)
    if changed := [name for name, content in before.items() if now.get(name) != content]:
        gone = [name for name in changed if name not in now]
        raise Lost(f"{'deleted' if gone else 'changed'}: {Path((gone or changed)[0]).name}")
    if not growing and (new := now.keys() - before.keys()):
        raise Lost(f"new: {Path(min(new)).name}")
