"""What a sweep asks of an engine: start a run, say which have ended, stop."""

from __future__ import annotations

import os
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from top_erl.config.files import open_to_append


@dataclass(frozen=True)
class Job:
    """A run to be started."""

    name: str
    """Of the cell."""
    folder: Path
    """Of the sweep; absolute, since processes of other machines begin elsewhere."""
    log: Path
    """Where the words of its process go; absolute too."""
    threads: int
    """Cores that it uses."""
    modules: tuple[str, ...] = ()
    """Modules that it imports first."""
    directory: Path = field(default_factory=Path.cwd)
    """Where modules of the user's are; its process works there, on a machine that has it."""

    @property
    def stop_file(self) -> Path:
        """Asks a run on another machine to stop when it is there: the folder is on a disk that all of them share."""
        return self.log.with_name(f"{self.name}.stop")

    def command(self) -> list[str]:
        """What starts its process, as a child of this one."""
        words = [sys.executable, "-m", "top_erl.sweep", str(self.folder), self.name, "--threads", str(self.threads)]
        imports = [word for name in self.modules for word in ("--import", name)]
        return [*words, "--stop-with-parent", str(os.getpid()), *imports]

    def launch(self) -> subprocess.Popen[bytes]:
        """Start its process, in a group of its own so that Ctrl-C reaches it through the engine only."""
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")  # or libraries would take all cores
        with open_to_append(self.log) as log:
            return subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **dict.fromkeys(names, str(self.threads)), "PYTHONUNBUFFERED": "1"},
                cwd=self.directory if self.directory.is_dir() else None,
                start_new_session=True,
            )


@dataclass(frozen=True)
class Ended:
    """A run whose process has ended."""

    name: str
    exit_code: int | None
    """None if it is not known, since the process or its machine is lost; negative: killed by this signal."""
    reason: str = ""
    """Why there is no exit code, if the engine knows."""


class Engine(ABC):
    """Runs processes of runs, as many at a time as there is room for."""

    @abstractmethod
    def room(self) -> int:
        """How many more runs can be started now."""

    @abstractmethod
    def start(self, job: Job) -> None:
        """Start a run."""

    @abstractmethod
    def ended(self, timeout: float) -> Sequence[Ended]:
        """Runs that have ended since the last call; waits for one for `timeout` seconds at most."""

    @abstractmethod
    def stop(self, *, at_once: bool = False) -> None:
        """Ask all runs to save and stop, or kill them; they are still among those that `ended` tells of."""

    def close(self) -> None:
        """Release what the engine holds."""
        return
