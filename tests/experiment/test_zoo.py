"""Agents of policy and primitive alone, and those that come with the package."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from tests.experiment.variations import SMALL
from top_erl import Agent
from top_erl.cli import main
from top_erl.errors import UserError
from top_erl.experiment import zoo
from top_erl.experiment.checkpoint import _digest, _sealed
from top_erl.experiment.fresh import play_fresh
from top_erl.tasks import make_task

Output = pytest.CaptureFixture[str]
TOY = "tests.rollout.toy_tasks:ToyTask"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("zoo") / "run"
    assert main(["train", *SMALL, "--total-env-steps=60", "--run-dir", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def policy(run: Path) -> Path:
    """The run's policy, saved alone."""
    with Agent.load(run, task=TOY) as agent:
        agent.save(run.parent / "policy", policy_only=True)
    return run.parent / "policy"


def test_a_policy_alone_plays_as_its_agent_does(run: Path, policy: Path) -> None:
    with Agent.load(run, task=TOY) as whole, Agent.load(policy, task=TOY) as alone:
        assert np.array_equal(play_fresh(whole.training, 5, 0).returns, play_fresh(alone.training, 5, 0).returns)
        assert alone.num_timesteps == whole.num_timesteps
    names = load_file(policy / "checkpoint" / "state.safetensors")
    assert names
    assert all(name.startswith("policy.") for name in names)


def test_a_policy_alone_does_not_learn_on(policy: Path, tmp_path: Path, capsys: Output) -> None:
    with Agent.load(policy, task=TOY) as agent:
        with pytest.raises(UserError, match="does not learn on"):
            agent.learn(100, run_dir=tmp_path / "run")
        assert not (tmp_path / "run").exists()
        agent.save(tmp_path / "again")  # and stays what it is
    with Agent.load(tmp_path / "again", task=TOY) as again:
        assert again.training.plays_only
    assert main(["resume", str(policy), "--task", TOY]) == 2
    assert "is a saved agent, not a run" in capsys.readouterr().err


def test_a_policy_in_the_place_of_a_checkpoint_is_refused(run: Path, policy: Path, tmp_path: Path) -> None:
    """Networks that are missing would begin anew without a word."""
    state = policy / "checkpoint" / "state.safetensors"
    meta = json.loads((policy / "checkpoint" / "meta.json").read_text())
    tensors = load_file(state)
    forged = tmp_path / "forged"
    with Agent.load(policy, task=TOY) as agent:
        agent.save(forged)
    for what, match in (
        ({name: value for name, value in tensors.items() if "weight" not in name}, "is missing"),
        ({**tensors, "critics.x": tensors[min(tensors)].clone()}, "is not known here"),
    ):
        path = forged / "checkpoint"
        save_file(what, path / "state.safetensors")
        meta["files"]["state.safetensors"] = _digest(path / "state.safetensors")
        (path / "meta.json").write_text(json.dumps(_sealed(meta)))
        with pytest.raises(UserError, match=match):
            Agent.load(forged, task=TOY)


def test_a_policy_alone_has_no_critic_to_look_into(policy: Path, tmp_path: Path, capsys: Output) -> None:
    words = ["inspect", str(policy), "--task", TOY, "-o", str(tmp_path / "look"), "--contexts=1"]
    assert main(words) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert out.count("saved without its critic") == 2  # its values and its ranking
    assert (tmp_path / "look" / "spread.png").exists()
    assert not (tmp_path / "look" / "values.png").exists()


def test_a_step_based_policy_is_not_saved_alone(tmp_path: Path) -> None:
    with (
        Agent("top_erl/ViaPointReacher-v0", method="sac") as agent,
        pytest.raises(UserError, match="Only episodic methods"),
    ):
        agent.save(tmp_path / "sac", policy_only=True)


def test_names_of_the_zoo_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    assert main(["evaluate", "zoo/nonsense"]) == 2
    assert "Unknown agent of the zoo 'nonsense'" in capsys.readouterr().err
    monkeypatch.chdir(tmp_path)
    mine = tmp_path / "zoo" / zoo.zoo_names()[0]
    mine.mkdir(parents=True)
    assert zoo.in_zoo(Path("zoo", mine.name)) == Path("zoo", mine.name)  # a folder here comes first
    mine.rmdir()
    assert zoo.in_zoo(Path("zoo", mine.name)) == zoo.ZOO / mine.name
    assert main(["resume", f"zoo/{mine.name}"]) == 2
    assert "is a saved agent, not a run" in capsys.readouterr().err


@pytest.mark.parametrize("name", zoo.zoo_names())
def test_an_agent_of_the_zoo_plays_as_recorded(name: str) -> None:
    """Its first contexts give the returns that were recorded with it: same policy, same task."""
    recorded = json.loads((zoo.ZOO / name / "evaluation.json").read_text())
    with Agent.load(f"zoo/{name}") as agent:
        assert make_task(agent.config.task).spec.version == agent.training.spec.version
        scores = agent.evaluate(3, seed=0)
        for key in ("return", *agent.training.spec.metrics):
            played = scores.returns if key == "return" else scores.metrics[key]
            assert played == pytest.approx(recorded[key][:3], rel=0.02, abs=0.02)
        assert sum(file.stat().st_size for file in (zoo.ZOO / name).rglob("*") if file.is_file()) < 600_000
