"""Folders that somebody else has filled, cut short or forged: refused in a sentence, and nothing outside is touched."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import top_erl.experiment.checkpoint as checkpoint_module
from tests.experiment.variations import SMALL, with_learn
from top_erl import TopErl
from top_erl.cli import main
from top_erl.config.run import RunConfig
from top_erl.errors import UserError
from top_erl.experiment.checkpoint import load_checkpoint, save_checkpoint
from top_erl.experiment.folder import RunFolder
from top_erl.experiment.lock import is_locked
from top_erl.experiment.metrics_file import read_metrics
from top_erl.experiment.run import resume_training, run_training
from top_erl.experiment.training import Training
from top_erl.hardware.choice import Hardware, recorded_hardware
from top_erl.report.curves import plot_runs

Trainings = Callable[[RunConfig], Training]


@pytest.fixture
def folder(tiny: RunConfig, trainings: Trainings, tmp_path: Path) -> RunFolder:
    """A finished run with two checkpoints, of iterations 3 and 6."""
    return _run(tmp_path / "run", trainings(tiny))


def _run(path: Path, training: Training) -> RunFolder:
    folder = RunFolder(path)
    folder.create(training)
    run_training(training, folder)
    return folder


def _refused(folder: RunFolder, message: str) -> None:
    """Resuming is refused in one sentence, and lets the folder go."""
    with pytest.raises(UserError, match=message) as caught:
        resume_training(folder)
    assert "\n" not in str(caught.value)
    assert not is_locked(folder.path)


def _contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


# ---------------------------------------------------------------------- folders that hold something


def test_a_new_run_does_not_start_among_old_checkpoints(folder: RunFolder, tmp_path: Path) -> None:
    (folder.path / "config.yaml").unlink()
    (folder.path / ".lock").unlink()
    before = _contents(folder.path)
    assert main(["train", *SMALL, "--run-dir", str(folder.path)]) == 2
    with pytest.raises(UserError, match=r"run is not empty \(it holds best, checkpoints, fingerprint.json, …\)"):
        folder.reserve()
    assert _contents(folder.path) == before


def test_folders_that_are_as_good_as_empty(tiny: RunConfig, trainings: Trainings, tmp_path: Path) -> None:
    left_by_a_kill = (".lock", ".config.yaml.writing")
    for names in ((), (".lock",), left_by_a_kill):
        path = tmp_path / str(len(names))
        path.mkdir()
        for name in names:
            (path / name).write_text("")
        assert len(read_metrics(_run(path, trainings(tiny)).path / "metrics.csv")) == 6


def test_only_what_a_run_has_written_is_deleted(tiny: RunConfig, trainings: Trainings, tmp_path: Path) -> None:
    """Rotation keeps the newest two of the run's own, whatever else has a number for a name."""
    training, folder = trainings(tiny), RunFolder(tmp_path / "run")
    folder.create(training)
    for name in ("00000000", "00000099", "notes"):
        (folder.checkpoints / name).mkdir()
        (folder.checkpoints / name / "mine.txt").write_text("mine")
    other = trainings(replace(tiny, seed=5))
    save_checkpoint(folder.checkpoints / "00000001", other.checkpoint())
    leftover = folder.checkpoints / ".00000005.writing"
    leftover.mkdir()
    for name in ("state.safetensors", ".tmpAbCdEf"):
        (leftover / name).write_bytes(b"half")
    run_training(training, folder)
    names = {"00000000", "00000001", "00000003", "00000006", "00000099", "notes"}
    assert {path.name for path in folder.checkpoints.iterdir()} == names
    assert all((folder.checkpoints / name / "mine.txt").exists() for name in ("00000000", "00000099", "notes"))


def test_falling_back_deletes_nothing_that_is_not_known(
    folder: RunFolder, trainings: Trainings, tiny: RunConfig
) -> None:
    (folder.checkpoints / "00000006" / "meta.json").write_text("damaged")
    shutil.copytree(folder.checkpoints / "00000003", folder.checkpoints / "00000009")  # renamed: of iteration 3
    training = resume_training(folder, fall_back=True)
    assert training.progress.iteration == 3
    names = {path.name for path in folder.checkpoints.iterdir()}
    assert names == {"00000003", "put-aside-00000006-1"}  # the other was one of ours
    run_training(training, folder)
    training.close()
    assert [row["iteration"] for row in read_metrics(folder.path / "metrics.csv")] == [1, 2, 3, 4, 5, 6]


def test_notes_with_a_number_for_a_name_are_no_checkpoint(folder: RunFolder, tiny: RunConfig) -> None:
    """Neither taken for a damaged one when a run goes on, nor put aside when it falls back; an empty folder is one."""
    notes = folder.checkpoints / "99999999"
    notes.mkdir()
    (notes / "notes.txt").write_text("mine")
    for fall_back in (False, True):
        training = resume_training(folder, fall_back=fall_back)
        assert training.progress.iteration == 6
        run_training(training, folder)
        training.close()
        assert _contents(notes) == {"notes.txt": b"mine"}
    (folder.checkpoints / "00000008").mkdir()
    with pytest.raises(UserError, match="00000008"):
        resume_training(folder)


def test_saving_an_agent_replaces_a_saved_agent_only(tiny: RunConfig, tmp_path: Path) -> None:
    agent = TopErl(config=tiny)
    for name in ("config.yaml", "fingerprint.json", "checkpoint/notes.txt"):
        path = tmp_path / name.partition(".")[0].replace("/", "_")
        (path / name).parent.mkdir(parents=True)
        (path / name).write_text("mine")
        with pytest.raises(UserError, match=r"that is not of a saved agent, and is not replaced"):
            agent.save(path)
        assert _contents(path) == {name: b"mine"}
    saved = tmp_path / "saved"
    saved.mkdir()
    (saved / "notes.txt").write_text("mine")
    for seed in (0, 1):  # another agent may take the place of the first
        TopErl(config=replace(tiny, seed=seed)).save(saved)
    assert TopErl.load(saved).config.seed == 1
    (saved / "checkpoint" / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="holds a checkpoint that is not of a saved agent"):
        agent.save(saved)
    assert (saved / "notes.txt").read_text() == (saved / "checkpoint" / "notes.txt").read_text() == "mine"
    assert not is_locked(saved)


# ---------------------------------------------------------------------- links


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """Files of the user's; after the test they are as they were."""
    path = tmp_path / "elsewhere"
    path.mkdir()
    (path / "file").write_text("mine")
    yield path
    assert _contents(path) == {"file": b"mine"}


FILES = ("config.yaml", "fingerprint.json", "metrics.csv", "status.json", "curves.png", "wandb_id.txt", ".lock")
FOLDERS = ("checkpoints", "best", "failure", "tensorboard")


@pytest.mark.parametrize("name", [*FILES, "evaluation.json", *FOLDERS])
def test_a_link_in_a_run_folder(name: str, folder: RunFolder, elsewhere: Path) -> None:
    path, target = folder.path / name, elsewhere if name in FOLDERS else elsewhere / "file"
    if name == "config.yaml":
        target = shutil.move(path, elsewhere.parent / "config")
    elif path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.symlink_to(target)
    _refused(folder, r"is a link, and nothing is written through links|Cannot lock .*symbolic links")


def test_temporaries_that_are_links(folder: RunFolder, tiny: RunConfig, elsewhere: Path) -> None:
    for name in ("config.yaml", "fingerprint.json", "metrics.csv", "status.json"):
        (folder.path / f".{name}.writing").symlink_to(elsewhere / "file")
    (folder.path / "fingerprint.json").unlink()  # it is written anew
    training = resume_training(folder, total_env_steps=2 * tiny.total_env_steps)
    run_training(training, folder)
    training.close()
    assert not list(folder.path.glob(".*.writing"))


def test_a_link_where_a_checkpoint_is_written(
    tiny: RunConfig, trainings: Trainings, tmp_path: Path, elsewhere: Path
) -> None:
    training, folder = trainings(tiny), RunFolder(tmp_path / "run")
    folder.create(training)
    (folder.checkpoints / ".00000003.writing").symlink_to(elsewhere)
    with pytest.raises(UserError, match=r"Could not save the checkpoint .*00000003"):
        run_training(training, folder)
    (folder.checkpoints / ".00000003.writing").unlink()
    (folder.checkpoints / "00000001").symlink_to(elsewhere)
    for _ in range(3):
        folder.save(training)
    assert (folder.checkpoints / "00000001").is_symlink()


def test_a_picture_that_is_a_link(folder: RunFolder, elsewhere: Path) -> None:
    pytest.importorskip("matplotlib")
    (folder.path / "curves.png").symlink_to(elsewhere / "file")
    with pytest.raises(UserError, match=r"curves.png is a link"):
        plot_runs([folder.path], folder.path / "curves.png")


def test_a_run_folder_may_be_reached_through_a_link(tiny: RunConfig, trainings: Trainings, tmp_path: Path) -> None:
    (tmp_path / "big_disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "big_disk")
    folder = _run(tmp_path / "link", trainings(tiny))
    resume_training(folder).close()
    folder.release()
    TopErl(config=tiny).save(tmp_path / "link" / "agent")


# ---------------------------------------------------------------------- config.yaml and meta.json


def test_a_configuration_cut_short_at_any_line(folder: RunFolder) -> None:
    """What is left is a sound configuration with defaults for the rest."""
    whole = (folder.path / "config.yaml").read_text().splitlines(keepends=True)
    for length in range(1, len(whole)):
        (folder.path / "config.yaml").write_text("".join(whole[:length]))
        with pytest.raises(UserError):
            folder.load({"seed": 0})
    (folder.path / "config.yaml").write_text("".join(whole[:-1]))
    _refused(folder, r"config.yaml (lacks the entry|should)")
    shutil.rmtree(folder.checkpoints)
    (folder.path / "metrics.csv").unlink()
    _refused(folder, r"config.yaml (lacks the entry|should)")  # also before there is a checkpoint


def test_settings_that_were_changed(folder: RunFolder, tiny: RunConfig) -> None:
    folder.write_config(with_learn(tiny, discount=0.5))
    _refused(folder, r"has changed since the checkpoint was saved \(algorithm.learn.discount is 0.5, it was 1.0\)")
    with pytest.raises(UserError, match="has changed since the checkpoint was saved"):
        TopErl.load(folder.path)
    with pytest.raises(UserError, match="has changed since the checkpoint was saved"):
        TopErl.load(folder.path, which="best")
    keep = replace(tiny.checkpoint, keep=1)
    folder.write_config(replace(tiny, checkpoint=keep, log=replace(tiny.log, wandb_project="x"), total_env_steps=999))
    resume_training(folder).close()


def test_the_checkpoint_of_another_seed(folder: RunFolder, tiny: RunConfig, trainings: Trainings) -> None:
    other = _run(folder.path.parent / "other", trainings(replace(tiny, seed=1)))
    shutil.rmtree(folder.checkpoints)
    shutil.copytree(other.checkpoints, folder.checkpoints)
    _refused(folder, r"is of seed 1, but 0 is wanted here")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("iteration", value) for value in (-1, 6.0, float("nan"), float("inf"), 10**30, 10**400, "6", None, True)),
        *(("episodes", -5), ("env_steps", 1.5), ("wall_time", float("nan")), ("wall_time", -1.0)),
    ],
)
def test_counters_that_count_nothing(name: str, value: object, folder: RunFolder) -> None:
    path = folder.checkpoints / "00000006"
    meta = json.loads((path / "meta.json").read_text())
    meta["progress"][name] = value
    for forged in (meta, checkpoint_module._sealed(meta), {**meta, "format": 1}):  # also with a seal that fits
        (path / "meta.json").write_text(json.dumps(forged))
        with pytest.raises(UserError, match=r"damaged .meta.json (has changed|cannot be read).; use an earlier one"):
            load_checkpoint(path, {})


def test_one_changed_letter_of_meta(folder: RunFolder) -> None:
    path = folder.checkpoints / "00000006" / "meta.json"
    text = path.read_text()
    for before, after in (
        ('"seed": 0', '"seed": 1'),
        ('"iteration": 6', '"iteration": 5'),
        ('"format": 2', '"format":2'),
    ):
        assert before in text
        path.write_text(text.replace(before, after))
        if after == '"format":2':  # the same content
            load_checkpoint(path.parent, {})
            continue
        _refused(folder, r"damaged .meta.json has changed.*Add --previous")


def test_checkpoints_of_the_format_before(folder: RunFolder, tiny: RunConfig) -> None:
    """They say neither seed nor configuration, have no hash of themselves, and files that only their owner may read."""
    shutil.rmtree(folder.best)
    for path in folder.checkpoints.iterdir():
        meta = json.loads((path / "meta.json").read_text())
        old = {key: meta[key] for key in ("progress", "belongs_to", "files")}
        del old["belongs_to"]["seed"]
        (path / "meta.json").write_text(json.dumps({"format": 1, **old}, indent=2))
        (path / "state.safetensors").chmod(0o600)
    assert TopErl.load(folder.path).training.progress.iteration == 6
    training = resume_training(folder, total_env_steps=2 * tiny.total_env_steps)
    run_training(training, folder)
    training.close()
    names = sorted(path.name for path in folder.checkpoints.iterdir())
    assert names == ["00000012", "00000014"]  # the old ones were the run's own, and have made room
    assert TopErl.load(folder.path, which="best").training.progress.iteration > 6


def test_a_run_that_has_lost_its_checkpoints(folder: RunFolder) -> None:
    rows = read_metrics(folder.path / "metrics.csv")
    shutil.rmtree(folder.checkpoints)
    for _ in range(2):
        _refused(folder, r"has rows up to iteration 6, but no checkpoint to go on from: put its checkpoints/ back, or")
        folder.checkpoints.mkdir(exist_ok=True)  # with nothing in it
    assert read_metrics(folder.path / "metrics.csv") == rows
    (folder.path / "metrics.csv").unlink()
    resume_training(folder).close()  # nothing to lose


def test_a_run_that_has_lost_rows(folder: RunFolder, caplog: pytest.LogCaptureFixture) -> None:
    metrics = folder.path / "metrics.csv"
    whole = metrics.read_text()
    lines = whole.splitlines(keepends=True)
    for damaged in (lines[:4], [*lines[:2], lines[2].replace("1", "2"), *lines[3:]], lines[:2] + lines[3:]):
        metrics.write_text("".join(damaged))
        _refused(folder, r"metrics\.csv has lost or changed rows since the checkpoint was saved: put back a whole copy")
        assert metrics.read_text() == "".join(damaged)
    metrics.write_text(whole)
    resume_training(folder).close()
    folder.release()
    metrics.unlink()
    resume_training(folder).close()
    assert "the run goes on without its rows up to here" in caplog.text


def test_files_of_a_checkpoint_follow_the_umask(folder: RunFolder) -> None:
    expected = (folder.path / "config.yaml").stat().st_mode & 0o777
    for file in (*folder.checkpoints.glob("*/*"), *folder.best.iterdir()):
        assert file.stat().st_mode & 0o777 == expected, file


# ---------------------------------------------------------------------- fingerprint.json


@pytest.mark.parametrize("number", ["0", "-1", "1e30", "Infinity", "NaN", "1.5", "true", '"2"', "null", "[2]"])
def test_nonsense_about_the_machine(number: str, folder: RunFolder, caplog: pytest.LogCaptureFixture) -> None:
    text = f'{{"hardware": {{"threads": {number}, "workers": 0}}}}'
    (folder.path / "fingerprint.json").write_text(text)
    with caplog.at_level(logging.WARNING, "top_erl"):
        assert folder.hardware() is None
    assert "chosen anew" in caplog.text
    training = resume_training(folder)
    assert training.hardware == Hardware(1, 0)  # as the configuration says
    training.close()
    assert folder.hardware() == Hardware(1, 0)  # recorded again


def test_another_machine(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("top_erl.hardware.choice.available_cores", lambda: 4)
    with caplog.at_level(logging.WARNING, "top_erl"):
        assert recorded_hardware({"threads": 4, "workers": 0}) == Hardware(4, 0)
        assert not caplog.records
        assert recorded_hardware({"threads": 64, "workers": 12}) == Hardware(4, 4)
    threads, workers = (record.getMessage() for record in caplog.records)
    assert "with 64 threads, more than this machine's 4 core(s): 4 are used here, and the last digits" in threads
    assert "with 12 workers, more than this machine's 4 core(s)" in workers
    assert recorded_hardware({"threads": 10**40, "workers": 10**40}) == Hardware(4, 4)
