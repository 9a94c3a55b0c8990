"""Every method trains and resumes, on all families of tasks, through the same command, folder and numbers."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.torch import load_file

from top_erl.algorithms.registry import METHODS, find_method
from top_erl.cli import main
from top_erl.config.run import HardwareConfig
from top_erl.errors import UserError
from top_erl.experiment.callbacks import FunctionCallback
from top_erl.experiment.configs import load_config
from top_erl.experiment.folder import RunFolder
from top_erl.experiment.metrics_file import Row, read_metrics
from top_erl.experiment.presets import preset
from top_erl.experiment.run import run_training
from top_erl.experiment.training import Training
from top_erl.seeding import episode_seeds
from top_erl.tasks import make_task

NAMES = [method.name for method in METHODS]
REACHER = "top_erl/ViaPointReacher-v0"
TASKS = (REACHER, "top_erl/BoxPushingDense-v0", "top_erl/HopperJumpSparse-v0", "metaworld/reach-v3")
CASES = [
    *((method, task) for method in NAMES for task in TASKS[:2]),
    *((method, TASKS[2]) for method in ("top_erl", "bbrl_cov", "ppo", "sac")),
    *((method, TASKS[3]) for method in ("top_erl", "gsde")),
]
"""Every method on two families; where episodes are long, one method of each kind."""
ITERATIONS, EPISODES = 3, 2
COMMON = (
    *("--evaluation.episodes=2", "--evaluation.interval=100", "--checkpoint.interval=1"),
    *("--log.no-tensorboard", "--threads=1", "--workers=0"),
)
ON_POLICY = ("--collect.episodes=2", "--learn.critic-epochs=2", "--learn.policy-epochs=2")
STEPS = ("--collect.environments=2", "--collect.steps={steps}")
SHORT: dict[str, tuple[str, ...]] = {
    "top_erl": (
        *("--collect.prefill=2", "--collect.episodes=2", "--learn.batch-size=4"),
        *("--learn.critic-steps=2", "--learn.policy-steps=2", "--learn.policy-start=1"),
    ),
    "tce": ON_POLICY,
    "bbrl_cov": ON_POLICY,
    "bbrl_std": ON_POLICY,
    "ppo": (*STEPS, "--learn.batch-size=50", "--learn.epochs=2"),
    "gsde": (*STEPS, "--learn.batch-size=50", "--learn.epochs=2"),
    "gtrxl": (*STEPS, "--learn.batch-size=50", "--learn.epochs=1", "--network.layers=1"),
    "sac": (*STEPS, "--learn.update-every=50", "--learn.gradient-steps=1", "--learn.learning-starts=50"),
    "pink": (*STEPS, "--learn.update-every=50", "--learn.gradient-steps=1", "--learn.learning-starts=50"),
    "t_sac": (
        *(*STEPS, "--learn.batch-size=3", "--learn.calls=2", "--learn.critic-starts=2", "--learn.policy-starts=2"),
        *("--learn.policy-start=0", "--learn.entropy-start=5"),
    ),
}
"""Options that shrink the laptop preset of each method to a second or two."""
TIMES = {"wall_time", "steps_per_second"}


def _words(method: str, task: str, path: Path) -> list[str]:
    horizon = make_task(task).spec.horizon
    episodes = EPISODES * ITERATIONS + (2 if method == "top_erl" else 0)
    options = [option.format(steps=EPISODES * horizon) for option in SHORT[method]]
    start = ["train", f"--method={method}", f"--task={task}", f"--run-dir={path}"]
    return [*start, *COMMON, *options, f"--total-env-steps={episodes * horizon}"]


def _numbers(path: Path) -> list[Row]:
    rows = read_metrics(path / "metrics.csv")
    return [{name: value for name, value in row.items() if name not in TIMES} for row in rows]


@pytest.mark.parametrize(("method", "task"), CASES)
def test_a_method_trains_and_resumes(method: str, task: str, tmp_path: Path) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert main(_words(method, task, whole)) == 0
    spec, rows = make_task(task).spec, _numbers(whole)
    assert [row["iteration"] for row in rows] == [1, 2, 3]
    before = 2 if method == "top_erl" else 0
    assert [row["episodes"] for row in rows] == [before + EPISODES * i for i in (1, 2, 3)]
    assert all(row["env_steps"] == row["episodes"] * spec.horizon for row in rows)
    scores = {f"{prefix}_{name}" for prefix in ("evaluation", "exploration") for name in ("return", *spec.metrics)}
    assert scores <= set(rows[0]) & set(rows[-1])
    assert all(math.isfinite(value) for row in rows for value in row.values())
    assert {"critic_loss", "policy_loss"} <= set(rows[-1])

    training, folder = Training(load_config(whole / "config.yaml")), RunFolder(stopped)
    folder.create(training)
    try:
        run_training(training, folder, FunctionCallback(lambda row: False))  # enough after the first iteration
    finally:
        training.close()
    assert main(["resume", str(stopped)]) == 0
    assert _numbers(stopped) == rows
    for file in ("state.safetensors", "replay.safetensors"):
        mine, theirs = (load_file(path / "checkpoints" / f"{ITERATIONS:08d}" / file) for path in (stopped, whole))
        assert mine.keys() == theirs.keys()
        assert all(mine[key].numpy().tobytes() == tensor.numpy().tobytes() for key, tensor in theirs.items())


@pytest.mark.parametrize("method", NAMES)
def test_all_methods_are_evaluated_on_the_same_contexts_and_as_often(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs = [preset(name, REACHER, "laptop", seed=3) for name in ("top_erl", method)]
    assert configs[0].evaluation.episodes == configs[1].evaluation.episodes
    every = [
        config.evaluation.interval * config.hyper_parameters.episodes_per_iteration(50) for config in configs
    ]  # episodes of training between evaluations
    assert every[1] == pytest.approx(every[0], rel=0.3)
    training = Training(replace(configs[1], hardware=HardwareConfig(threads=1, workers=0)))
    played: list[int] = []
    monkeypatch.setattr(training.learner, "evaluate", played.extend)
    training.evaluate(4)
    training.close()
    assert played == episode_seeds(3, "evaluation", 0, 4)


@pytest.mark.parametrize("method", NAMES)
def test_a_trained_policy_is_evaluated_and_filmed(
    method: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert main(_words(method, REACHER, run)) == 0
    capsys.readouterr()
    film = tmp_path / "film.gif"
    words = ["evaluate", str(run), "--episodes=3", "--video-episodes=1", "--video", str(film)]
    assert main([*words, "--json", str(tmp_path / "numbers.json")]) == 0
    assert "3 fresh episodes" in capsys.readouterr().out
    assert film.stat().st_size > 10_000
    packages = json.loads((run / "fingerprint.json").read_text())["packages"]
    assert set(find_method(method).packages) == {"stable-baselines3", "pink-noise-rl"} & set(packages)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--method=bbrl"], "did you mean 'bbrl"),
        (["--method=sac", "--networks.noise=pink"], "or use --method pink"),
        (["--method=bbrl_std", "--policy.covariance=full"], "or use --method bbrl_cov"),
        (["--method=sac", "--primitive.num-basis=3"], "Unknown option"),
        (["--method=ppo", "--precision=bf16"], "ppo has no matrix products in bf16, only top_erl has"),
        (["--method=tce", "--learn.critic-steps=3"], "--learn.critic-epochs"),
    ],
)
def test_mistakes_are_told(words: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", *words, f"--run-dir={tmp_path / 'run'}"]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert "Traceback" not in error
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("method", [method.name for method in METHODS if method.packages])
def test_a_missing_extra_names_its_command(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install -c constraints.txt -e '.\[baselines\]'"):
        find_method(method).build(preset(method, REACHER, "laptop"), None)
