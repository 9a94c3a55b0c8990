"""Runs as processes of this machine, each with cores of its own."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Sequence

from top_erl.errors import UserError
from top_erl.hardware.cores import available_cores
from top_erl.sweep.engines.interface import Ended, Engine, Job

_LOOK = 0.05
"""Seconds between two looks at the processes."""


class LocalEngine(Engine):
    """As many processes as the cores hold."""

    def __init__(self, jobs: int, threads: int) -> None:
        """Share the cores out.

        Args:
            jobs: Runs at a time; 0: as many as there are cores for.
            threads: Threads of each.
        """
        cores = available_cores()
        if max(jobs, 1) * threads > cores:
            raise UserError(
                f"{max(jobs, 1)} run(s) of {threads} thread(s) would crowd each other on {cores} core(s): use "
                f"--jobs {max(1, cores // threads)}, or fewer --threads."
            )
        self._jobs = jobs or max(1, cores // threads)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def room(self) -> int:
        """How many more processes the cores hold."""
        return self._jobs - len(self._processes)

    def start(self, job: Job) -> None:
        """Start a process."""
        self._processes[job.name] = job.launch()

    def ended(self, timeout: float) -> Sequence[Ended]:
        """Look at the processes again and again until one has ended."""
        until = time.monotonic() + timeout
        while True:
            codes = {name: process.poll() for name, process in self._processes.items()}
            found = [Ended(name, code) for name, code in codes.items() if code is not None]
            if found or time.monotonic() >= until:
                break
            time.sleep(_LOOK)
        for each in found:
            del self._processes[each.name]
        return found

    def stop(self, *, at_once: bool = False) -> None:
        """End all processes, or kill them. SIGINT would not do: a shell's background processes ignore it."""
        for process in self._processes.values():
            process.send_signal(signal.SIGKILL if at_once else signal.SIGTERM)
