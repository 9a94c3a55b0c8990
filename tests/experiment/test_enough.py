"""A run that has learned its task ends before its budget does, if that is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from top_erl.config.changes import changed
from top_erl.config.run import EvaluationConfig
from top_erl.errors import UserError
from top_erl.experiment.enough import Enough
from top_erl.experiment.folder import RunFolder
from top_erl.experiment.metrics_file import Row, read_metrics
from top_erl.experiment.presets import preset
from top_erl.experiment.run import resume_training, run_training
from top_erl.experiment.status_file import read_status
from top_erl.experiment.training import Training


def _row(success: float) -> Row:
    return {"iteration": 1.0, "evaluation_success": success}


def _reached(threshold: float | None, *successes: float) -> list[bool]:
    enough = Enough(threshold)
    return [enough.reached(_row(success)) for success in successes]


def test_two_evaluations_in_a_row_are_enough() -> None:
    assert _reached(0.9, 0.9, 0.5, 1.0, 0.95, 0.2) == [False, False, False, True, False]
    assert _reached(None, 1.0, 1.0, 1.0) == [False] * 3


def test_rows_without_evaluation_do_not_come_between() -> None:
    enough = Enough(0.9)
    assert not enough.reached(_row(1.0))
    assert not enough.reached({"iteration": 2.0})
    assert enough.reached(_row(1.0))


def test_rows_of_an_earlier_session_count() -> None:
    assert Enough(0.9, [_row(0.0), _row(1.0)]).reached(_row(1.0))
    assert not Enough(0.9, [_row(1.0), _row(0.0)]).reached(_row(1.0))


@pytest.mark.parametrize("threshold", [0.0, -0.1, 1.5, float("nan")])
def test_what_is_no_success_is_refused(threshold: float) -> None:
    with pytest.raises(UserError, match="stop_at_success"):
        EvaluationConfig(stop_at_success=threshold)


def test_a_task_without_success_is_refused() -> None:
    config = preset("top_erl", "top_erl/HopperJumpSparse-v0", "laptop")
    with pytest.raises(UserError, match="HopperJumpSparse-v0 measures no success"):
        Training(changed(config, {"evaluation.stop_at_success": 0.5, "hardware.workers": 0, "hardware.threads": 1}))


class _Solved(Training):
    """A training whose evaluations succeed from the third iteration on."""

    def advance(self) -> Row:
        row = super().advance()
        return {**row, "evaluation_success": float(row["iteration"] >= 3)}


def test_a_run_ends_finished_and_can_be_continued(tmp_path: Path) -> None:
    changes = {
        **{"hardware.threads": 1, "hardware.workers": 0, "evaluation.episodes": 1, "evaluation.interval": 1},
        **{"algorithm.learn.critic_steps": 1, "algorithm.learn.policy_steps": 1, "evaluation.stop_at_success": 1.0},
        **{"algorithm.collect.prefill": 2, "algorithm.collect.episodes": 1, "total_env_steps": 10 * 50},
    }
    training = _Solved(changed(preset("top_erl", "top_erl/ViaPointReacher-v0", "laptop"), changes))
    folder = RunFolder(tmp_path / "run")
    folder.create(training)
    assert run_training(training, folder).finished
    training.close()
    status = read_status(folder.path)
    assert status is not None
    assert (status.state, status.iteration, status.total_iterations) == ("finished", 4, 8)
    training = resume_training(RunFolder.open(folder.path))  # from a checkpoint of that iteration, not before
    assert training.progress.iteration == 4
    training.close()
    assert len(read_metrics(folder.path / "metrics.csv")) == 4


def test_a_resumed_run_ends_with_the_next_evaluation_that_good() -> None:
    enough = Enough(0.9, [_row(1.0), _row(1.0)])
    assert not enough.reached(_row(0.5))
    assert not enough.reached(_row(1.0))
    assert enough.reached(_row(1.0))
    assert Enough(0.9, [_row(1.0), _row(1.0)]).reached(_row(1.0))
