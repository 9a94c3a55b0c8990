"""Threads and workers for the machine at hand.

Three things matter on a small machine. Playing cheap episodes in worker processes costs more than it saves, so one
episode is timed first. Small updates gain little from a second thread, and nothing from a third. And OpenMP threads
that wait for each other stall when another process holds one of the cores, so threads and busy workers together must
not exceed the cores, and threads not those that are idle.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import math
import platform
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from top_erl.config.run import AlgorithmConfig, EpisodicRun, RunConfig
from top_erl.errors import EPISODE_ERRORS, RunStopped, UserError
from top_erl.hardware.cores import available_cores, idle_cores
from top_erl.tasks import Task

_LOG = logging.getLogger("top_erl")

_WORTH_A_WORKER = 0.02
"""Seconds of playing per iteration below which worker processes cost more than they save."""

_WORTH_TWO_THREADS, _WORTH_ALL = 30_000, 200_000
"""Numbers in the widest layer of a batch from which two threads, or all cores, are worth having."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Names of glibc's allocator options."""
_KEPT_BYTES, _LARGEST_FROM_HEAP = 512 << 20, 32 << 20
"""Freed memory that is kept, and the largest piece that comes from it (glibc allows no more)."""


@dataclass(frozen=True)
class Hardware:
    """What a run uses; recorded with the run, since the number of threads decides the last bits of sums."""

    threads: int
    """Threads of torch in this process."""
    workers: int
    """Worker processes; 0: episodes are played in this process."""


def choose_hardware(config: RunConfig, task: Task) -> Hardware:
    """Take what the user set, and choose the rest."""
    cores, wanted = available_cores(), config.hardware
    if not isinstance(config, EpisodicRun):  # a message per step costs more than the step; its networks are small
        return Hardware(wanted.threads or 1, max(0, wanted.workers))
    algorithm, horizon, workers = config.hyper_parameters, task.spec.horizon, wanted.workers
    if workers < 0:
        episodes = math.ceil(algorithm.episodes_per_iteration(horizon))
        worth_it = cores > 1 and playing_seconds(task, episodes) > _WORTH_A_WORKER
        spare = cores - max(1, wanted.threads) if algorithm.overlap else cores
        workers = max(1, min(spare, episodes)) if worth_it else 0
    busy = workers if algorithm.overlap else 0
    return Hardware(wanted.threads or _threads(algorithm, horizon, cores, busy), workers)


def recorded_hardware(recorded: Mapping[str, Any]) -> Hardware:
    """What a run's folder says its sessions use, as far as this machine has it.

    The folder may come from another machine, or from a stranger: it does not decide how many processes start here.

    Raises:
        ValueError: If it says what cannot be.
    """
    cores, chosen = available_cores(), {}
    for name, least in (("threads", 1), ("workers", 0)):
        number = recorded[name]
        if type(number) is not int or number < least:
            raise ValueError(f"{number!r} is no number of {name}")
        chosen[name] = min(number, cores)
        if number > cores:
            effect = "the last digits of its numbers may differ" if name == "threads" else "its numbers stay the same"
            _LOG.warning(
                "This run was recorded with %s %s, more than this machine's %d core(s): %d are used here, and %s.",
                f"{number:,}" if number < 10**9 else "a billion or more",
                name,
                cores,
                cores,
                effect,
            )
    return Hardware(**chosen)


def _threads(algorithm: AlgorithmConfig, horizon: int, cores: int, busy: int) -> int:
    """Threads worth having for a run's updates; with its busy workers never more than there are idle cores."""
    size, cores, useful = algorithm.update_size(horizon), max(1, cores - busy), 1
    if size >= _WORTH_ALL:
        useful = cores
    elif size >= _WORTH_TWO_THREADS and algorithm.transformer_critic:
        useful = min(cores, 2)
    return min(useful, max(1, idle_cores() - busy)) if useful > 1 else 1


def playing_seconds(task: Task, episodes: int) -> float:
    """Estimate how long a number of episodes take in this process; the robot is told to stay where it is."""
    timed = min(episodes, 4)  # enough to tell a vectorised task, few enough for a slow simulator
    try:
        # The first call warms up; the shorter of the others is less disturbed.
        seconds = [_seconds_for(task, count) for count in (1, timed, timed)]
    except EPISODE_ERRORS as error:
        if isinstance(error, UserError) and not isinstance(error, RunStopped):
            raise  # the task complains of something that its user must mend first
        with contextlib.suppress(*EPISODE_ERRORS):  # a broken simulator may fail to close, too
            task.close()
        return math.inf  # an environment that fails does less harm in a process of its own
    return min(seconds[1:]) * episodes / timed


def _seconds_for(task: Task, count: int) -> float:
    """Time a number of episodes."""
    began = time.perf_counter()
    starts = task.begin(list(range(count)))
    still = np.concatenate((starts.position, np.zeros_like(starts.velocity)), axis=-1)  # [count, 2D]
    task.play(np.repeat(still[:, None], task.spec.horizon, axis=1))
    return time.perf_counter() - began


def prepare_process(threads: int) -> None:
    """Set torch's threads, and let the process keep memory that it has freed.

    An update allocates and frees the same large tensors again and again. By default the C library hands them back to
    the system each time, and every page has to be cleared and mapped anew.
    """
    torch.set_num_threads(threads)
    if sys.platform == "linux" and platform.libc_ver()[0] == "glibc":
        set_option = ctypes.CDLL(None).mallopt
        set_option(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        set_option(_M_MMAP_THRESHOLD, _LARGEST_FROM_HEAP)
