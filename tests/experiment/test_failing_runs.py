"""Runs on environments that misbehave: they go on, are resumed to the same numbers, and stay in one folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.torch import load_file

from tests.algorithms.sb3.step_tasks import ppo_config
from tests.experiment.variations import with_collect
from tests.rollout.toy_tasks import ToyTask
from top_erl.algorithms.sb3 import PpoRun
from top_erl.config.run import HardwareConfig, RunConfig
from top_erl.errors import UserError
from top_erl.experiment.callbacks import FunctionCallback
from top_erl.experiment.configs import load_config
from top_erl.experiment.folder import RunFolder
from top_erl.experiment.metrics_file import read_metrics
from top_erl.experiment.run import resume_training, run_training
from top_erl.experiment.training import Training
from top_erl.tasks import EpisodeStarts, PrimitiveConfig

FAILING = "tests.rollout.failing_tasks:OftenFailingSteps"
TIMES = {"wall_time", "steps_per_second"}


def _run(config: RunConfig, path: Path, stop_after: int = 0) -> None:
    training, folder = Training(config), RunFolder(path)
    folder.create(training)
    stop = FunctionCallback(lambda row: row["iteration"] != stop_after)
    try:
        run_training(training, folder, stop)
    finally:
        training.close()


def _assert_same(path: Path, other: Path) -> None:
    mine, theirs = (read_metrics(folder / "metrics.csv") for folder in (path, other))
    for left, right in zip(mine, theirs, strict=True):
        assert {k: v for k, v in left.items() if k not in TIMES} == {k: v for k, v in right.items() if k not in TIMES}
    for name in sorted(file.name for file in path.glob("checkpoints/*/*.safetensors")):
        (one,), (two,) = (sorted(folder.glob(f"checkpoints/*/{name}"))[-1:] for folder in (path, other))
        first, second = load_file(one), load_file(two)
        assert first.keys() == second.keys()
        assert all(first[key].equal(second[key]) for key in first)


@pytest.mark.parametrize("method", ["top_erl", "ppo"])
def test_a_run_with_failures_resumes_to_the_same_numbers(tiny: RunConfig, tmp_path: Path, method: str) -> None:
    config = replace(tiny, task=FAILING, total_env_steps=8 * 40, primitive=PrimitiveConfig(num_basis=2, tau=0.8))
    if method == "ppo":
        shared = ("evaluation", "checkpoint", "log", "hardware")
        common = {name: getattr(tiny, name) for name in shared}
        config = PpoRun(task=FAILING, total_env_steps=5 * 64, algorithm=ppo_config(), **common)
    _run(config, tmp_path / "whole")
    _run(config, tmp_path / "parts", stop_after=2)
    folder = RunFolder.open(tmp_path / "parts")
    training = resume_training(folder)
    run_training(training, folder)
    training.close()
    _assert_same(tmp_path / "whole", tmp_path / "parts")
    rows = read_metrics(tmp_path / "whole" / "metrics.csv")
    assert sum(row["failed_episodes"] for row in rows[:2]) > 0
    assert sum(row["failed_episodes"] for row in rows[2:]) > 0
    if method == "top_erl":  # the numbers do not depend on who plays, with failures neither
        workers = replace(config, hardware=HardwareConfig(threads=1, workers=2))
        _run(workers, tmp_path / "workers")
        _assert_same(tmp_path / "whole", tmp_path / "workers")


class Wanders(ToyTask):
    """Changes the directory of the whole process, as some simulators do."""

    def begin(self, seeds: Sequence[int]) -> EpisodeStarts:
        Path("elsewhere").mkdir(exist_ok=True)
        os.chdir("elsewhere")
        return super().begin(seeds)


def test_a_run_stays_in_one_folder(tiny: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _run(replace(tiny, task=f"{__name__}:Wanders"), Path("runs/one"))
    folder = tmp_path / "runs" / "one"
    assert {file.name for file in folder.iterdir()} >= {"config.yaml", "metrics.csv", "checkpoints"}
    assert len(read_metrics(folder / "metrics.csv")) == 6
    assert not list((tmp_path / "elsewhere").rglob("runs"))


def test_the_time_limit_is_an_option_that_old_runs_do_not_have(tiny: RunConfig, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    folder = RunFolder(tmp_path)
    folder.write_config(with_collect(tiny, timeout=12.5))
    assert load_config(file).hyper_parameters.timeout == 12.5
    assert Training(load_config(file)).config.hyper_parameters.timeout == 12.5
    file.write_text(file.read_text().replace("    timeout: 12.5\n", ""))
    assert load_config(file).hyper_parameters.timeout == 300.0
    for bad in (-1.0, float("nan"), float("inf")):
        with pytest.raises(UserError, match=r"collect\.timeout must be a number of seconds, at least 0"):
            with_collect(tiny, timeout=bad)
