"""The far end of a worker's pipe: builds the task, plays episodes. Imports no network code, so workers stay small."""

from __future__ import annotations

import signal
import traceback
from multiprocessing.connection import Connection
from typing import Any

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
    for number in (signal.SIGINT, signal.SIGTERM):  # stopping is the parent's business
        signal.signal(number, signal.SIG_IGN)
    if factory is not None:
        register_task(task_id, factory)
    tasks: list[Task] = []
    try:
        while True:
            pipe.send(_answer(tasks, task_id, *pipe.recv()))
    except (EOFError, BrokenPipeError, ConnectionResetError):  # the other end is gone
        for task in tasks:
            task.close()


def _answer(tasks: list[Task], task_id: str, command: str, argument: Any) -> object:
    """Do what a message asks for; the task is made by the first one. Any failure is itself an answer."""
    try:
        if not tasks:
            tasks.append(make_task(task_id))
        return tasks[0].begin(argument) if command == "begin" else tasks[0].play(argument)
    except Exception as error:
        return WorkerFailure(error)
