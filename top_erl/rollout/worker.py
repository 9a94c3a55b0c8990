"""The far end of a worker's pipe: builds the task, plays episodes. Imports no network code, so workers stay small."""

from __future__ import annotations

import signal
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from top_erl.errors import UserError
from top_erl.rollout.board import Board
from top_erl.rollout.playing import play_episodes, play_part
from top_erl.tasks.catalogue import TaskFactory, make_task, register_task
from top_erl.tasks.contract import Array, EpisodeOutcomes, Task


class WorkerFailure:
    """What a worker sends instead of an answer: a sentence for the user, or a traceback."""

    def __init__(self, error: Exception) -> None:
        """Keep what the parent needs to know."""
        self.sentence = str(error) if isinstance(error, UserError) else ""
        self.traceback = traceback.format_exc()


@dataclass(frozen=True)
class Batch:
    """What a worker needs to play its share of a batch, and to help with the others'."""

    seeds: list[int]
    """Of the whole batch."""
    reference: Array
    """Of the whole batch, [B, T, 2D]."""
    share: range
    """Rows of the worker's own share, which it has begun."""


PlayedRows = list[tuple[int, EpisodeOutcomes]]
"""Outcomes of some rows of a batch, each with its first row."""


def work(pipe: Connection, task_id: str, factory: TaskFactory | str | None, number: int, board: Board) -> None:
    """Answer `("begin", seeds)` and `("play", batch)` until the other end closes.

    Args:
        pipe: To the parent.
        task_id: The task to play.
        factory: What the parent has registered under the task's id, since the registry is per process.
        number: Which worker this is.
        board: Where workers see what is left to play.
    """
    for stop in (signal.SIGINT, signal.SIGTERM):  # stopping is the parent's business
        signal.signal(stop, signal.SIG_IGN)
    if factory is not None:
        register_task(task_id, factory)
    desk = _Desk(task_id, number, board)
    try:
        while True:
            pipe.send(desk.answer(*pipe.recv()))
    except (EOFError, BrokenPipeError, ConnectionResetError):  # the other end is gone
        desk.close()


class _Desk:
    """What a worker has before it: a task, made by the first message, and the board."""

    def __init__(self, task_id: str, number: int, board: Board) -> None:
        self._task_id, self._number, self._board = task_id, number, board
        self._task: Task | None = None

    def answer(self, command: str, argument: Any) -> object:
        """Do what a message asks for. Any failure is itself an answer."""
        try:
            self._task = self._task or make_task(self._task_id)
            return self._task.begin(argument) if command == "begin" else self._play(self._task, argument)
        except Exception as error:
            return WorkerFailure(error)

    def _play(self, task: Task, batch: Batch) -> PlayedRows:
        """Play the worker's share; if episodes are played one by one, then also what other workers have left."""
        if not task.one_by_one:
            rows = slice(batch.share.start, batch.share.stop)
            return [(rows.start, play_episodes(task, batch.seeds[rows], batch.reference[rows]))]
        played: PlayedRows = []
        begun = True
        while taken := self._board.take(self._number):
            rows = slice(taken.start, taken.stop)
            begun = begun and taken.start in batch.share
            outcomes, begun = play_part(task, batch.seeds[rows], batch.reference[rows], begun)
            played.append((taken.start, outcomes))
        return played

    def close(self) -> None:
        if self._task is not None:
            self._task.close()
