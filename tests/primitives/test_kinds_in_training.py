"""Every episodic method with every kind of primitive, by the command line; what cannot work is one sentence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.primitives.test_interface import Polynomial
from top_erl.cli import main
from top_erl.experiment.configs import load_config
from top_erl.experiment.metrics_file import read_metrics
from top_erl.primitives import register_primitive

TASK = "top_erl/ViaPointReacher-v0"
TINY = {
    "top_erl": ("--collect.prefill", "4", "--learn.critic-steps", "2", "--learn.policy-steps", "2"),
    "tce": ("--learn.critic-epochs", "2", "--learn.policy-epochs", "2"),
    "bbrl_cov": ("--learn.critic-epochs", "2", "--learn.policy-epochs", "2"),
    "bbrl_std": ("--learn.critic-epochs", "2", "--learn.policy-epochs", "2"),
}
EPISODE = ("--learn.critic-condition", "episode", "--learn.policy-condition", "episode")


def _train(method: str, kind: str, folder: Path, *options: str) -> int:
    """Two iterations."""
    steps = 50 * (8 + (4 if method == "top_erl" else 0))
    common = ["--total-env-steps", str(steps), "--collect.episodes", "4", "--evaluation.episodes", "2"]
    machine = ["--threads", "1", "--workers", "0", "--log.no-tensorboard", "--run-dir", str(folder)]
    chosen = ["--task", TASK, "--method", method, "--primitive.kind", kind]
    return main(["train", *chosen, *common, *TINY[method], *machine, *options])


@pytest.mark.parametrize(
    ("method", "kind", "options"),
    [
        ("bbrl_cov", "promp", ("--primitive.num-zero-start", "1")),
        ("bbrl_std", "dmp", ()),
        ("bbrl_cov", "bspline", ()),
        ("tce", "promp", ()),
        ("tce", "bspline", ("--primitive.end-at-rest",)),
        ("tce", "dmp", ("--primitive.weights-scale", "50")),
        ("top_erl", "dmp", ("--primitive.weights-scale", "50")),
        ("top_erl", "dmp", ("--learn.target", "q", "--collect.stride", "1")),
        ("top_erl", "promp", EPISODE),
        ("top_erl", "bspline", ("--primitive.settling", "1.5")),
    ],
)
def test_short_trainings(method: str, kind: str, options: tuple[str, ...], tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert _train(method, kind, run, *options) == 0
    rows = read_metrics(run / "metrics.csv")
    assert [row["iteration"] for row in rows] == [1, 2]
    assert all(np.isfinite(row[name]) for row in rows for name in ("critic_loss", "policy_loss", "entropy"))
    assert load_config(run / "config.yaml").primitive.kind == kind  # type: ignore[attr-defined]
    assert main(["evaluate", str(run), "--episodes", "2"]) == 0


def test_top_erl_refuses_to_restart_a_promp(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _train("top_erl", "promp", tmp_path / "run") == 2
    said = capsys.readouterr().err
    assert "promp cannot be restarted at a segment's start: use --learn.critic-condition episode, or" in said
    assert _train("top_erl", "promp", tmp_path / "run2", "--learn.policy-condition", "segment") == 2
    assert "--learn.critic-condition episode --learn.policy-condition episode" in capsys.readouterr().err


def test_an_unknown_kind_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _train("bbrl_cov", "pro_mp", tmp_path / "run") == 2
    assert "Unknown primitive.kind 'pro_mp'; did you mean 'promp'?" in capsys.readouterr().err


@pytest.mark.parametrize("method", ["top_erl", "tce", "bbrl_cov"])
def test_a_primitive_from_outside_trains(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("top_erl.primitives.registry._FACTORIES", {})
    register_primitive("polynomial", Polynomial)
    assert _train(method, "polynomial", tmp_path / "run") == 0
