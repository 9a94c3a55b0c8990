"""All figures of some run folders: files in both formats, one run for each method and task, and what is left out."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import replace
from pathlib import Path

import pytest

from top_erl.agent import Agent
from top_erl.config.run import RunConfig
from top_erl.errors import UserError
from top_erl.experiment.folder import RunFolder
from top_erl.experiment.presets import preset
from top_erl.hardware.choice import Hardware
from top_erl.inspection.correlation import draw_correlations
from top_erl.inspection.policies import CAPTIONS, draw_policies, representatives
from top_erl.inspection.reconditioning import draw_reconditioning
from top_erl.inspection.spread import draw_spread
from top_erl.inspection.values import draw_values

TOY = "tests.rollout.toy_tasks:ToyTask"


def _trained(config: RunConfig, folder: Path) -> Path:
    agent = Agent(config=config)
    agent.learn(config.total_env_steps, run_dir=folder, progress_bar=False)
    agent.close()
    return folder


def _saved(method: str, folder: Path, seed: int = 0, task: str = TOY) -> Path:
    agent = Agent(task, method=method, seed=seed, hardware=Hardware(1, 0))
    agent.save(folder)
    agent.close()
    return folder


def _are_pictures(files: list[Path]) -> bool:
    png, pdf = files
    return png.suffix == ".png" and png.read_bytes()[:4] == b"\x89PNG" and pdf.read_bytes()[:5] == b"%PDF-"


def test_every_figure_that_applies(tiny: RunConfig, tmp_path: Path) -> None:
    ours = _trained(tiny, tmp_path / "ours")
    theirs = _saved("bbrl_cov", tmp_path / "theirs", seed=3)
    stepwise, fresh = tmp_path / "stepwise", tmp_path / "fresh"
    for folder, method in ((stepwise, "sac"), (fresh, "tce")):
        folder.mkdir()
        RunFolder(folder).write_config(preset(method, TOY, "laptop", 0))
    said: list[str] = []
    runs = [theirs, ours, stepwise, fresh, tmp_path / "no-run"]
    figures = draw_policies(runs, tmp_path / "made" / "figures", say=said.append)
    assert figures.keys() == {
        "spread-bbrl_cov-ToyTask",
        "spread-top_erl-ToyTask",
        "segments-top_erl-ToyTask",
        "values-top_erl-ToyTask",
        "correlation-ToyTask",
    }
    assert {name.partition("-")[0] for name in figures} == CAPTIONS.keys()
    assert all(map(_are_pictures, figures.values()))
    for sentence in (
        f"{stepwise} is left out: sac chooses an action at every step, without a movement to show.",
        f"{fresh} is left out: it has no checkpoint yet.",
        "is not a run folder",
        "No figure 'segments' of bbrl_cov-ToyTask: Segments are re-conditioned in TOP-ERL only",
        "No figure 'values' of bbrl_cov-ToyTask: The critic of bbrl_cov gives no values",
    ):
        assert sum(sentence in line for line in said) == 1, said
    assert len(said) == 5


def test_the_smallest_seed_stands_for_the_others(tmp_path: Path) -> None:
    runs = [_saved("bbrl_cov", tmp_path / f"seed{seed}", seed) for seed in (2, 1, 3)]
    runs.append(_saved("tce", tmp_path / "tce", seed=7))
    said: list[str] = []
    assert [run for run, _ in representatives(runs, said.append)] == [runs[1], runs[3]]
    assert said == [f"{runs[1]} stands for all 3 runs of bbrl_cov on {TOY}."]
    variants = {runs[0]: "wide", runs[1]: "narrow", runs[2]: "wide"}
    assert [run for run, _ in representatives(runs, said.append, variants)] == [runs[0], runs[1], runs[3]]
    assert said[1:] == [f"{runs[0]} stands for all 2 runs of bbrl_cov · wide on {TOY}."]
    assert draw_policies(runs[:2], tmp_path / "figures", variants=variants).keys() == {
        "spread-bbrl_cov-wide-ToyTask",
        "spread-bbrl_cov-narrow-ToyTask",
        "correlation-ToyTask",
    }


def test_code_that_was_not_named_is_not_imported(
    tiny: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = _trained(tiny, tmp_path / "run")
    (tmp_path / "strange.py").write_text("from pathlib import Path\nPath('ran').touch()\n")
    config = run / "config.yaml"
    config.write_text(re.sub(r"^task: .*$", "task: strange:Task", config.read_text(), flags=re.MULTILINE))
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    assert draw_policies([run], tmp_path / "figures", say=said.append) == {}
    assert len(said) == 1
    assert "If you trust it, name it: --task strange:Task" in said[0]
    assert not (tmp_path / "ran").exists()
    assert draw_policies([run], tmp_path / "figures", named=["strange:Task"], say=said.append) == {}
    assert (tmp_path / "ran").exists()  # named: it is imported, and turns out to hold no task


def test_each_figure_has_a_function_of_its_own(tiny: RunConfig, tmp_path: Path) -> None:
    run = _trained(replace(tiny, total_env_steps=1), tmp_path / "run")
    name = tmp_path / "v1.0"  # a name with a dot is not taken for an ending
    for draw in (draw_reconditioning, draw_values):  # that of the spread is below
        files = draw(run, name)
        assert files == [tmp_path / "v1.0.png", tmp_path / "v1.0.pdf"]
        assert _are_pictures(files)
    assert _are_pictures(draw_correlations([run], name))


def test_what_cannot_be_drawn(tiny: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, other = _saved("tce", tmp_path / "run"), tmp_path / "other"
    _saved("tce", other, task="top_erl/ViaPointReacher-v0")
    with pytest.raises(UserError, match=r"of runs on one task; these are of .*ToyTask, top_erl/ViaPoint"):
        draw_correlations([run, other], tmp_path / "a")
    with pytest.raises(UserError, match="no run was given"):
        draw_correlations([], tmp_path / "a")
    with pytest.raises(UserError, match="Cannot write"):
        draw_spread(run, run / "config.yaml" / "a")
    from matplotlib import pyplot

    assert not pyplot.get_fignums()  # the figure is closed all the same
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        UserError, match=r"needs the package 'matplotlib': pip install -c constraints.txt -e '.\[report\]'"
    ):
        draw_policies([run], tmp_path)


def test_step_based_methods_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("stable_baselines3")
    run = _saved("sac", tmp_path / "run", task="top_erl/ViaPointReacher-v0")
    with pytest.raises(UserError, match="sac chooses an action at every step"):
        draw_spread(run, tmp_path / "a")
