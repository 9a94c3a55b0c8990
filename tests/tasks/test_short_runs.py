"""TOP-ERL really trains on the paper's tasks: a few iterations each, from the command line to the numbers on disk."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import pytest
from safetensors.torch import load_file

from top_erl.cli import main
from top_erl.experiment.callbacks import FunctionCallback
from top_erl.experiment.configs import load_config
from top_erl.experiment.folder import RunFolder
from top_erl.experiment.metrics_file import Row, read_metrics
from top_erl.experiment.run import run_training
from top_erl.experiment.training import Training

PREFILL, EPISODES, ITERATIONS = 4, 2, 3
SHORT = [
    f"--collect.prefill={PREFILL}",
    f"--collect.episodes={EPISODES}",
    "--learn.batch-size=4",
    "--learn.critic-steps=2",
    "--learn.policy-steps=2",
    "--learn.policy-start=1",
    "--evaluation.episodes=2",
    "--evaluation.interval=100",  # so the first and the last iteration only
    "--log.no-tensorboard",
    "--device=cpu",
    "--threads=1",
    "--workers=0",
]
"""Options that shrink the laptop preset to a few seconds."""
TIMES = {"wall_time", "steps_per_second"}
COUNTERS = {"iteration", "episodes", "env_steps"}
LEARNING = {
    *("critic_loss", "critic_value", "critic_target"),
    *("policy_loss", "policy_objective", "trust_region_loss"),
    *("entropy", "kl_to_anchor", "mean_projected", "covariance_projected"),
}


@dataclass(frozen=True)
class Expected:
    """What the runs of a family of tasks must look like."""

    horizon: int
    metrics: tuple[str, ...]
    least: float
    """No episode's return is smaller."""
    most: float


SUCCESS = ("success", "success_any")
BOX = Expected(100, (*SUCCESS, "box_goal_pos_dist", "box_goal_rot_dist", "episode_energy"), -math.inf, 0.0)
HOPPER = Expected(250, ("max_height", "goal_dist", "landing_dist", "has_left_floor", "healthy"), -100.0, 100.0)
METAWORLD = Expected(500, (*SUCCESS, "obj_to_target"), 0.0, 500 * 10.0)  # Meta-World pays 0 to 10 a step
TASKS = {
    "top_erl/BoxPushingDense-v0": BOX,
    "top_erl/BoxPushingSparse-v0": BOX,
    "top_erl/HopperJumpSparse-v0": HOPPER,
    "metaworld/reach-v3": METAWORLD,
    "metaworld/pick-place-v3": METAWORLD,
}
DENSE, HOPPER_SPARSE = "top_erl/BoxPushingDense-v0", "top_erl/HopperJumpSparse-v0"


def _words(task: str, path: Path) -> list[str]:
    steps = TASKS[task].horizon * (PREFILL + ITERATIONS * EPISODES)
    return ["train", f"--task={task}", *SHORT, f"--total-env-steps={steps}", f"--run-dir={path}"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of the runs that have been made, by task; each is made once."""
    folder = tmp_path_factory.mktemp("runs")

    class Runs(dict[str, Path]):
        def __missing__(self, task: str) -> Path:
            path = folder / task.replace("/", "_")
            assert main(_words(task, path)) == 0
            self[task] = path
            return path

    return Runs()


def _numbers(path: Path) -> list[Row]:
    """All numbers of a run but the times."""
    rows = read_metrics(path / "metrics.csv")
    return [{name: value for name, value in row.items() if name not in TIMES} for row in rows]


def _assert_same_run(found: Path, expected: Path) -> None:
    """All numbers but the times, and everything that is saved, are the same to the last bit."""
    assert _numbers(found) == _numbers(expected)
    for file in ("state.safetensors", "replay.safetensors"):
        mine, theirs = (load_file(path / "checkpoints" / f"{ITERATIONS:08d}" / file) for path in (found, expected))
        assert mine.keys() == theirs.keys()
        for key, tensor in theirs.items():
            assert mine[key].numpy().tobytes() == tensor.numpy().tobytes(), key


@pytest.mark.parametrize("task", TASKS)
def test_a_short_run(task: str, runs: dict[str, Path]) -> None:
    expected = TASKS[task]
    rows = _numbers(runs[task])
    scores = {f"exploration_{name}" for name in ("return", *expected.metrics)}
    evaluation = {f"evaluation_{name}" for name in ("return", *expected.metrics)}
    assert all(COUNTERS | scores | LEARNING <= set(row) for row in rows)
    assert [evaluation <= set(row) for row in rows] == [True, False, True]
    assert all(math.isfinite(value) for row in rows for value in row.values())
    for iteration, row in enumerate(rows, start=1):
        episodes = PREFILL + iteration * EPISODES
        assert (row["iteration"], row["episodes"], row["env_steps"]) == (
            iteration,
            episodes,
            episodes * expected.horizon,  # control steps, whatever the stride of the stored tokens
        )
        assert expected.least <= row["exploration_return"] <= expected.most
        assert row["critic_loss"] > 0.0
    assert rows[0]["entropy"] != rows[-1]["entropy"]  # the policy has moved


@pytest.mark.parametrize("task", TASKS)
def test_metrics_mean_what_they_say(task: str, runs: dict[str, Path]) -> None:
    expected = TASKS[task]
    for row in _numbers(runs[task]):
        for prefix in ("exploration", "evaluation") if "evaluation_return" in row else ("exploration",):
            numbers = {name: row[f"{prefix}_{name}"] for name in expected.metrics}
            for name in {*SUCCESS, "has_left_floor", "healthy"} & set(numbers):
                assert numbers[name] in (0.0, 0.5, 1.0)  # two episodes
            assert numbers.get("success_any", 0.0) >= numbers.get("success", 0.0)
            assert all(value >= 0.0 for value in numbers.values())
            if expected is HOPPER:
                assert 1.49 < numbers["max_height"] < 5.0  # it is dropped from 1.5 m
                assert numbers["landing_dist"] <= 5.0
            elif expected is BOX:
                assert numbers["box_goal_pos_dist"] < 2.0
                assert numbers["box_goal_rot_dist"] <= math.pi
                assert 0.0 < numbers["episode_energy"] <= 100 * 7 * 10.0**2  # steps, joints, squared torques


@pytest.mark.parametrize("task", TASKS)
def test_returns_reach_the_critic_whole_and_scaled_down(task: str, runs: dict[str, Path]) -> None:
    collect = load_config(runs[task] / "config.yaml").algorithm.collect
    steps = load_file(runs[task] / "checkpoints" / f"{ITERATIONS:08d}" / "replay.safetensors")["steps"]
    assert steps.shape[:2] == (PREFILL + ITERATIONS * EPISODES, TASKS[task].horizon // collect.stride)
    returns = steps[..., -1].double().sum(-1)  # the reward is the last entry of a stored step
    explored = _numbers(runs[task])[-1]["exploration_return"]  # as the environment pays it
    shifted = explored + TASKS[task].horizon * collect.reward_shift
    assert returns[-EPISODES:].mean().item() == pytest.approx(shifted * collect.reward_scale, rel=1e-5)
    assert returns.abs().max() > 0.0
    if collect.reward_spread is None:  # else they are brought to a size of their own when the critic sees them
        assert returns.abs().max() < 250.0


def test_stopped_and_resumed(runs: dict[str, Path], tmp_path: Path) -> None:
    whole = runs[HOPPER_SPARSE]
    training, folder = Training(load_config(whole / "config.yaml")), RunFolder(tmp_path / "stopped")
    folder.create(training)
    try:
        run_training(training, folder, FunctionCallback(lambda row: False))  # enough after the first iteration
    finally:
        training.close()
    assert len(_numbers(folder.path)) == 1
    assert main(["resume", str(folder.path)]) == 0
    _assert_same_run(folder.path, whole)


@pytest.mark.parametrize("task", [DENSE, "metaworld/reach-v3"])
def test_a_worker_process_plays_the_same_episodes(task: str, runs: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "worker"
    assert main([*_words(task, path), "--workers=1"]) == 0
    _assert_same_run(path, runs[task])
