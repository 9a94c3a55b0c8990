"""The best policy of a run so far, by its evaluations: success swings, and the last one is not always the best."""

from __future__ import annotations

import math

from top_erl.experiment.checkpoint import checkpoint_exists
from top_erl.experiment.folder import RunFolder
from top_erl.experiment.metrics_file import Row, read_metrics
from top_erl.experiment.training import Training


def evaluation_score(row: Row) -> float:
    """What an iteration's evaluation is judged by: success if the task has it, else the return; -inf without one."""
    score = row.get("evaluation_success", row.get("evaluation_return", -math.inf))
    return -math.inf if math.isnan(score) else score


class BestSoFar:
    """Keeps a folder's `best/` that of the best evaluation; of equal ones the later."""

    def __init__(self, folder: RunFolder) -> None:
        """Read off the run's rows what is to be beaten, so that a resumed run judges as it would have done."""
        self._folder, self._score = folder, -math.inf
        metrics = folder.path / "metrics.csv"
        if checkpoint_exists(folder.best) and metrics.exists():
            self._score = max(map(evaluation_score, read_metrics(metrics)), default=-math.inf)

    def take(self, row: Row, training: Training) -> None:
        """Save the policy if this iteration's evaluation is at least as good as all before."""
        score = evaluation_score(row)
        if score > -math.inf and score >= self._score:
            self._score = score
            self._folder.save_best(training)
