"""`critic_ranking` in a run: measured at evaluations, and no other number changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.experiment.test_exact_resume import _numbers, _resume, _train
from tests.experiment.variations import SMALL
from tests.rollout.toy_tasks import ToyTask
from top_erl.cli import main
from top_erl.config.run import EvaluationConfig, RunConfig
from top_erl.config.serialize import to_dict
from top_erl.errors import UserError
from top_erl.experiment.callbacks import FunctionCallback
from top_erl.experiment.checkpoint import checkpoint_paths
from top_erl.tasks import EpisodeOutcomes
from top_erl.tasks.contract import Array


class MovingTask(ToyTask):
    """Pays for the place at the end, so that movements of one context differ."""

    def play(self, reference: Array) -> EpisodeOutcomes:
        outcomes = super().play(reference)
        return replace(outcomes, reward=outcomes.reward + np.abs(reference[..., 0]))


def _ranked(config: RunConfig, contexts: int) -> RunConfig:
    return replace(
        config,
        task="tests.experiment.test_ranking:MovingTask",
        evaluation=EvaluationConfig(interval=2, episodes=3, ranking_contexts=contexts),
    )


def test_switched_on_it_changes_no_other_number(tiny: RunConfig, tmp_path: Path) -> None:
    _train(_ranked(tiny, 0), tmp_path / "off")
    _train(_ranked(tiny, 2), tmp_path / "on")
    off, on = _numbers(tmp_path / "off"), _numbers(tmp_path / "on")
    found = [row.pop("critic_ranking", None) for row in on]
    assert on == off  # counters of steps and episodes among them
    assert [number for number, value in enumerate(found, start=1) if value is not None] == [1, 2, 4, 6]
    assert all(-1.0 <= value <= 1.0 for value in found if value is not None)
    assert len(set(found)) > 2  # it follows the critic
    (_, last), (_, other) = (checkpoint_paths(tmp_path / name / "checkpoints") for name in ("on", "off"))
    for file in ("state.safetensors", "replay.safetensors"):
        assert (last / file).read_bytes() == (other / file).read_bytes()


def test_a_run_that_was_stopped_has_the_same_ranking(tiny: RunConfig, tmp_path: Path) -> None:
    _train(_ranked(tiny, 2), tmp_path / "whole")
    _train(_ranked(tiny, 2), tmp_path / "parts", FunctionCallback(lambda row: row["iteration"] < 3))
    _resume(tmp_path / "parts")
    assert _numbers(tmp_path / "parts") == _numbers(tmp_path / "whole")


def test_a_run_from_before_there_was_a_setting_can_be_resumed_again_and_again(
    tiny: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint of the first session that knows it must agree with `config.yaml`, which did not have it."""

    def of_then(config: RunConfig) -> dict[str, Any]:
        data = to_dict(config)
        del data["evaluation"]["ranking_contexts"]
        return data

    file = tmp_path / "run" / "config.yaml"
    with monkeypatch.context() as then:
        then.setattr(RunConfig, "to_dict", of_then)
        _train(tiny, file.parent, FunctionCallback(lambda row: row["iteration"] < 2))
    assert "ranking_contexts" not in file.read_text()
    _resume(file.parent, FunctionCallback(lambda row: row["iteration"] < 4))
    _resume(file.parent)
    assert "ranking_contexts: 0\n" in file.read_text()
    assert [row["iteration"] for row in _numbers(file.parent)] == [1, 2, 3, 4, 5, 6]


def test_movements_that_are_worth_the_same_have_no_ranking(tiny: RunConfig, tmp_path: Path) -> None:
    _train(replace(_ranked(tiny, 1), task=tiny.task, total_env_steps=1), tmp_path / "run")
    assert all("critic_ranking" not in row for row in _numbers(tmp_path / "run"))
    assert "critic_ranking" in (tmp_path / "run" / "metrics.csv").read_text().splitlines()[0]


def test_tensorboard_has_it(tiny: RunConfig, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    config = replace(_ranked(tiny, 2), total_env_steps=1, log=replace(tiny.log, tensorboard=True))
    _train(config, tmp_path / "run")
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    (event,) = events.Scalars("critic/ranking")
    assert event.value == pytest.approx(_numbers(tmp_path / "run")[0]["critic_ranking"], rel=1e-6)


def test_a_method_without_such_a_critic_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task, *_ = SMALL
    words = ["--method=bbrl_cov", "--total-env-steps=1", "--log.no-tensorboard", "--threads=1", "--workers=0"]
    words += ["--collect.episodes=3", "--evaluation.episodes=3", "--evaluation.ranking-contexts=2"]
    assert main(["train", task, *words, "--run-dir", str(tmp_path / "run")]) == 0
    assert (
        "critic_ranking is not measured: the critic of bbrl_cov values no whole movements." in capsys.readouterr().out
    )
    assert "critic_ranking" not in (tmp_path / "run" / "metrics.csv").read_text()


def test_a_negative_number_of_contexts_is_refused() -> None:
    with pytest.raises(UserError, match="ranking_contexts must not be negative"):
        EvaluationConfig(ranking_contexts=-1)
