"""The far end of a worker's pipe: builds the task, plays episodes. Imports no network code, so workers stay small."""

from __future__ import annotations

import ctypes
import multiprocessing as mp
import os
import signal
import sys
import threading
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from top_erl.errors import EPISODE_ERRORS, UserError
from top_erl.rollout.board import Board
from top_erl.rollout.parts import EpisodesInParts
from top_erl.rollout.playing import begin_episodes, play_episodes, play_part
from top_erl.tasks.catalogue import TaskFactory, make_task, register_task
from top_erl.tasks.contract import Array, EpisodeFailure, EpisodeOutcomes, EpisodeStarts, Task

_PR_SET_PDEATHSIG = 1
"""Number of Linux's request to be sent a signal when the parent dies."""
_LOOK_AFTER = 2.0  # seconds between looks at who the parent is


class WorkerFailure:
    """What a worker sends instead of an answer: a sentence for the user, or a traceback."""

    def __init__(self, error: BaseException) -> None:
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
    """Rows of the worker's own share."""


@dataclass(frozen=True)
class Part:
    """What a worker needs to go on with its share of a batch."""

    seeds: list[int]
    """Of its share."""
    reference: Array
    """The next rows of its references, [B, n, 2D]."""
    step: int
    """Steps that have been made before them."""
    before: Array | None = None
    """What was tracked before them, [B, step, 2D]: told to a process that does not know these episodes."""
    failures: Mapping[int, EpisodeFailure] = field(default_factory=dict)
    """Episodes that have failed, by their row in the share; told to such a process."""


PlayedRows = list[tuple[int, EpisodeOutcomes]]
"""Outcomes of some rows of a batch, each with its first row."""


@dataclass(frozen=True)
class Place:
    """Where a worker works."""

    number: int
    """Which worker it is."""
    board: Board
    """Where workers see what is left to play."""
    of_main_thread: bool
    """Whether the parent's main thread starts it: Linux calls a parent dead as soon as that thread ends."""


def work(pipe: Connection, task_id: str, factory: TaskFactory | str | None, place: Place) -> None:
    """Answer messages until the other end closes.

    They are `("begin", seeds)`, `("play", batch)` and `("alone", (seed, reference))`; in parts `("advance", part)` and,
    for the last one, `("rest", part)`.

    Args:
        pipe: To the parent.
        task_id: The task to play.
        factory: What the parent has registered under the task's id, since the registry is per process.
        place: Where this worker works.
    """
    for stop in (signal.SIGINT, signal.SIGTERM):  # stopping is the parent's business
        signal.signal(stop, signal.SIG_IGN)
    _end_with_parent(place.of_main_thread)
    if factory is not None:
        register_task(task_id, factory)
    desk = _Desk(task_id, place)
    try:
        while True:
            pipe.send(desk.answer(*pipe.recv()))
    except (EOFError, BrokenPipeError, ConnectionResetError):  # the other end is gone
        desk.close()


def _end_with_parent(by_signal: bool) -> None:
    """See to it that this process ends when its parent is killed, also in the middle of an episode that hangs."""
    parent = mp.parent_process()
    assert parent is not None
    if by_signal and sys.platform == "linux":  # needs no Python, which a simulator that hangs may be holding up
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    threading.Thread(target=_wait_for_end_of, args=(parent,), daemon=True).start()


def _wait_for_end_of(parent: BaseProcess) -> None:
    # The sentinel stays open while a fork of the parent lives, hence the look at who the parent is.
    while not wait([parent.sentinel], timeout=_LOOK_AFTER) and os.getppid() == parent.pid:
        continue
    os._exit(1)


class _Desk:
    """What a worker has before it: a task, made by the first message, and the board."""

    def __init__(self, task_id: str, place: Place) -> None:
        self._task_id, self._number, self._board = task_id, place.number, place.board
        self._task: Task | None = None
        self._begun: list[int] = []  # seeds of the episodes that the task waits to play
        self._parts: EpisodesInParts | None = None  # episodes on their way

    def answer(self, command: str, argument: Any) -> object:
        """Do what a message asks for. Any failure is itself an answer."""
        try:
            self._task = self._task or make_task(self._task_id)
            if command in ("advance", "rest"):
                return self._go_on(self._task, argument, last=command == "rest")
            self._parts = None
            if command == "begin":
                return self._begin(self._task, argument)
            return self._play(self._task, argument) if command == "play" else self._play_alone(self._task, *argument)
        except EPISODE_ERRORS as error:
            return WorkerFailure(error)

    def _begin(self, task: Task, seeds: list[int]) -> EpisodeStarts:
        self._begun = []
        self._board.note_call(self._number, len(seeds))
        starts, waiting = begin_episodes(task, seeds)
        self._begun = seeds if waiting else []
        return starts

    def _go_on(self, task: Task, part: Part, last: bool) -> EpisodeStarts | EpisodeOutcomes | None:
        """Play the next part of the worker's share; None if this process does not know how it went so far."""
        if part.before is not None:
            self._parts = EpisodesInParts(task, part.seeds, waiting=False, before=part.before, failures=part.failures)
        elif not part.step:
            self._parts = EpisodesInParts(task, part.seeds, waiting=part.seeds == self._begun)
        self._begun = []
        if not part.seeds or self._parts is None or not self._parts.are_at(part.seeds, part.step):
            return None
        self._board.note_call(self._number, len(part.seeds))
        return self._parts.play(part.reference) if last else self._parts.advance(part.reference)

    def _play(self, task: Task, batch: Batch) -> PlayedRows:
        """Play the worker's share; if episodes are played one by one, then also what other workers have left."""
        own = slice(batch.share.start, batch.share.stop)
        begun, self._begun = batch.seeds[own] == self._begun, []
        if not task.one_by_one:
            self._board.note_call(self._number, len(batch.share))
            return (
                [(own.start, play_episodes(task, batch.seeds[own], batch.reference[own], begun))] if batch.share else []
            )
        played: PlayedRows = []
        while taken := self._board.take(self._number):
            for row in taken:
                begun = begun and row in batch.share
                self._board.note_call(self._number, 1)
                outcomes, begun = play_part(task, [batch.seeds[row]], batch.reference[row : row + 1], begun)
                played.append((row, outcomes))
        return played

    def _play_alone(self, task: Task, seed: int, reference: Array) -> EpisodeOutcomes:
        """Begin and play one episode, reference [1, T, 2D]; whatever was begun before is dropped."""
        self._begun = []
        self._board.note_call(self._number, 1)
        return play_episodes(task, [seed], reference, begun=False)

    def close(self) -> None:
        if self._task is not None:
            self._task.close()
