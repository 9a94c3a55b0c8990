"""Hostile command lines, and what is said when the surroundings or the program itself are to blame."""

from __future__ import annotations

import errno
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.fuzz import Playground, outcomes
from tests.experiment.variations import SMALL
from top_erl.algorithms.registry import METHODS
from top_erl.cli import main
from top_erl.config.limits import check_values
from top_erl.config.option_names import options_of
from top_erl.config.options import with_options
from top_erl.config.run import RunConfig
from top_erl.config.serialize import read_yaml
from top_erl.errors import UserError
from top_erl.experiment.presets import preset

Output = pytest.CaptureFixture[str]
COMMAND = [sys.executable, "-m", "top_erl.cli"]
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Playground:
    return Playground(tmp_path_factory.mktemp("fuzz"))


def _sentence(words: list[str], capsys: Output, code: int = 2) -> str:
    capsys.readouterr()
    assert main(words) == code
    err = capsys.readouterr().err
    assert err.startswith("top-erl: ")
    assert err.count("\n") == 1
    return err


def test_random_command_lines_end_in_a_sentence_at_worst(place: Playground, capsys: Output) -> None:
    """The long version is `make fuzz`."""
    bad = [f"{each.complaint}: {each.words!a}\n{each.err}" for each in outcomes(40, seed=1, place=place)]
    assert not [text for text in bad if not text.startswith(": ")]


# ---------------------------------------------------------------------- numbers


def _numbers() -> Iterator[tuple[str, str, str]]:
    for method in METHODS:
        for name, _, hint in options_of(method.run):
            if hint is float:
                yield from ((method.name, name, text) for text in ("nan", "inf", "-inf", "1e39"))
            elif hint is int:
                yield method.name, name, "9" * 30


def test_every_number_of_every_method_is_looked_at() -> None:
    """NaN, infinity and what no machine holds, for each option: refused when the configuration is made."""
    found = list(_numbers())
    assert len(found) > 300
    configs: dict[str, RunConfig] = {name: preset(name, "top_erl/ViaPointReacher-v0", "laptop") for name, _, _ in found}
    for method, name, text in found:
        with pytest.raises(UserError):
            with_options(configs[method], {name: text})


def test_numbers_are_refused_before_anything_is_made(
    tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for words, sentence in (
        (["--learn.critic-rate", "nan"], "--learn.critic-rate is nan: give it a finite number."),
        (["--threads", "99999999999"], "--threads is 99999999999: give it a whole number of at most 1024."),
        (["--seed", "9" * 40], "--seed is a number of about 40 digits: give it"),
        (["--collect.episodes", "1e30"], "--collect.episodes"),
    ):
        assert sentence in _sentence(["train", *words], capsys)
    assert not list(tmp_path.iterdir())


def test_numbers_of_the_other_commands(place: Playground, capsys: Output) -> None:
    run = place.runs[0]
    assert "--episodes is 99999999999" in _sentence(["evaluate", run, "--episodes=99999999999"], capsys)
    assert "--jobs is 99999999999" in _sentence(["sweep", "box-dense", "--jobs=99999999999"], capsys)
    assert "10000" in _sentence(["sweep", "box-dense", "--seeds=0-99999999999"], capsys)
    assert "--every is nan" in _sentence(["report", run, "--every=nan"], capsys)


def test_presets_pass_their_own_check() -> None:
    for method in METHODS:
        check_values(preset(method.name, "metaworld/reach-v3", "paper"))


# ---------------------------------------------------------------------- names and files


def test_tasks_that_are_none(capsys: Output) -> None:
    for task in ("os:system", "os:abort", "json:JSONDecoder", "subprocess:Popen", "shutil:rmtree"):
        assert f"'{task}' is not a task" in _sentence(["tasks", task], capsys)


def test_a_module_that_cannot_be_imported(tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "quits_at_once.py").write_text("raise SystemExit(7)\n")
    (tmp_path / "misses_a_name.py").write_text("nothing_like_this\n")
    assert "SystemExit: 7" in _sentence(["tasks", "--import", "quits_at_once"], capsys)
    assert "NameError: name 'nothing_like_this'" in _sentence(["tasks", "misses_a_name:Task"], capsys)


def test_words_that_no_option_takes(place: Playground, capsys: Output) -> None:
    run = place.runs[0]
    assert "empty word after --run-dir" in _sentence(["train", "--run-dir", ""], capsys)
    assert "--run-dir is empty" in _sentence(["train", "--run-dir="], capsys)
    assert "longer than 255 bytes" in _sentence(["train", "--run-dir", "x" * 256], capsys)
    assert "control character" in _sentence(["train", "--log.wandb-project", "a\x1b[31m"], capsys)
    assert "not UTF-8" in _sentence(["plot", "run\udcff"], capsys)
    assert "This run's task is tests" in _sentence(["evaluate", run, "--task", "nonsense"], capsys)
    assert "This run's task is tests" in _sentence(["resume", run, "--task", "nonsense"], capsys)
    for device in ("/dev/null", run):
        assert "Cannot write" in _sentence(["evaluate", run, "--json", device], capsys)
    assert not Path("/dev/null").is_file()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("bomb.yaml", "holds more than 1000000 entries"),
        ("loop.yaml", "holds more than 1000000 entries"),
        ("digits.yaml", "is not valid YAML"),
        ("date.yaml", "is not valid YAML"),
        ("deep.yaml", "is not valid YAML"),
        ("bytes.yaml", "is not valid YAML"),
        ("nan.yaml", "--learn.critic-rate is nan"),
        ("pipe", "it is not a file, but a folder or a device"),
        ("empty", "it is not a file, but a folder or a device"),
    ],
)
def test_files_that_are_no_configuration(place: Playground, name: str, sentence: str, capsys: Output) -> None:
    assert sentence in _sentence(["train", "--config", str(place.folder / name)], capsys)


def test_aliases_that_are_few_are_fine(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: &x [1, 2]\nb: *x\nc: [*x, *x]\n")
    assert read_yaml(tmp_path / "a.yaml") == {"a": [1, 2], "b": [1, 2], "c": [[1, 2], [1, 2]]}


# ---------------------------------------------------------------------- logging


def test_wandb_without_a_value_or_the_package(tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "It is one of off, offline, online." in _sentence(["train", "--log.wandb"], capsys)
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "wandb" else find_spec(name, *rest)
    )
    sentence = _sentence(["train", *SMALL, "--log.wandb=offline"], capsys)
    assert "--log.wandb needs the package 'wandb'" in sentence
    assert not list(tmp_path.iterdir())  # no run that cannot go on is left behind


def test_a_run_says_how_to_see_its_events(tmp_path: Path, capsys: Output) -> None:
    pytest.importorskip("tensorboard")
    words = [*(word for word in SMALL if word != "--log.no-tensorboard"), "--total-env-steps=1"]
    assert main(["train", *words, "--run-dir", str(tmp_path / "run")]) == 0
    assert f"tensorboard --logdir {tmp_path}\n" in capsys.readouterr().out


def test_help_names_all_methods_and_that_no_gpu_was_at_hand(capsys: Output) -> None:
    for words in (["train", "--help"], ["train", "--method", "sac", "--help"]):
        with pytest.raises(SystemExit):
            main(words)
        out = " ".join(capsys.readouterr().out.replace("│", " ").split())
        assert ", ".join(method.name for method in METHODS) in out
        assert "No GPU was at hand" in out


# ---------------------------------------------------------------------- faults and streams


def test_a_fault_of_the_program_says_so(tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: object) -> None:
        raise KeyError("a bolt")

    path = tmp_path / "run"
    monkeypatch.setattr("top_erl.experiment.training.Training.advance", fail)
    assert main(["train", *SMALL, "--run-dir", str(path)]) == 70
    err = capsys.readouterr().err
    assert "Traceback (most recent call last)" in err
    last = err.splitlines()[-1]
    assert last.startswith("top-erl: This is a fault of the program")
    assert "KeyError: 'a bolt'" in last
    assert "Nothing that was saved is lost." in last
    assert f"`top-erl resume {path}`" in last


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "/x"), "top-erl: /x: Permission denied. Mend that"),
        (MemoryError(), "top-erl: There is not enough memory for this"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: 9 bytes"), "top-erl: There is not enough memory"),
    ],
)
def test_surroundings_that_are_to_blame(
    error: Exception, sentence: str, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(words: list[str]) -> int:
        raise error

    monkeypatch.setattr("top_erl.cli.show.methods", fail)
    assert _sentence(["methods"], capsys, code=1).startswith(sentence)


def _shell(line: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    variables = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run(["bash", "-c", line], capture_output=True, env=variables, cwd=ROOT, check=False)


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_streams_that_are_closed_full_or_without_letters(place: Playground) -> None:
    command = f"{' '.join(COMMAND)} compare {place.runs[0]} {place.folder / 'other'}"
    closed = _shell(f"{command} >&-")
    assert (closed.returncode, closed.stderr) == (0, b"")
    ascii_only = _shell(command, PYTHONIOENCODING="ascii", LC_ALL="C")
    assert (ascii_only.returncode, ascii_only.stderr) == (0, b"")
    assert ascii_only.stdout.isascii()
    full = _shell(f"{command} > /dev/full")
    assert full.returncode == 1
    assert full.stderr.startswith(b"top-erl: ")
    assert b"No space left on device" in full.stderr
    assert full.stderr.count(b"\n") == 1
    sentence = _shell(f"{' '.join(COMMAND)} train --log.wandb", PYTHONIOENCODING="ascii", LC_ALL="C").stderr.decode()
    assert sentence.startswith(
        "top-erl: Missing value for argument '--log.wandb'. Expected 1 values. It is one of off, "
    )


def test_the_first_ctrl_c_says_what_it_does(tmp_path: Path) -> None:
    words = [*SMALL, "--total-env-steps=100000000", "--run-dir", str(tmp_path / "run")]
    with subprocess.Popen(
        [*COMMAND, "train", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("iteration"):
                break
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
    assert process.returncode == 130
    assert "Ctrl-C again breaks off at once." in rest
    assert "Finishing iteration" in rest
    assert "top-erl resume" in rest
