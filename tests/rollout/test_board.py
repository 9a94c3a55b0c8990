"""The board that workers take their episodes from."""

from __future__ import annotations

import multiprocessing as mp

import pytest

from top_erl.rollout import board as module
from top_erl.rollout.board import Board


def make(num_workers: int) -> Board:
    return Board(mp.get_context("spawn"), num_workers)


def test_a_worker_halves_its_share() -> None:
    board = make(1)
    board.write([range(0, 9)])
    taken = [board.take(0) for _ in range(6)]
    assert taken == [range(0, 5), range(5, 7), range(7, 8), range(8, 9), range(0), range(0)]


def test_who_is_done_takes_single_rows_from_the_end_of_the_longest_share() -> None:
    board = make(3)
    board.write([range(0, 1), range(1, 4), range(4, 9)])
    assert board.take(0) == range(0, 1)
    assert board.take(0) == range(8, 9)  # of 3 and 5 rows
    assert board.take(2) == range(4, 6)
    assert board.take(0) == range(3, 4)  # of 3 and 2 rows
    assert board.take(1) == range(1, 2)


def test_a_worker_without_a_share_helps() -> None:
    board = make(3)
    board.write([range(0, 2), range(2, 3)])
    assert board.take(2) == range(1, 2)


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 2, 0, 1], [1], [0, 0, 0, 0, 0, 1, 2]])
def test_every_row_is_taken_once(order: list[int]) -> None:
    board = make(3)
    board.write([range(0, 4), range(4, 8), range(8, 11)])
    rows: list[int] = []
    for turn in range(100):
        rows.extend(board.take(order[turn % len(order)]))
    assert sorted(rows) == list(range(11))


def test_a_new_batch_replaces_what_is_left() -> None:
    board = make(2)
    board.write([range(0, 4), range(4, 8)])
    board.take(0)
    board.write([range(0, 1)])
    assert [board.take(1), board.take(1)] == [range(0, 1), range(0)]


def test_a_worker_killed_while_it_held_the_board_does_not_block_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE", 0.05)
    board = make(2)
    board.write([range(0, 4), range(4, 8)])
    board._lock.acquire()
    assert board.take(0) == range(0)
