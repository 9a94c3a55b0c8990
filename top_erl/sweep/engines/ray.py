"""Runs as tasks of a Ray cluster, each a process on whichever node has cores for it.

The sweep's folder must be on a disk that all nodes share, under the same path. A run whose node is lost is started
again elsewhere, and goes on from its last checkpoint.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import signal
import time
from collections.abc import Sequence
from typing import Any

from top_erl.errors import UserError, missing_extra
from top_erl.sweep.engines.interface import Ended, Engine, Job

_STORE_BYTES = 100 << 20
"""Size of Ray's object store on a cluster started here: nothing but exit codes goes through it."""

_LOOK = 0.2
"""Seconds between two looks at a process."""


class RayEngine(Engine):
    """Processes on the nodes of a cluster."""

    def __init__(self, address: str | None, jobs: int, threads: int) -> None:
        """Connect to a cluster, or start one on this machine.

        Args:
            address: Of an existing cluster, such as `auto` or `HOST:6379`; None: start one here.
            jobs: Runs at a time; 0: as many as the cluster has cores for.
            threads: Cores of each.
        """
        if importlib.util.find_spec("ray") is None:
            raise missing_extra("ray", "ray", "--engine ray")
        self._ray = _connected(address)
        self._jobs, self._threads = jobs, threads
        self._task = self._ray.remote(num_cpus=threads, max_retries=0)(run_job)
        self._jobs_by_reference: dict[Any, Job] = {}

    def room(self) -> int:
        """How many more runs the cluster's cores hold; nodes may come and go."""
        cores = int(self._ray.cluster_resources().get("CPU", 0.0))
        most = cores // self._threads
        return (min(self._jobs, most) if self._jobs else most) - len(self._jobs_by_reference)

    def start(self, job: Job) -> None:
        """Hand a run to the cluster."""
        job.stop_file.unlink(missing_ok=True)
        self._jobs_by_reference[self._task.remote(job)] = job

    def ended(self, timeout: float) -> Sequence[Ended]:
        """Wait for a task to end; one whose node or worker is lost, or that could not begin, has no exit code."""
        if not self._jobs_by_reference:
            time.sleep(timeout)  # nodes may come
            return []
        ready, _ = self._ray.wait(list(self._jobs_by_reference), num_returns=1, timeout=timeout)
        return [self._ended(self._jobs_by_reference.pop(reference), reference) for reference in ready]

    def _ended(self, job: Job, reference: Any) -> Ended:
        errors, name = self._ray.exceptions, job.name
        job.stop_file.unlink(missing_ok=True)
        try:
            return Ended(name, int(self._ray.get(reference)))
        except (errors.WorkerCrashedError, errors.NodeDiedError, errors.ObjectLostError, errors.TaskCancelledError):
            return Ended(name, None)
        except errors.RayError as error:  # no memory left on the node, no such folder or Python there
            return Ended(name, None, str(getattr(error, "cause", None) or error).strip().splitlines()[-1])

    def stop(self, *, at_once: bool = False) -> None:
        """Ask for it by files, which the tasks see wherever they are; Ray's own interrupts may be lost on the way."""
        for reference, job in self._jobs_by_reference.items():
            job.stop_file.touch()
            if at_once:
                self._ray.cancel(reference, force=True)

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        self._ray.shutdown()


def _connected(address: str | None) -> Any:
    """Ray, connected. What a run does not need is switched off, and its own count of cores is not passed on."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    before = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(log_to_driver=False, logging_level=logging.WARNING, **_settings(address))
    except (ConnectionError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        if address is None:
            raise UserError(f"Cannot start a Ray cluster here: {reason}.") from None
        raise UserError(f"Cannot reach a Ray cluster at {address!r} ({reason}): start one with `ray start`.") from None
    finally:
        signal.signal(signal.SIGTERM, before)  # Ray takes it, but it is the sweep's
    return ray


def _settings(address: str | None) -> dict[str, Any]:
    """What to tell Ray of a cluster; one that is started here stays on this machine."""
    if address is not None:
        return {"address": address}
    own = {"_node_ip_address": "127.0.0.1", "include_dashboard": False, "object_store_memory": _STORE_BYTES}
    return {"address": "local", **own}  # without it, Ray would take a cluster that somebody has started here


def run_job(job: Job) -> int:
    """Run one job's process on a node, to its end; if it is asked to stop, wait until it has saved."""
    process = job.launch()
    while process.poll() is None:
        if job.stop_file.exists():
            process.send_signal(signal.SIGTERM)
            return process.wait()
        time.sleep(_LOOK)
    return process.returncode
