"""The run folder: what is written, what is refused, and what is left when a run fails."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.experiment.variations import with_collect, with_learn, with_trust_region
from top_erl.config.run import HardwareConfig, RunConfig
from top_erl.errors import RunStopped, UserError
from top_erl.experiment.folder import RunFolder, new_run_folder
from top_erl.experiment.lock import is_locked
from top_erl.experiment.run import resume_training, run_training
from top_erl.experiment.training import Training
from top_erl.hardware.choice import Hardware

Trainings = Callable[[RunConfig], Training]


@pytest.fixture
def folder(tiny: RunConfig, trainings: Trainings, tmp_path: Path) -> RunFolder:
    """A finished run with two checkpoints."""
    training = trainings(tiny)
    made = RunFolder(tmp_path / "run")
    made.create(training)
    run_training(training, made)
    return made


def _names(folder: RunFolder) -> list[int]:
    return sorted(int(path.name) for path in folder.checkpoints.iterdir())


def test_what_identifies_a_run(folder: RunFolder, tiny: RunConfig) -> None:
    assert folder.config() == tiny
    assert folder.hardware() == Hardware(1, 0)
    fingerprint = json.loads((folder.path / "fingerprint.json").read_text())
    assert (fingerprint["seed"], fingerprint["task"], fingerprint["task_version"]) == (0, "toy", "1")
    assert fingerprint["packages"]["torch"] == torch.__version__.split("+")[0] or "torch" in fingerprint["packages"]
    assert fingerprint["machine"]["cores"] >= 1
    assert fingerprint["horizon"] == 6
    assert _names(folder) == [3, 6]


def test_a_folder_is_made_once(folder: RunFolder, tiny: RunConfig, trainings: Trainings) -> None:
    with pytest.raises(UserError, match=r"holds a run already: go on with `top-erl resume"):
        folder.create(trainings(tiny))


def test_a_folder_that_cannot_be_made(tiny: RunConfig, trainings: Trainings, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match=r"Cannot make the run folder.*give another --run-dir"):
        RunFolder(tmp_path / "file" / "run").create(trainings(tiny))


def test_opening_what_is_no_run(folder: RunFolder, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is not a run folder .it has no config.yaml.*Runs beside it: run\."):
        RunFolder.open(tmp_path / "rum")
    with pytest.raises(UserError, match=r"config.yaml.\.$"):
        RunFolder.open(tmp_path / "no" / "where")
    assert RunFolder.open(folder.path).path == folder.path


@pytest.mark.parametrize("text", ["", "{}", '{"hardware": {"threads": "x"}}', '{"hardware": 3}', None])
def test_hardware_that_is_not_recorded(folder: RunFolder, text: str | None) -> None:
    file = folder.path / "fingerprint.json"
    file.unlink() if text is None else file.write_text(text)
    assert folder.hardware() is None
    resume_training(folder).close()


def test_the_checkpoint_of_an_iteration(folder: RunFolder, tiny: RunConfig, trainings: Trainings) -> None:
    owner = trainings(tiny).belongs_to
    for iteration, expected in ((None, 6), (3, 3), (6, 6)):
        found = folder.load(owner, iteration)
        assert found is not None
        assert found.progress.iteration == expected
    with pytest.raises(UserError, match=r"no checkpoint of iteration 4; it has: 3, 6\."):
        folder.load(owner, 4)
    shutil.rmtree(folder.checkpoints)
    assert folder.load(owner) is None
    with pytest.raises(UserError, match="it has: none"):
        folder.load(owner, 4)


def test_a_damaged_checkpoint_and_the_one_before(
    folder: RunFolder, tiny: RunConfig, trainings: Trainings, capsys: pytest.CaptureFixture[str]
) -> None:
    owner = trainings(tiny).belongs_to
    newest = folder.checkpoints / "00000006" / "state.safetensors"
    newest.write_bytes(newest.read_bytes()[:100])
    with pytest.raises(UserError, match=r"cut short.*Add --previous to fall back to the one before it"):
        folder.load(owner)
    found = folder.load(owner, fall_back=True)
    assert found is not None
    assert found.progress.iteration == 3
    assert "cut short" in capsys.readouterr().err
    (folder.checkpoints / "00000003" / "meta.json").unlink()
    with pytest.raises(UserError, match=r"There is no checkpoint at .*00000003"):
        folder.load(owner, fall_back=True)
    with pytest.raises(UserError) as caught:
        folder.load(owner, 3)
    assert "--previous" not in str(caught.value)  # there is none before


def test_a_checkpoint_of_another_task_version(folder: RunFolder, tiny: RunConfig) -> None:
    folder.write_config(replace(tiny, task="tests.rollout.toy_tasks:OtherVersion"))
    with pytest.raises(UserError, match="is of task version '1', but '2' is wanted here"):
        resume_training(folder)
    folder.write_config(replace(tiny, task="tests.rollout.toy_tasks:PointTask"))
    with pytest.raises(UserError, match="is of task 'toy', but 'toy/Point' is wanted here"):
        resume_training(folder)


def test_a_checkpoint_that_does_not_fit_the_configuration(
    folder: RunFolder, tiny: RunConfig, trainings: Trainings
) -> None:
    policy = replace(tiny.algorithm.policy, hidden=(9,))
    changed = {
        r"policy.mean_net.0.weight is float32 of shape \[8, 4\], not float32 of shape \[9, 4\]": replace(
            tiny, algorithm=replace(tiny.algorithm, policy=policy)
        ),
        "made with another collect.stride": with_collect(tiny, stride=3),
        "made with another trust_region.anchor": with_trust_region(tiny, anchor="behaviour"),
        "here it has a capacity of 7": with_collect(tiny, capacity=7),
    }
    saved = folder.load({})
    assert saved is not None
    for message, config in changed.items():
        folder.write_config(config)
        with pytest.raises(UserError, match="has changed since the checkpoint was saved"):
            resume_training(folder)
        with pytest.raises(UserError, match=message):  # an older checkpoint does not say what it was saved with
            trainings(config).restore(saved)


@pytest.mark.parametrize("kind", ["critic", "policy"])
def test_a_diverged_run_leaves_its_batch(kind: str, tiny: RunConfig, trainings: Trainings, tmp_path: Path) -> None:
    training = trainings(with_learn(tiny, **{f"{kind}_rate": 1e30}))
    folder = RunFolder(tmp_path / "run")
    folder.create(training)
    with pytest.raises(RunStopped, match=r"diverged in iteration \d") as caught:
        run_training(training, folder)
    if kind == "critic":
        (file,) = (folder.path / "failure").iterdir()
        assert str(file) in str(caught.value)
        assert "--learn.critic-rate" in str(caught.value)
        batch = load_file(file)
        assert batch.keys() == {"state", "reference", "action", "reward"}
        assert batch["state"].shape == (4, 3, 4)
    assert (folder.path / "metrics.csv").exists()


def test_divergence_without_a_folder(tiny: RunConfig, trainings: Trainings) -> None:
    with pytest.raises(RunStopped, match="Training diverged in iteration 1: critic step 2 diverged: its loss is"):
        run_training(trainings(with_learn(tiny, critic_rate=1e30)))


def test_new_runs_get_new_names(tiny: RunConfig, tmp_path: Path) -> None:
    config = replace(tiny, task="top_erl/ViaPointReacher-v0", seed=3)
    first, second, other = (new_run_folder(run, tmp_path) for run in (config, config, tiny))
    assert first.path.name == "top_erl-ViaPointReacher-v0-seed3"
    assert second.path.name == f"{first.path.name}-2"
    assert other.path.name == "top_erl-tests_rollout_toy_tasks_ToyTask-seed0"
    assert all(is_locked(folder.path) for folder in (first, second, other))
    first.discard()
    assert not first.path.exists()  # nothing was written to it
    other.release()
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match=r"Cannot make a run folder in .*file.*give one with --run-dir"):
        new_run_folder(config, tmp_path / "file")


def test_a_device_that_is_not_there(tiny: RunConfig) -> None:
    with pytest.raises(UserError, match=r"The device 'nonsense' cannot be used here .*--device cpu"):
        Training(replace(tiny, hardware=HardwareConfig(device="nonsense")))
