"""The `top-erl` command: it teaches, it checks, and its mistakes are one sentence."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.experiment.variations import SMALL
from top_erl.cli import main
from top_erl.cli.parsing import option_value
from top_erl.config.serialize import write_yaml
from top_erl.errors import UserError
from top_erl.experiment.configs import load_config
from top_erl.experiment.metrics_file import read_metrics
from top_erl.experiment.presets import preset

STEPS = f"--total-env-steps={6 * (4 + 4 * 3)}"  # 4 iterations
COMMANDS = [
    "train",
    "resume",
    "evaluate",
    "inspect",
    "export",
    "plot",
    "sweep",
    "status",
    "report",
    "compare",
    "tasks",
    "methods",
]

Output = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run; tests that change it take a copy."""
    path = tmp_path_factory.mktemp("cli") / "run"
    assert main(["train", *SMALL, STEPS, "--run-dir", str(path)]) == 0
    return path


def _numbers(path: Path) -> list[dict[str, float]]:
    rows = read_metrics(path / "metrics.csv")
    return [{name: row[name] for name in row if name not in ("wall_time", "steps_per_second")} for row in rows]


# ---------------------------------------------------------------------- train and resume


def test_train_says_what_it_does_and_what_to_do_next(tmp_path: Path, capsys: Output) -> None:
    path = tmp_path / "a [long] name with spaces, " / ("x" * 100)
    assert main(["train", *SMALL, STEPS, "--run-dir", str(path), "--seed=3"]) == 0
    out = capsys.readouterr().out
    first = "top_erl on tests.rollout.toy_tasks:ToyTask, seed 3: 4 iterations\n1 thread(s), no worker(s), into "
    assert out.startswith(f"{first}{path}\n")  # the path on one line, and with its brackets
    assert out.endswith(f"Try it on fresh contexts: top-erl evaluate '{path}' --task tests.rollout.toy_tasks:ToyTask\n")
    assert "iteration     1/4" in out
    assert (path / "curves.png").stat().st_size > 1000
    assert {file.name for file in path.iterdir()} == {
        *("config.yaml", "fingerprint.json", "metrics.csv", "checkpoints", "curves.png", "status.json", ".lock"),
        "best",
    }
    assert load_config(path / "config.yaml").seed == 3


def test_train_makes_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("top_erl-tests_rollout_toy_tasks_ToyTask-seed0", "top_erl-tests_rollout_toy_tasks_ToyTask-seed0-2"):
        assert main(["train", *SMALL, "--total-env-steps=1"]) == 0
        assert (tmp_path / "runs" / name / "metrics.csv").exists()


def test_options_can_be_spelled_in_several_ways(tmp_path: Path, capsys: Output) -> None:
    words = ["--learn.batch_size", "5", "--learn.critic-steps=1", "--log.no-tensorboard", "--policy.hidden", "7", "6"]
    assert main(["train", *SMALL, "--total_env_steps=1", *words, f"--run_dir={tmp_path / 'run'}"]) == 0
    config = load_config(tmp_path / "run" / "config.yaml")
    assert (config.algorithm.learn.batch_size, config.algorithm.learn.critic_steps) == (5, 1)
    assert config.algorithm.policy.hidden == (7, 6)


def test_options_start_from_the_preset_of_scale_and_task(capsys: Output) -> None:
    for scale in ("laptop", "paper"):
        with pytest.raises(SystemExit) as stop:
            main(["train", "--scale", scale, "--help"])
        assert not stop.value.code
        width = preset("top_erl", "top_erl/ViaPointReacher-v0", scale).algorithm.critic.width
        assert f"(default: {width})" in capsys.readouterr().out


def test_a_configuration_repeats_a_run(run: Path, tmp_path: Path, capsys: Output) -> None:
    assert main(["train", "--config", str(run / "config.yaml"), "--run-dir", str(tmp_path / "again")]) == 0
    assert _numbers(tmp_path / "again") == _numbers(run)
    assert (tmp_path / "again" / "config.yaml").read_text() == (run / "config.yaml").read_text()
    other = ["--config", str(run / "config.yaml"), "--seed=1", "--run-dir", str(tmp_path / "other")]
    assert main(["train", *other]) == 0  # and options change it
    assert _numbers(tmp_path / "other") != _numbers(run)


def test_without_a_trust_region_the_bound_on_the_entropy_goes_too(run: Path, tmp_path: Path, capsys: Output) -> None:
    data = load_config(run / "config.yaml").to_dict()
    data["algorithm"]["trust_region"]["entropy"] = "linear"
    write_yaml(tmp_path / "bounded.yaml", data)
    words = ["train", "--config", str(tmp_path / "bounded.yaml"), *SMALL[:2], "--total-env-steps=30"]

    def entropy(name: str, *options: str) -> str:
        assert main([*words, "--run-dir", str(tmp_path / name), *options]) == 0
        config: Any = load_config(tmp_path / name / "config.yaml")
        assert config.algorithm.trust_region.projection == "none"
        return str(config.algorithm.trust_region.entropy)

    remark = "There is no trust region, but the entropy keeps its lower bound (linear).\n"
    assert entropy("off", "--trust_region.projection=none") == "none"
    assert remark not in capsys.readouterr().out
    assert entropy("kept", "--trust-region.entropy=linear", "--trust-region.projection", "none") == "linear"
    assert remark in capsys.readouterr().out


def test_a_run_says_how_long_its_fixed_segments_are(tmp_path: Path, capsys: Output) -> None:
    options = ["--segments.kind=fixed_length", "--segments.fraction=0.4", "--total-env-steps=30"]
    assert main(["train", *SMALL, "--run-dir", str(tmp_path / "run"), *options]) == 0
    assert "\nSegments have 1 of 3 tokens: 33.3 %, not 40 %.\n" in capsys.readouterr().out


def test_the_help_names_what_gives_25_segments(capsys: Output) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "segments.kind fixed_count" in line]
    assert "--segments.count 25" in line


def test_resume_a_finished_run_and_extend_it(run: Path, tmp_path: Path, capsys: Output) -> None:
    path = Path(shutil.copytree(run, tmp_path / "copy"))
    assert main(["resume", str(path)]) == 0
    assert "This run is complete; --total-env-steps trains it further." in capsys.readouterr().out
    assert main(["resume", str(path), "--total-env-steps", str(6 * (4 + 6 * 3))]) == 0
    assert "going on after iteration 4 of 6" in capsys.readouterr().out
    assert _numbers(path)[:3] == _numbers(run)[:3]
    assert len(_numbers(path)) == 6


def test_resume_on_another_device(run: Path, tmp_path: Path, capsys: Output) -> None:
    path = Path(shutil.copytree(run, tmp_path / "copy"))
    assert main(["resume", str(path), "--device", "nonsense"]) == 2
    assert "The device 'nonsense' cannot be used here" in capsys.readouterr().err
    assert main(["resume", str(path), "--device", "cpu"]) == 0


def test_resume_falls_back_when_asked_to(run: Path, tmp_path: Path, capsys: Output) -> None:
    path = Path(shutil.copytree(run, tmp_path / "copy"))
    (path / "checkpoints" / "00000004" / "replay.safetensors").write_bytes(b"broken")
    assert main(["resume", str(path)]) == 2
    assert "Add --previous to fall back" in capsys.readouterr().err
    assert main(["resume", str(path), "--previous"]) == 0
    assert _numbers(path) == _numbers(run)


def test_a_diverged_run_says_so_in_one_sentence(tmp_path: Path, capsys: Output) -> None:
    words = [*SMALL, STEPS, "--learn.critic-rate=1e30", "--run-dir", str(tmp_path / "run")]
    assert main(["train", *words]) == 1
    out, err = capsys.readouterr()
    assert re.match(r"top-erl: Training diverged in iteration 1: critic step 2 diverged: its loss is .* The batch", err)
    assert err.count("\n") == 1
    assert "top-erl resume" not in out  # it would repeat the divergence
    assert "train anew with a smaller rate" in err
    assert "--learn.critic-rate 3e+29" in err


def test_a_task_that_fails_in_a_worker(tmp_path: Path, capsys: Output) -> None:
    words = [*SMALL, "--task=tests.rollout.toy_tasks:Complains", "--workers=1"]
    assert main(["train", *words, "--run-dir", str(tmp_path / "run")]) == 1
    assert capsys.readouterr().err == "top-erl: Plug in the robot.\n"


def test_training_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    monkeypatch.setattr("top_erl.cli.runs.plotting_available", lambda: False)
    assert main(["train", *SMALL, STEPS, "--run-dir", str(tmp_path / "run")]) == 0
    assert "Learning curves" not in capsys.readouterr().out
    assert not (tmp_path / "run" / "curves.png").exists()


# ---------------------------------------------------------------------- the other commands


def test_evaluate(run: Path, tmp_path: Path, capsys: Output) -> None:
    file = tmp_path / "numbers.json"
    assert main(["evaluate", str(run), "--episodes=5", "--json", str(file)]) == 0
    out = capsys.readouterr().out
    assert "toy: 5 fresh episodes after 96 steps" in out
    assert all(word in out for word in ("mean", "median", "return", "success", "last"))
    numbers = json.loads(file.read_text())
    assert numbers["failed_episodes"] == 0
    assert all(len(numbers[name]) == 5 for name in ("return", "success", "last"))
    for seed in ("0", "1"):
        assert main(["evaluate", str(run), "--episodes=5", "--seed", seed, "--json", str(tmp_path / seed)]) == 0
    assert json.loads((tmp_path / "0").read_text()) == numbers
    assert json.loads((tmp_path / "1").read_text()) != numbers


@pytest.mark.parametrize("suffix", ["png", "pdf", "svg"])
def test_plot_several_seeds(run: Path, tmp_path: Path, capsys: Output, suffix: str) -> None:
    other = Path(shutil.copytree(run, tmp_path / "other"))
    text = (other / "config.yaml").read_text()
    (other / "config.yaml").write_text(text.replace("seed: 0", "seed: 1"))
    output = tmp_path / f"all.{suffix}"
    assert main(["plot", str(run), str(other), "--output", str(output)]) == 0
    assert capsys.readouterr().out == f"wrote {output}\n"
    assert output.stat().st_size > 1000


def test_plot_writes_a_file_of_its_own(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.chdir(tmp_path)
    empty = tmp_path / "empty"
    empty.mkdir()
    shutil.copy(run / "config.yaml", empty)
    before = (run / "curves.png").read_bytes()
    assert main(["plot", str(run), str(run), str(empty)]) == 0
    assert capsys.readouterr().out == (
        f"left out: {empty} has no numbers yet (metrics.csv is missing or empty)\nwrote learning_curves.png\n"
    )
    assert (tmp_path / "learning_curves.png").stat().st_size > 1000
    assert (run / "curves.png").read_bytes() == before


def test_tasks(capsys: Output) -> None:
    assert main(["tasks"]) == 0
    assert "top_erl/ViaPointReacher-v0" in capsys.readouterr().out
    assert main(["tasks", "top_erl/ViaPointReacher-v0"]) == 0
    out = capsys.readouterr().out
    assert all(word in out for word in ("success rule", "within 0.1 m", "via_distance", "(12, 13, 14, 15)"))
    assert main(["tasks", "tests.rollout.toy_tasks:ToyTask"]) == 0
    assert "all" in capsys.readouterr().out


def test_methods(capsys: Output) -> None:
    for words in (["methods"], ["methods", "--help"]):
        assert main(words) == 0
        assert "top_erl" in capsys.readouterr().out


def test_help_and_version(capsys: Output) -> None:
    for words in ([], ["--help"], ["-h"], ["help"]):
        assert main(words) == 0
        out = capsys.readouterr().out
        assert all(f"top-erl {command}" in out for command in COMMANDS)
    assert main(["--version"]) == 0
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("train", ["--task", "--seed", "--learn.critic-rate", "--collect.overlap", "--run-dir", "--config"]),
        ("resume", ["--previous", "--total-env-steps", "--workers"]),
        ("evaluate", ["--episodes", "--seed", "--json"]),
        ("plot", ["--output"]),
        ("tasks", ["TASK"]),
    ],
)
def test_help_of_a_command_teaches(command: str, options: list[str], capsys: Output) -> None:
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert not stop.value.code
    out = capsys.readouterr().out
    assert f"usage: top-erl {command}" in out
    for option in options:
        assert option.lower() in out.lower()


# ---------------------------------------------------------------------- mistakes


def _mistake(words: list[str], capsys: Output) -> str:
    """The sentence about a mistake: exit code 2, one line, no traceback."""
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("top-erl: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return err.removeprefix("top-erl: ").rstrip("\n")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("trian", "Unknown command 'trian'; did you mean 'train'?"),
        ("--sead 1", "Unknown command '--sead'"),
        ("train --lern.critic-rate 1", "Unknown option '--lern.critic-rate'; did you mean '--learn.critic-rate'?"),
        ("train --learn.critic_raet=1", "Unknown option '--learn.critic-raet'; did you mean '--learn.critic-rate'?"),
        ("train --task ViaPointReacher", "did you mean 'top_erl/ViaPointReacher-v0'?"),
        ("train --task=nowhere:Task", "Cannot import the task 'nowhere:Task' from module 'nowhere'"),
        ("train --method toperl", "Unknown method 'toperl'; did you mean 'top_erl'?"),
        ("train --scale=papr", "Unknown scale 'papr'; did you mean 'paper'?"),
        ("train --learn.critic-rate fast", "--learn.critic-rate takes a number, not 'fast'"),
        ("train --log.wandb maybe", "invalid choice 'maybe' for argument '--log.wandb'"),
        ("train --seed", "Missing value for argument '--seed'"),
        ("train --policy.hidden 3 x", "--policy.hidden"),
        ("train extra", "Unrecognized options: extra"),
        ("train -x", "Unrecognized options: -x"),
        ("train --critic.width 63", "critic.width (63) must be a multiple of critic.heads (4)."),
        ("train --collect.stride=3", "collect.stride (3) must divide the task's horizon (50 steps)"),
        ("train --seed=-1", "seed must not be negative."),
        ("train --total-env-steps 0", "total_env_steps must be at least 1."),
        ("train --device abacus", "The device 'abacus' cannot be used here"),
        ("train --device meta", "The device 'meta' cannot be used here"),
        ("train --config missing.yaml", "There is no file missing.yaml."),
        ("resume", "Missing from top-erl resume"),
        ("resume missing", "missing is not a run folder (it has no config.yaml)."),
        ("evaluate missing", "missing is not a run folder"),
        ("plot", "Name at least one run folder"),
        ("plot missing", "missing is not a run folder"),
        ("tasks ViaPoint", "Unknown task 'ViaPoint'"),
        ("methods all", "top-erl methods takes no options."),
    ],
)
def test_mistakes_are_one_sentence(
    words: str, sentence: str, capsys: Output, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert sentence in _mistake(words.split(), capsys)
    assert not list(tmp_path.iterdir())  # nothing was begun


def test_mistakes_with_a_run(run: Path, tmp_path: Path, capsys: Output) -> None:
    capsys.readouterr()
    assert "holds a run already" in _mistake(["train", *SMALL, "--run-dir", str(run)], capsys)
    for bad in ("--episodes=0", "--episodes=-3", "--seed=-1"):
        assert bad.partition("=")[0] in _mistake(["evaluate", str(run), bad], capsys)
    assert "Cannot write" in _mistake(["plot", str(run), "--output", str(tmp_path / "no" / "a.png")], capsys)
    assert "Format 'xyz' is not supported" in _mistake(["plot", str(run), "--output", "a.xyz"], capsys)
    main(["evaluate", str(run), "--episodes=1", "--json", str(tmp_path / "no" / "a.json")])
    assert capsys.readouterr().err.startswith("top-erl: Cannot write")
    (tmp_path / "empty").mkdir()
    shutil.copy(run / "config.yaml", tmp_path / "empty")
    assert "has no numbers yet" in _mistake(["plot", str(tmp_path / "empty")], capsys)
    assert "has no checkpoint yet" in _mistake(["evaluate", str(tmp_path / "empty")], capsys)
    file = tmp_path / "file"
    file.write_text("in the way")
    assert "Cannot make the run folder" in _mistake(["train", *SMALL, f"--run-dir={file / 'run'}"], capsys)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("sead: 1", "Unknown configuration entry 'sead'; did you mean 'seed'?"),
        ("seed: [", "is not valid YAML"),
        ("", "should be a mapping, not None"),
        ("algorithm: {critic: {width: 63}}", "critic.width (63) must be a multiple"),
    ],
)
def test_bad_configuration_files(text: str, sentence: str, tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "config.yaml").write_text(text)
    assert sentence in _mistake(["train", "--config", str(tmp_path / "config.yaml")], capsys)


def test_plot_without_matplotlib(run: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    capsys.readouterr()
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "matplotlib" else find_spec(name))
    assert "pip install -c constraints.txt -e '.[report]'" in _mistake(["plot", str(run)], capsys)


@pytest.mark.parametrize(
    ("error", "code", "printed"),
    [
        (UserError("Do this."), 2, "top-erl: Do this.\n"),
        (KeyboardInterrupt(), 130, "top-erl: interrupted; what was saved before is intact (top-erl resume RUN).\n"),
        (BrokenPipeError(), 0, ""),
    ],
)
def test_exit_codes(
    error: BaseException, code: int, printed: str, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(words: list[str]) -> int:
        raise error

    monkeypatch.setattr("top_erl.cli.show.methods", fail)
    assert main(["methods"]) == code
    assert capsys.readouterr().err == printed


def test_the_last_of_an_option_counts() -> None:
    assert option_value(["--task", "a", "--task=b"], "task", "c") == "b"
    assert option_value(["--task=a", "--task", "b"], "task", "c") == "b"
    assert option_value(["--tasks=a", "--task"], "task", "c") == "c"


def test_the_installed_command(tmp_path: Path) -> None:
    command = Path(sys.executable).with_name("top-erl")
    if not command.exists():
        pytest.skip("the package is not installed beside this Python")
    done = subprocess.run([command, "trian"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "top-erl: Unknown command 'trian'; did you mean 'train'?\n"
    module = subprocess.run(
        [sys.executable, "-m", "top_erl.cli", "--version"], capture_output=True, text=True, check=False
    )
    assert module.returncode == 0
