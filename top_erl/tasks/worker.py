"""The far end of a worker's pipe: builds the task, plays episodes. Imports no network code, so workers stay small."""

from __future__ import annotations

import signal
import traceback
from multiprocessing.connection import Connection
from typing import Any

from top_erl.errors import UserError
from top_erl.tasks.contract import Task
from top_erl.tasks.playing import play_episodes
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
    desk = _Desk(task_id)
    try:
        while True:
            pipe.send(desk.answer(*pipe.recv()))
    except (EOFError, BrokenPipeError, ConnectionResetError):  # the other end is gone
        desk.close()


class _Desk:
    """What a worker has before it: a task, made by the first message, and the seeds of the episodes begun."""

    def __init__(self, task_id: str) -> None:
        self._task_id = task_id
        self._task: Task | None = None
        self._seeds: list[int] = []

    def answer(self, command: str, argument: Any) -> object:
        """Do what a message asks for. Any failure is itself an answer."""
        try:
            self._task = self._task or make_task(self._task_id)
            if command == "begin":
                self._seeds = list(argument)
                return self._task.begin(self._seeds)
            return play_episodes(self._task, self._seeds, argument)
        except Exception as error:
            return WorkerFailure(error)

    def close(self) -> None:
        if self._task is not None:
            self._task.close()
