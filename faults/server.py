"""The process that becomes sessions: it imports the command line once, then forks a child for each line it reads.

Imports take seconds and sessions are many. Every child is what the shell would start: a session and process group of
its own, its own directory, and a file for what it prints. Run as `python -m faults.server`; a line is a JSON object,
see `Order`.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Order:
    """What a session is told."""

    words: list[str]
    """Words behind `top-erl`."""
    folder: str
    """The directory that it runs in."""
    log: str
    """Takes what it prints."""
    done: str
    """Takes its exit code, when it has ended."""
    largest_file: int = 0
    """Bytes that a file may have, as if the disk were full then; 0: no limit."""
    user: int = 0
    """User id to change to; 0: stay."""


def _become(order: Order) -> int:
    """Be the session, in the child; the exit code."""
    os.setsid()
    for number, (path, flags) in enumerate(((os.devnull, os.O_RDONLY), (order.log, os.O_WRONLY | os.O_APPEND))):
        os.dup2(os.open(path, flags), number)
    os.dup2(1, 2)
    os.chdir(order.folder)
    _start_workers_here(order.folder)
    if order.largest_file:
        resource.setrlimit(resource.RLIMIT_FSIZE, (order.largest_file, order.largest_file))
    if order.user:
        os.setgroups([])
        os.setgid(order.user)
        os.setuid(order.user)
    from top_erl.cli import main

    return main(order.words)


def _start_workers_here(folder: str) -> None:
    """Let spawned processes begin in the session's directory; they would begin in the server's."""
    import multiprocessing.process

    multiprocessing.process.ORIGINAL_DIR = folder  # type: ignore[attr-defined]


def _watch(order: Order) -> None:
    """Fork the session, say its number, and write its exit code when it has ended."""
    session = os.fork()
    if not session:
        sys.exit(_become(order))  # through the interpreter's end, as the command does
    print(session, flush=True)
    code = os.waitstatus_to_exitcode(os.waitpid(session, 0)[1])
    part = Path(f"{order.done}.part")
    part.write_text(str(code), encoding="utf-8")
    part.rename(order.done)
    os._exit(0)


def _prepare() -> None:
    """Import what sessions need."""
    import torch._dynamo  # noqa: F401 - imported by the first optimiser that is made

    import top_erl.cli.runs  # noqa: F401

    for name in ("matplotlib.pyplot", "stable_baselines3", "torch.utils.tensorboard"):
        with contextlib.suppress(ImportError):
            __import__(name)


def serve() -> None:
    """Fork a session for each line."""
    _prepare()
    for line in sys.stdin:
        order = Order(**json.loads(line))
        if not os.fork():
            _watch(order)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


if __name__ == "__main__":
    serve()
