"""`top-erl sweep` and `status` on the command line: what is understood, what is refused, what is written."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.sweep.tiny import ROOT, TASKS, write_definition
from top_erl.cli.command import main
from top_erl.cli.sweep_options import split_words
from top_erl.cli.sweeps import SweepOptions
from top_erl.sweep.definition import read_sweep

TINY = ["--learn.critic-steps", "1", "--learn.policy-steps", "1", "--evaluation.episodes", "2", "--log.no-tensorboard"]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_options_of_runs_are_told_from_those_of_the_sweep() -> None:
    words = ["box-dense", "--seeds", "2", "--learn.target", "v,q", "--policy.hidden", "8", "8"]
    words += ["--critic.no-layer-norm", "--retry", "--x=1"]
    own, runs = split_words(words, SweepOptions)
    assert own == ["box-dense", "--seeds", "2", "--retry"]
    assert runs.single == {"policy.hidden": "8 8", "critic.layer-norm": "false", "x": "1"}
    assert runs.several == {"learn.target": ("v", "q")}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "Name a sweep (metaworld50, hopper-jump"),
        (["box-dnse"], "did you mean 'box-dense'?"),
        (["box-dense", "--learn.targt", "q"], "Unknown option '--learn.targt'; did you mean '--learn.target'?"),
        (["box-dense", "--methods", "sac", "--learn.target", "q"], "Unknown option '--learn.target'"),
        (["box-dense", "--methods", "sacc"], "Unknown method 'sacc'; did you mean 'sac'?"),
        (["box-dense", "--tasks", "metaworld/rech-v3"], "did you mean 'metaworld/reach-v3'?"),
        (["box-dense", "--seed", "3"], "A sweep takes --seeds, not --seed."),
        (["box-dense", "--run-dir", "x"], "A sweep takes --into, not --run-dir."),
        (["box-dense", "--seeds", "x"], "--seeds is a number of seeds"),
        (["box-dense", "--threads", "0"], "--threads must be at least 1"),
        (["box-dense", "--jobs", "1000"], "would crowd each other"),
        (["box-dense", "--address", "auto"], "--address is of --engine ray"),
        (["ablation-targets", "--learn.target", "q"], "gives --learn.target to some runs itself"),
        (["nowhere/sweep.yaml"], "There is no file nowhere/sweep.yaml."),
        (["box-dense", "--scale", "huge"], "invalid choice"),
    ],
)
def test_mistakes_are_sentences(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", *words]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert len(error.splitlines()) == 1
    assert not list(Path("sweeps").glob("*/*-seed*"))


def test_code_that_a_file_names_is_not_imported_unasked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("evil.py").write_text("open('seen', 'w').close()\nclass Task: ...\n")
    Path("s.yaml").write_text("tasks: ['evil:Task']\n")
    assert main(["sweep", "s.yaml"]) == 2
    assert "If you trust it, add --import evil." in capsys.readouterr().err
    assert not Path("seen").exists()


def test_an_option_that_is_typed_replaces_that_of_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    Path("s.yaml").write_text(f"tasks: ['{TASKS[0]}']\nseeds: 1\ngrid: {{learn.target: [v, q]}}\n")
    assert main(["sweep", "s.yaml", "--learn.target", "q", "--engine", "slurm"]) == 0
    assert [cell.options for cell in read_sweep(Path("sweeps/s")).cells()] == [{"learn.target": "q"}]
    assert main(["sweep", "s.yaml", "--into", "t", "--learn.target", "v,clipped", "--engine", "slurm"]) == 0
    assert [cell.variant for cell in read_sweep(Path("t")).cells()] == ["v", "clipped"]


def test_status_of_what_is_no_sweep(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "nowhere"]) == 2
    assert "nowhere is not a sweep's folder" in capsys.readouterr().err


def test_a_dry_run_measures_and_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--tasks", TASKS[0], "--seeds", "4", "--learn.batch-size", "4,8", "--total-env-steps", "100000", *TINY]
    assert main(["sweep", *words, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "8 runs (1 methods, 1 tasks, 4 seeds, 2 settings)" in said
    assert "sweeps/own/top_erl-ViaPointReacher-v0-8-seed0" in said
    assert "hours" in said
    assert not Path("sweeps").exists()


def test_the_slurm_script_runs_its_cells_one_by_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """There is no SLURM here: what it would run for one task of the array is run by the shell."""
    write_definition(tmp_path / "tiny.yaml", TASKS[:1], seeds=2, iterations=2)
    assert main(["sweep", "tiny.yaml", "--methods", "tce", "--engine", "slurm"]) == 0
    assert "sbatch sweeps/tiny/slurm.sh" in capsys.readouterr().out
    script = tmp_path / "sweeps" / "tiny" / "slurm.sh"
    assert "#SBATCH --array=1-2\n" in script.read_text()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SLURM_ARRAY_TASK_ID": "2"}
    done = subprocess.run(["bash", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not (script.parent / "tce-ViaPointReacher-v0-seed0").exists()
    assert (script.parent / "tce-ViaPointReacher-v0-seed1" / "evaluation.json").exists()
    assert main(["status", "sweeps/tiny", "--all"]) == 0
    said = capsys.readouterr().out
    assert "finished tce-ViaPointReacher-v0-seed1  iteration 4/4" in said
    assert "missing  tce-ViaPointReacher-v0-seed0" in said
    assert main(["sweep", "sweeps/tiny", "--engine", "slurm"]) == 0
    assert "#SBATCH --array=1-1\n" in script.read_text()
    assert "cells=(\ntce-ViaPointReacher-v0-seed0\n)\n" in script.read_text()
    assert read_sweep(script.parent).fresh_episodes == 2
