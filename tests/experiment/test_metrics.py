"""The numbers of a run and where they go."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from top_erl.algorithms.learner import IterationStats
from top_erl.algorithms.top_erl.learner import TopErlLearner
from top_erl.config.run import LogConfig, RunConfig
from top_erl.errors import RunStopped, UserError
from top_erl.experiment.checkpoint import Progress
from top_erl.experiment.folder import RunFolder
from top_erl.experiment.metrics import (
    TensorBoardSink,
    WandbSink,
    iteration_row,
    make_sinks,
    metric_columns,
)
from top_erl.experiment.metrics_file import CsvSink, read_metrics
from top_erl.experiment.run import run_training
from top_erl.experiment.training import Training
from top_erl.rollout.collector import Scores

COLUMNS = ["iteration", "env_steps", "evaluation_return", "loss"]


def _row(iteration: int, **numbers: float) -> dict[str, float]:
    return {"iteration": iteration, "env_steps": 10 * iteration, **numbers}


def test_columns_and_empty_cells(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    sink = CsvSink(path, COLUMNS, keep_until=0)
    sink.write(_row(1, evaluation_return=-0.1, loss=3.0))
    sink.write(_row(2, loss=1e300))
    sink.write(_row(3, loss=math.nan))
    sink.write(_row(4, loss=-math.inf))
    sink.close()
    assert path.read_text().splitlines() == [
        "iteration,env_steps,evaluation_return,loss",
        "1,10,-0.1,3",
        "2,20,,1e+300",
        "3,30,,nan",
        "4,40,,-inf",
    ]
    rows = read_metrics(path)
    assert rows[0] == {"iteration": 1, "env_steps": 10, "evaluation_return": -0.1, "loss": 3.0}
    assert "evaluation_return" not in rows[1]
    assert math.isnan(rows[2]["loss"])


def test_numbers_survive_to_the_last_bit(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=50) * 10.0 ** np.arange(-25, 25)
    sink = CsvSink(tmp_path / "metrics.csv", COLUMNS, keep_until=0)
    for iteration, value in enumerate(values.tolist(), start=1):
        sink.write(_row(iteration, loss=value))
    sink.close()
    assert [row["loss"] for row in read_metrics(tmp_path / "metrics.csv")] == values.tolist()


def test_rows_are_there_at_once(tmp_path: Path) -> None:
    sink = CsvSink(tmp_path / "metrics.csv", COLUMNS, keep_until=0)
    sink.write(_row(1))
    assert len(read_metrics(tmp_path / "metrics.csv")) == 1
    sink.close()


@pytest.mark.parametrize("torn", ["4,40,,1e-", "4,40,,12", "4,40", "4", "4,40,,-"])
def test_a_torn_last_line_is_ignored(tmp_path: Path, torn: str) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text("iteration,env_steps,evaluation_return,loss\n1,10,,5\n2,20,,4\n3,30,,3\n" + torn)
    assert [row["iteration"] for row in read_metrics(path)] == [1, 2, 3]
    CsvSink(path, COLUMNS, keep_until=2).close()  # rows after the checkpoint go as well
    assert path.read_text() == "iteration,env_steps,evaluation_return,loss\n1,10,,5\n2,20,,4\n"


@pytest.mark.parametrize("text", ["", "iteration,env_ste", "iteration,env_steps\n"])
def test_files_without_numbers(tmp_path: Path, text: str) -> None:
    (tmp_path / "metrics.csv").write_text(text)
    assert read_metrics(tmp_path / "metrics.csv") == []


@pytest.mark.parametrize("line", ["2,x", "2", "2,20,3", ",20", "2,", "\x00\x00"])
def test_a_damaged_line_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "metrics.csv").write_text(f"iteration,env_steps\n1,10\n{line}\n3,30\n")
    with pytest.raises(UserError, match=r"metrics.csv is damaged in line 3: mend that line or delete the file"):
        read_metrics(tmp_path / "metrics.csv")


def test_resuming_with_new_columns_keeps_the_old_rows(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    first = CsvSink(path, COLUMNS, keep_until=0)
    first.write(_row(1, loss=2.0))
    first.close()
    sink = CsvSink(path, [*COLUMNS, "entropy"], keep_until=1)
    sink.write(_row(2, entropy=1.0))
    sink.close()
    assert read_metrics(path) == [_row(1, loss=2.0), _row(2, entropy=1.0)]


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    sink = CsvSink(tmp_path / "metrics.csv", COLUMNS, keep_until=0)
    sink._file.close()
    sink._file = open("/dev/full", "a")  # noqa: SIM115 - the sink closes it
    with pytest.raises(RunStopped, match=r"Could not write .*metrics.csv.*No space left.*resume the run"):
        sink.write(_row(1))
    sink.close()


def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunStopped, match="Could not write"):
        CsvSink(tmp_path / "nowhere" / "metrics.csv", COLUMNS, keep_until=0)


def test_a_row_has_the_columns_of_its_task() -> None:
    scores = Scores(np.array([1.0, 3.0]), {"success": np.array([0.0, 1.0])}, failures=1)
    row = iteration_row(Progress(2, 8, 48, 1.23456), IterationStats(scores, {"critic_loss": 0.5}), scores, speed=12.345)
    assert row == {
        "iteration": 2,
        "episodes": 8,
        "env_steps": 48,
        "wall_time": 1.235,
        "steps_per_second": 12.3,
        "evaluation_return": 2.0,
        "evaluation_success": 0.5,
        "exploration_return": 2.0,
        "exploration_success": 0.5,
        "critic_loss": 0.5,
        "failed_episodes": 2,
    }
    columns = metric_columns(["success"], TopErlLearner.columns)
    assert set(row) <= set(columns)
    assert len(columns) == len(set(columns))
    wanted = {"critic_loss", "policy_loss", "entropy", "kl_to_anchor", "mean_projected", "covariance_projected"}
    assert wanted <= set(columns)


def test_a_training_fills_every_column(
    tiny: RunConfig, trainings: Callable[[RunConfig], Training], tmp_path: Path
) -> None:
    training = trainings(tiny)
    folder = RunFolder(tmp_path / "run")
    folder.create(training)
    run_training(training, folder)
    rows = read_metrics(folder.path / "metrics.csv")
    assert [row["iteration"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert set(rows[0]) == set(metric_columns(training.spec.metrics, training.learner.columns))
    assert [row["iteration"] for row in rows if "evaluation_return" in row] == [1, 4, 6]  # first, every 4th, last
    assert [row["env_steps"] for row in rows] == [6 * (4 + 3 * i) for i in range(1, 7)]
    assert rows[-1]["wall_time"] >= rows[0]["wall_time"] > 0


def test_tensorboard_events_can_be_read(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for steps in ((1, 2, 3), (2, 3, 4)):  # the second session goes on after step 15
        sink = TensorBoardSink(tmp_path / "tb", purge_from=10 * steps[0] - 5)
        for iteration in steps:
            sink.write(_row(iteration, evaluation_return=iteration + steps[0] / 10, critic_loss=2.0, entropy=1.0))
        sink.close()
    events = EventAccumulator(str(tmp_path / "tb"))
    events.Reload()
    assert set(events.Tags()["scalars"]) == {
        "run/iteration",
        "run/env_steps",
        "evaluation/return",
        "critic/loss",
        "run/entropy",
    }
    found = [(event.step, round(event.value, 3)) for event in events.Scalars("evaluation/return")]
    assert found == [(10, 1.1), (20, 2.2), (30, 3.2), (40, 4.2)]  # lost work is replaced, not drawn twice


def test_wandb_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_MODE", "offline")
    for _ in range(2):
        sink = WandbSink(tmp_path, LogConfig(wandb="offline"), {"seed": 1})
        sink.write(_row(1, loss=2.0))
        sink.close()
        names = {path.name.split("-")[3] for path in (tmp_path / "wandb").glob("offline-run-*")}
        assert names == {(tmp_path / "wandb_id.txt").read_text()}  # a resumed run keeps its id
    wandb.teardown()  # ends its service process


def test_wandb_is_asked_for_by_name_when_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        UserError, match=r"--log.wandb needs the package .*: pip install -c constraints.txt -e '.\[wandb\]'"
    ):
        WandbSink(tmp_path, LogConfig(wandb="online"), {})


class _FakeRun:
    """What W&B returns."""

    def __init__(self) -> None:
        self.logged: list[tuple[Any, int]] = []
        self.finished = False

    def log(self, row: Any, step: int) -> None:
        self.logged.append((row, step))

    def finish(self) -> None:
        self.finished = True


def test_what_wandb_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    from types import SimpleNamespace

    run, asked = _FakeRun(), []
    fake = SimpleNamespace(init=lambda **options: asked.append(options) or run)
    monkeypatch.setitem(sys.modules, "wandb", fake)  # type: ignore[arg-type]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name == "wandb" or None)
    log = LogConfig(wandb="online", wandb_project="arm")
    sinks = make_sinks(tmp_path, log, {"seed": 1}, COLUMNS, Progress())
    assert [type(sink).__name__ for sink in sinks] == ["CsvSink", "WandbSink"]  # TensorBoard is not installed
    sinks[1].write(_row(3))
    for sink in sinks:
        sink.close()
    assert asked[0]["mode"] == "online"
    assert asked[0]["project"] == "arm"
    assert asked[0]["resume"] == "allow"
    assert asked[0]["id"] == (tmp_path / "wandb_id.txt").read_text()
    assert run.logged == [(_row(3), 30)]
    assert run.finished


def test_csv_always_tensorboard_when_wanted(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    for wanted, names in ((True, ["CsvSink", "TensorBoardSink"]), (False, ["CsvSink"])):
        sinks = make_sinks(tmp_path, LogConfig(tensorboard=wanted), {}, COLUMNS, Progress())
        assert [type(sink).__name__ for sink in sinks] == names
        for sink in sinks:
            sink.close()
