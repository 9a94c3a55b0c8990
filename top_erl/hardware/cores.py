"""The processor's cores: how many there are for us, how many are free, and whether others crowd us out."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path

_STAT = Path("/proc/stat")
_IDLE, _WAITING, _COLUMNS = 3, 4, 8
"""Columns of a core's times there: idle, waiting for a disk, and all that do not repeat others."""
_QUOTAS = (
    ("/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/cpu.max"),
    ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_period_us"),
)
"""Where a container's share of the processor stands, time and period of it: the newer way in one file."""


def available_cores() -> int:
    """Cores this process may run on, or as many as its container may keep busy."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, _quota() or cores))


def _quota() -> int | None:
    """Whole cores that a container's share of the processor comes to; None without a limit."""
    for quota, period in _QUOTAS:
        most, length = _numbers(quota)[:1], _numbers(period)[-1:]
        if most and length and most[0] > 0:
            return math.ceil(most[0] / length[0])
    return None


def _numbers(path: str) -> list[int]:
    """The numbers in a file; none if there is no such file, or a word in it instead."""
    try:
        return [int(word) for word in Path(path).read_text().split()]
    except (OSError, ValueError):
        return []


def idle_cores(seconds: float = 0.2) -> int:
    """Those of our cores that nobody uses at the moment, one at least: looks for a moment, or asks for the load."""
    before = _times()
    if before:
        time.sleep(seconds)
        after = _times()
        free = sum(_idle_share(before[core], after[core]) > 0.5 for core in before if core in after)
    else:
        free = available_cores() - round(_load())
    return max(1, min(free, available_cores()))


def _load() -> float:
    """Programs that wanted to run in the last minute; none where no one counts them."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return 0.0


def _times() -> dict[int, list[int]]:
    """Ticks that each of our cores has spent in each of its states; empty where that cannot be read."""
    if not hasattr(os, "sched_getaffinity"):
        return {}
    try:
        lines = [line.split() for line in _STAT.read_text(encoding="ascii").splitlines() if line.startswith("cpu")]
    except OSError:
        return {}
    known = {int(name[3:]): [int(number) for number in numbers] for name, *numbers in lines if name != "cpu"}
    return {core: known[core][:_COLUMNS] for core in os.sched_getaffinity(0) if core in known}


def _idle_share(before: list[int], after: list[int]) -> float:
    """Share of the time in between that a core had nothing to do; all of it, if no tick has passed."""
    spent = [late - early for early, late in zip(before, after, strict=True)]
    return (spent[_IDLE] + spent[_WAITING]) / sum(spent) if sum(spent) > 0 else 1.0


class Crowding:
    """Notices that others want the cores on which our threads wait for each other."""

    RATE = 50.0
    """Times a second that a thread is taken off its core; about fifteen are the system's own."""
    PATIENCE = 10.0
    """Seconds for which it must go on."""

    def __init__(self, threads: int) -> None:
        """Start watching a number of threads."""
        self._most = self.RATE * threads
        self._told = False
        self._since = self._last = time.monotonic()
        self._count = _taken_off()

    def begins(self) -> bool:
        """Whether it has gone on for long enough since it was asked last; says so once."""
        now, count = time.monotonic(), _taken_off()
        if count - self._count < self._most * (now - self._last):
            self._since = now
        self._last, self._count = now, count
        if self._told or now - self._since < self.PATIENCE:
            return False
        self._told = True
        return True


def _taken_off() -> int:
    """How often a thread of this process had to leave its core to another one so far."""
    try:
        import resource
    except ImportError:  # not a Unix
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
