"""A run that does not get better says so once; one that has learned, or still learns, does not."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pytest

from top_erl.config.changes import changed
from top_erl.experiment.callbacks import FunctionCallback
from top_erl.experiment.folder import RunFolder
from top_erl.experiment.metrics_file import Row, read_metrics
from top_erl.experiment.presets import preset
from top_erl.experiment.run import resume_training, run_training
from top_erl.experiment.standstill import Standstill
from top_erl.experiment.training import Training

CLAIMS, ARCHIVE = (Path(__file__).parents[2] / "results" / room for room in ("claims", "archive"))


def _has_learned(run: Path) -> bool:
    return bool(np.mean(json.loads((run / "evaluation.json").read_text())["success"]) > 0.5)


LEARNED = [
    *sorted(CLAIMS.glob("via_point_reacher*/*/metrics.csv")),
    *(path for path in sorted(CLAIMS.glob("metaworld/*/metrics.csv")) if _has_learned(path.parent)),
    *(path for path in sorted(ARCHIVE.glob("metaworld_before/*/metrics.csv")) if _has_learned(path.parent)),
    *sorted(CLAIMS.glob("hopper_jump/*/metrics.csv")),
    *sorted(CLAIMS.glob("comparison/*/top_erl-*/metrics.csv")),
]


def _rows(returns: list[float], success: float | None = None) -> list[Row]:
    """Evaluations every second iteration."""
    rows: list[Row] = []
    for number, value in enumerate(returns, start=1):
        rows += [{"iteration": 2.0 * number - 1}, {"iteration": 2.0 * number, "evaluation_return": value}]
        if success is not None:
            rows[-1]["evaluation_success"] = success
    return rows


def _said_at(rows: list[Row], total: int | None = None) -> list[float]:
    standstill = Standstill(total or int(rows[-1]["iteration"]))
    return [row["iteration"] for row in rows if standstill.begins(row)]


def _noise(count: int) -> list[float]:
    values: list[float] = np.random.default_rng(0).normal(size=count).tolist()
    return values


@pytest.mark.parametrize("file", LEARNED, ids=lambda file: f"{file.parents[1].name}/{file.parent.name}")
def test_runs_that_learned_say_nothing(file: Path) -> None:
    assert _said_at(read_metrics(file)) == []


def test_there_are_runs_that_learned() -> None:
    assert len(LEARNED) >= 12


def test_a_flat_run_says_so_once_and_not_before_a_third_of_its_budget() -> None:
    (when,) = _said_at(_rows(_noise(50)))
    assert 100 / 3 < when < 100
    assert len(_said_at(_rows([1.0] * 50, success=0.0))) == 1
    assert len(_said_at(_rows([float(i) for i in range(15)] + [14.0 - i for i in range(35)], success=0.1))) == 1


def test_what_improves_slowly_or_is_solved_is_left_alone() -> None:
    assert _said_at(_rows([0.2 * i + value for i, value in enumerate(_noise(50))])) == []
    assert _said_at(_rows(_noise(50), success=0.95)) == []
    assert _said_at(_rows([1.0] * 10), total=10_000) == []  # a small part of the budget


def test_a_run_that_wavers_by_a_trifle_is_flat() -> None:
    """Returns of a policy that touches nothing, as an own task had them: 0.01 of -8.39 is no progress."""
    returns = [-8.3906, -8.3906, -8.4392, -8.3906, -8.4024, -8.3801, *[-8.3906] * 6]
    assert _said_at(_rows(returns, success=0.08), total=24)


def test_a_resumed_run_does_not_say_it_again() -> None:
    rows = _rows([1.0] * 50, success=0.0)
    (when,) = _said_at(rows)
    done = [row for row in rows if row["iteration"] <= when]
    again = Standstill(100, done)
    assert not any(again.begins(row) for row in rows[len(done) :])
    early = Standstill(100, done[:-1])  # stopped one iteration before
    assert early.begins(done[-1])


def test_a_run_tells_its_user(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run whose policy never learns, over two sessions: the sentence comes once, and names the task to check."""
    task = "top_erl/ViaPointReacher-v0"
    changes = {
        **{"hardware.threads": 1, "hardware.workers": 0, "evaluation.episodes": 2, "evaluation.interval": 1},
        **{"algorithm.learn.critic_steps": 1, "algorithm.learn.policy_steps": 1, "algorithm.learn.policy_start": 10**6},
        **{"algorithm.collect.prefill": 2, "algorithm.collect.episodes": 1, "total_env_steps": 17 * 50},
    }
    config = changed(preset("top_erl", task, "laptop"), changes)
    said: list[int] = []
    folder = RunFolder(tmp_path / "run")
    with caplog.at_level(logging.WARNING, logger="top_erl"):
        training = Training(config)
        folder.create(training)
        run_training(training, folder, FunctionCallback(lambda row: row["iteration"] < 12))
        training.close()
        said.append(_times_said(caplog))
        folder = RunFolder.open(folder.path)
        training = resume_training(folder)
        run_training(training, folder)
        training.close()
        said.append(_times_said(caplog))
    assert said == [1, 1]
    assert f"top-erl check {task}" in caplog.text


def _times_said(log: pytest.LogCaptureFixture) -> int:
    return sum("have not got better" in record.getMessage() for record in log.records)
