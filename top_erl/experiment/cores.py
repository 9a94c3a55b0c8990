"""The processor's cores: how many there are for us, how many are free, and whether others crowd us out."""

from __future__ import annotations

import os
import time
from pathlib import Path

_STAT = Path("/proc/stat")
_IDLE, _WAITING = 3, 4
"""Columns of a core's times in /proc/stat: idle, and waiting for a disk."""


def available_cores() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def idle_cores(seconds: float = 0.2) -> int:
    """Those of them that nobody uses at the moment, one at least: looks for a moment, or asks for the load."""
    if _STAT.exists() and hasattr(os, "sched_getaffinity"):
        before = _times()
        time.sleep(seconds)
        after = _times()
        free = sum(_idle_share(before[core], after[core]) > 0.5 for core in before if core in after)
    else:
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
        free = available_cores() - round(load)
    return max(1, free)


def _times() -> dict[int, list[int]]:
    """Ticks that each of our cores has spent in each of its states."""
    lines = [line.split() for line in _STAT.read_text(encoding="ascii").splitlines() if line.startswith("cpu")]
    known = {int(name[3:]): [int(number) for number in numbers] for name, *numbers in lines if name != "cpu"}
    return {core: known[core] for core in os.sched_getaffinity(0) if core in known}


def _idle_share(before: list[int], after: list[int]) -> float:
    """Share of the time in between that a core had nothing to do; all of it, if no tick has passed."""
    spent = [late - early for early, late in zip(before, after, strict=True)]
    return (spent[_IDLE] + spent[_WAITING]) / sum(spent) if sum(spent) > 0 else 1.0


class Crowding:
    """Notices that other programs want the cores on which our threads wait for each other."""

    RATE = 100.0
    """Times a second that one of our threads is taken off its core; a few of them are the system's own."""
    PATIENCE = 10.0
    """Seconds for which it must go on."""

    def __init__(self) -> None:
        """Start watching."""
        self._told = False
        self._since = self._last = time.monotonic()
        self._count = _taken_off()

    def begins(self) -> bool:
        """Whether it has gone on for long enough since it was asked last; says so once."""
        now, count = time.monotonic(), _taken_off()
        if count - self._count < self.RATE * (now - self._last):
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
