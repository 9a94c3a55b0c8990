"""A sweep of three methods on two tasks that is over in seconds, and what its runs left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import yaml
from safetensors.numpy import load_file

from top_erl.experiment.lock import is_locked
from top_erl.experiment.metrics_file import Row, read_metrics
from top_erl.experiment.status_file import read_status

ROOT = Path(__file__).parents[2]
TASKS = ["top_erl/ViaPointReacher-v0", "top_erl/BoxPushingDense-v0"]
METHODS = {
    "top_erl": {
        "collect.episodes": 2,
        "collect.prefill": 4,
        "collect.stride": 1,
        "learn.critic_steps": 1,
        "learn.policy_steps": 1,
        "learn.batch_size": 4,
        "segments.count": 2,
    },
    "tce": {"collect.episodes": 2, "learn.policy_epochs": 1, "learn.critic_epochs": 1},
    "bbrl_cov": {"collect.episodes": 2, "learn.policy_epochs": 1},
}
TIMES = ("wall_time", "steps_per_second")
"""Columns that differ from run to run."""


def write_definition(path: Path, tasks: list[str], seeds: int, iterations: int) -> None:
    """Write a sweep's file; on the arm, whose episodes are half as long, runs have twice as many iterations."""
    steps = 2 * iterations * 100
    definition = {
        "name": "tiny",
        "tasks": tasks,
        "seeds": seeds,
        "methods": METHODS,
        "fresh_episodes": 2,
        "options": {
            "total_env_steps": steps,
            "evaluation.interval": 4,
            "evaluation.episodes": 2,
            "checkpoint.interval": 2,
            "log.tensorboard": False,
        },
    }
    path.write_text(yaml.safe_dump(definition))


def top_erl(*words: str | Path, cwd: Path) -> subprocess.Popen[str]:
    """Start the command."""
    return subprocess.Popen(
        [sys.executable, "-m", "top_erl.cli", *map(str, words)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process: subprocess.Popen[str], seconds: float = 1200.0) -> tuple[int, str]:
    """Wait for a command; its exit code and what it said."""
    output, _ = process.communicate(timeout=seconds)
    return process.returncode, output


def wait_for(condition: Callable[[], object], seconds: float = 900.0) -> None:
    """Wait until something is so."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.02)


def saved_and_running(sweep: Path) -> list[Path]:
    """Runs that have saved something but have not ended."""
    return [
        run
        for run in sorted(sweep.glob("*-seed*"))
        if is_locked(run) and _says_running(run) and any((run / "checkpoints").glob("0*"))
    ]


def _says_running(run: Path) -> bool:
    status = read_status(run)
    return status is not None and status.state == "running"


def kill_a_running_run(sweep: Path) -> Path | None:
    """Kill -9 the process of a run that has saved something but has not ended; its folder, if there is one."""
    for run in saved_and_running(sweep):
        try:
            os.kill(int((run / ".lock").read_text().split()[1]), signal.SIGKILL)
        except (ProcessLookupError, IndexError):  # it has ended just now, or the next one is about to begin
            continue
        return run
    return None


def numbers(run: Path) -> tuple[list[Row], dict[str, bytes], str]:
    """All that a run has to show: its rows without times, the tensors of its last checkpoint, its fresh episodes."""
    rows = [
        {name: value for name, value in row.items() if name not in TIMES} for row in read_metrics(run / "metrics.csv")
    ]
    last = max((run / "checkpoints").glob("0*"))
    tensors = {name: value.tobytes() for name, value in load_file(last / "state.safetensors").items()}
    return rows, tensors, (run / "evaluation.json").read_text()
