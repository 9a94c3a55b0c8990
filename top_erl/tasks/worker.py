"""The far end of a worker's pipe: builds the task, plays episodes. Imports no network code, so workers stay small."""

from __future__ import annotations

import signal
import traceback
from multiprocessing.connection import Connection

from top_erl.errors import UserError
from top_erl.tasks.contract import Task
from top_erl.tasks.registry import TaskFactory, make_task, register_task


class WorkerFailure:
    """What a worker sends instead of an answer: a sentence for the user, or a traceback."""

    def __init__(self, error: Exception) -> None:
        """Keep what the parent needs to know."""
        self.sentence = str(error) if isinstance(error, UserError) else ""
        self.traceback = traceback.format_exc()


def work(pipe: Connection, task_id: str, factory: TaskFactory | str | None) -> None:
    """Answer `("begin", seeds)` and `("play", reference)` until the other end closes.

    `factory` is what the parent has registered under the task's id, since the registry is per process.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    if factory is not None:
        register_task(task_id, factory)
    task: Task | None = None
    try:
        while True:
            command, argument = pipe.recv()
            try:
                task = task or make_task(task_id)
                pipe.send(task.begin(argument) if command == "begin" else task.play(argument))
            except (EOFError, BrokenPipeError, ConnectionResetError):
                raise
            except Exception as error:
                pipe.send(WorkerFailure(error))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        if task is not None:
            task.close()
