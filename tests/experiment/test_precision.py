"""Runs with matrix products in bfloat16: what is recorded, and what is said when it does not help."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import top_erl.experiment.training as module
from top_erl.config.changes import changed
from top_erl.config.run import HardwareConfig, RunConfig
from top_erl.experiment.folder import RunFolder
from top_erl.experiment.run import resume_training
from top_erl.experiment.training import Training
from top_erl.models.fast.products import low_products


def _low(config: RunConfig, dropout: float = 0.0) -> RunConfig:
    algorithm = replace(config.algorithm, critic=replace(config.algorithm.critic, dropout=dropout))  # type: ignore[attr-defined]
    return replace(config, algorithm=algorithm, hardware=HardwareConfig(precision="bf16", threads=1, workers=0))


@pytest.mark.parametrize(
    ("faster", "dropout", "expected"),
    [(True, 0.0, ""), (False, 0.0, "float32 is faster"), (True, 0.2, "")],
)
def test_a_run_says_when_bf16_does_not_help(
    faster: bool,
    dropout: float,
    expected: str,
    tiny: RunConfig,
    trainings: Callable[[RunConfig], Training],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(module, "bf16_is_faster", lambda device: faster)
    monkeypatch.setattr("top_erl.models.transformer.torch_is_safe", lambda device: True)  # nothing is multiplied here
    with caplog.at_level(logging.WARNING, "top_erl"):
        trainings(_low(tiny, dropout))
    assert [expected in record.message for record in caplog.records] == [True] * bool(expected)


def test_another_route_to_bf16_is_noticed(
    tiny: RunConfig, trainings: Callable[[RunConfig], Training], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.create(trainings(_low(tiny)))
    assert folder.bf16_route() == type(low_products()).__name__
    resume_training(folder).close()
    assert "another route" not in caplog.text
    path = folder.path / "fingerprint.json"
    recorded = json.loads(path.read_text())
    path.write_text(json.dumps(recorded | {"bf16_route": "Another"}))
    resume_training(folder).close()
    assert "another route" in caplog.text
    caplog.clear()
    path.unlink()  # not known any more
    resume_training(folder).close()
    assert "another route" not in caplog.text


def test_the_plain_critic_has_a_route_of_its_own(
    tiny: RunConfig, trainings: Callable[[RunConfig], Training], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("top_erl.models.transformer.torch_is_safe", lambda device: True)
    low = changed(_low(tiny), {"algorithm.critic.backend": "plain"})
    assert trainings(low).learner.bf16_route == "autocast"


def test_float32_has_no_route(tiny: RunConfig, trainings: Callable[[RunConfig], Training]) -> None:
    assert trainings(tiny).learner.bf16_route == ""
