"""What is said of a preset before it is used."""

from __future__ import annotations

from dataclasses import replace

import pytest

from top_erl.cli import main, show
from top_erl.config.options import with_options
from top_erl.experiment import expected
from top_erl.experiment.expected import Expected, warning_before
from top_erl.experiment.presets import preset

ARM = "top_erl/ViaPointReacher-v0"


def test_a_preset_that_does_not_learn_says_so_before_it_starts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    start = preset("top_erl", ARM, "laptop")
    assert warning_before(start, start) == ""  # this one learns
    poor = Expected("success", 0.04, 2, 800_000, 61.3)
    monkeypatch.setattr(expected, "expected_results", lambda: {ARM: poor})
    assert warning_before(replace(start, seed=5), start) == (
        f"This preset is known not to learn {ARM}: success 0.04 on fresh contexts after 800,000 steps, 61 minutes at "
        "most on two cores (2 seeds)."
    )
    assert warning_before(with_options(start, {"learn.batch-size": "64"}), start) == ""  # nobody knows
    assert warning_before(replace(start, total_env_steps=10 * start.total_env_steps), start) == ""
    assert warning_before(preset("tce", ARM, "laptop"), preset("tce", ARM, "laptop")) == ""
    assert not replace(poor, value=0.0).learned
    assert replace(poor, metric="max_height", value=0.05).learned  # metres are no share of episodes


def test_a_task_says_what_to_expect(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def said() -> str:
        assert main(["tasks", "metaworld/push-v3"]) == 0
        return " ".join(capsys.readouterr().out.split())

    assert "success 0.66 on fresh" in said()
    monkeypatch.setattr(show, "expected_results", dict)
    assert "not trained to its end" in said()
