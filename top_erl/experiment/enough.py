"""Noticing that a run has learned its task, so that its budget need not be used up (`evaluation.stop_at_success`)."""

from __future__ import annotations

from collections.abc import Sequence

from top_erl.experiment.metrics_file import Row

_IN_A_ROW = 2
"""Evaluations that must reach the threshold one after the other: a single one of few episodes may be luck."""

SENTENCE = "Two evaluations in a row have a success of at least {success:g} (evaluation.stop_at_success): done."


class Enough:
    """Says whether the last evaluations of a run were good enough to end it."""

    def __init__(self, threshold: float | None, rows: Sequence[Row] = ()) -> None:
        """Begin, or go on after the rows of earlier sessions; without a threshold it is never enough."""
        self._threshold = threshold
        self._reached = 0  # evaluations in a row, up to now
        for row in rows:
            self.reached(row)

    def reached(self, row: Row) -> bool:
        """Take the row of an iteration; whether its evaluation is the second in a row that reached the threshold."""
        if self._threshold is None or "evaluation_success" not in row:
            return False
        self._reached = self._reached + 1 if row["evaluation_success"] >= self._threshold else 0
        return self._reached >= _IN_A_ROW
