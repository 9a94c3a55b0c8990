"""`status.json`: how far a run is, for those who look from outside. Needs no torch."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal, get_args

from top_erl.config.files import write_whole
from top_erl.errors import RunStopped
from top_erl.experiment.metrics_file import Row, Sink

FILE = "status.json"
State = Literal["running", "finished", "stopped", "failed"]
_EVERY = 1.0
"""Seconds between two writes while nothing but the numbers changes."""


@dataclass(frozen=True)
class RunStatus:
    """How far a run is."""

    state: State
    """`stopped`: it can be resumed; `failed`: resuming would only repeat what happened."""
    iteration: int
    total_iterations: int
    seconds: float
    """Time of training so far, all sessions together."""
    success: float | None = None
    """Of the last evaluation, if the task has one."""
    score: float | None = None
    """Return of the last evaluation."""
    sentence: str = ""
    """Why it stopped or failed, if not by wish."""
    updated: str = ""
    """When this was written."""

    @property
    def seconds_left(self) -> float | None:
        """Time until the end at the pace so far."""
        return self.seconds / self.iteration * (self.total_iterations - self.iteration) if self.iteration else None


class StatusFile(Sink):
    """Writes a run's `status.json` while it trains."""

    def __init__(self, folder: Path, total_iterations: int) -> None:
        """Point at a run folder."""
        self._path, self._total = folder / FILE, total_iterations
        before = read_status(folder)
        self._success, self._score = (before.success, before.score) if before is not None else (None, None)
        self._written = 0.0

    def write(self, row: Row) -> None:
        """Take the numbers of an iteration; writes now and then."""
        self._success = row.get("evaluation_success", self._success)
        self._score = row.get("evaluation_return", self._score)
        if time.monotonic() > self._written + _EVERY:
            self.say("running", int(row["iteration"]), row["wall_time"])

    def say(self, state: State, iteration: int, seconds: float, sentence: str = "") -> None:
        """Write the file as a whole."""
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        status = RunStatus(state, iteration, self._total, seconds, self._success, self._score, sentence, now)
        try:
            write_whole(self._path, json.dumps(asdict(status), indent=1) + "\n")
        except OSError as error:
            raise RunStopped(f"Could not write {self._path}: {error}. Free some space, then resume the run.") from error
        self._written = time.monotonic()


def read_status(folder: Path) -> RunStatus | None:
    """How far a run is; None if it does not say, or not in a way that can be read."""
    try:
        data: Any = json.loads((folder / FILE).read_text(encoding="utf-8"))
        status = RunStatus(**{field.name: data[field.name] for field in fields(RunStatus)})
        numbers = (status.iteration, status.total_iterations, status.seconds)
        sound = status.state in get_args(State) and all(isinstance(n, (int, float)) and n >= 0 for n in numbers)
        sound = sound and all(isinstance(n, (int, float, type(None))) for n in (status.success, status.score))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return status if sound else None
