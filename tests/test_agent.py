"""The agent: three lines, and what can be done with it."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from top_erl import GymnasiumTask, RunConfig, TopErl, make_task, preset
from top_erl.cli import main
from top_erl.config.run import HardwareConfig
from top_erl.errors import UserError
from top_erl.experiment.metrics_file import read_metrics
from top_erl.tasks import PrimitiveConfig

REACHER = "top_erl/ViaPointReacher-v0"
POINT = "tests.rollout.toy_tasks:PointTask"


@pytest.fixture(scope="module")
def reacher() -> TopErl:
    """An untrained agent."""
    return TopErl(REACHER, seed=0)


def _observation(seed: int = 1) -> np.ndarray:
    return make_task(REACHER).begin([seed]).observation[0]


def _same_tensors(first: TopErl, second: TopErl) -> bool:
    mine, theirs = first.training.checkpoint(), second.training.checkpoint()
    same = mine.progress.iteration == theirs.progress.iteration
    for name in ("state", "replay"):
        left, right = getattr(mine, name), getattr(theirs, name)
        same = same and left.keys() == right.keys() and all(torch.equal(left[key], right[key]) for key in left)
    return same


def test_predict_gives_a_reference(reacher: TopErl) -> None:
    observation = _observation()
    reference = reacher.predict(observation)
    assert reference.position.shape == reference.velocity.shape == (50, 5)
    assert not reference.position.requires_grad
    # The movement starts where the arm is, at the speed it has: the first step differs by velocity times dt or less.
    start = torch.from_numpy(observation[:5])
    assert (reference.position[0] - start).abs().max() < 0.02
    assert torch.equal(reacher.predict(observation.tolist()).position, reference.position)  # lists will do


def test_predict_a_batch(reacher: TopErl) -> None:
    observations = np.stack([_observation(seed) for seed in (1, 2, 3)])
    reference = reacher.predict(observations)
    assert reference.position.shape == reference.velocity.shape == (3, 50, 5)
    one = reacher.predict(observations[1])
    torch.testing.assert_close(reference.position[1], one.position, rtol=0, atol=1e-6)


def test_predict_from_another_state(reacher: TopErl) -> None:
    observation = _observation()
    as_observed = reacher.predict(observation)
    for position, velocity in ((np.ones(5), None), (None, np.ones(5)), (np.ones(5), np.ones(5))):
        reference = reacher.predict(observation, position, velocity)
        step = reference.position[0] - (torch.from_numpy(observation[:5]) if position is None else 1.0)
        speed = 0.0 if velocity is None else 0.02 * 1.0
        assert (step - speed).abs().max() < 0.01
        assert not torch.equal(reference.position, as_observed.position)


def test_predict_samples(reacher: TopErl) -> None:
    observation = _observation()
    mean = reacher.predict(observation)
    first, again, other = (
        reacher.predict(observation, deterministic=False, generator=torch.Generator().manual_seed(seed))
        for seed in (1, 1, 2)
    )
    assert torch.equal(first.position, again.position)
    assert not torch.equal(first.position, other.position)
    assert not torch.equal(first.position, mean.position)


@pytest.mark.parametrize("shape", [(15,), (17,), (), (2, 15), (2, 3, 16)])
def test_predict_refuses_other_shapes(reacher: TopErl, shape: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match=r"has observations of 16 entries, not shape \("):
        reacher.predict(np.zeros(shape))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_predict_refuses_what_is_not_finite(reacher: TopErl, bad: float) -> None:
    observation, here, there = _observation(), np.zeros(5), np.array([0.0, 0.0, bad, 0.0, 0.0])
    word = "NaN" if np.isnan(bad) else "infinity"
    with pytest.raises(UserError, match=f"The observation for {REACHER} holds {word}"):
        reacher.predict(np.where(np.arange(16) == 3, bad, observation))
    for position, velocity, name in ((there, here, "position"), (here, there, "velocity"), (None, there, "velocity")):
        with pytest.raises(UserError, match=f"The {name} for {REACHER} holds {word}"):
            reacher.predict(observation, position, velocity)
    with pytest.raises(UserError, match="must be an array of numbers, not str"):
        reacher.predict("here")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("count", "shape"), [(0, (1, 5)), (0, (4,)), (0, ()), (1, (5,)), (3, (5,)), (3, (1, 5)), (3, (2, 5)), (3, (3, 4))]
)
def test_predict_takes_one_position_for_each_observation(reacher: TopErl, count: int, shape: tuple[int, ...]) -> None:
    """Nothing is broadcast: one position for three observations is a mistake more often than not."""
    observation = np.stack([_observation()] * count) if count else _observation()
    expected = (count, 5) if count else (5,)
    sentence = re.escape(f"of shape {expected}, one of 5 entries for each observation, not of shape {shape}.")
    with pytest.raises(UserError, match=f"position {sentence}"):
        reacher.predict(observation, np.zeros(shape), np.zeros(expected))
    with pytest.raises(UserError, match=f"velocity {sentence}"):
        reacher.predict(observation, velocity=np.zeros(shape))


def test_an_agent_is_closed_by_its_block(tiny: RunConfig) -> None:
    config = replace(tiny, hardware=HardwareConfig(threads=1, workers=1))
    with TopErl(config=config) as agent:
        agent.evaluate(1)
        (process,) = agent.training.learner.collector.player.crew.processes
        assert process.exitcode is None
    assert process.exitcode == 0


def test_a_task_or_a_configuration(tiny: RunConfig) -> None:
    for arguments in ({}, {"task": REACHER, "config": tiny}):
        with pytest.raises(UserError, match=r"a task, or a whole config, but not both"):
            TopErl(**arguments)  # type: ignore[arg-type]
    assert TopErl(REACHER, seed=4, scale="paper").config == preset("top_erl", REACHER, "paper", 4)


def test_learning_twice_counts_on(tiny: RunConfig, tmp_path: Path) -> None:
    agent = TopErl(config=tiny)
    assert agent.learn(6 * 10, progress_bar=False, run_dir=tmp_path / "first") is agent
    assert agent.num_timesteps == 60
    agent.learn(6 * 6, progress_bar=False, run_dir=tmp_path / "second")
    assert agent.num_timesteps == 96
    whole = TopErl(config=tiny).learn(96, progress_bar=False)
    assert _same_tensors(agent, whole)
    assert [row["iteration"] for row in read_metrics(tmp_path / "second" / "metrics.csv")] == [3, 4]
    with pytest.raises(UserError, match="holds a run already"):
        agent.learn(10, progress_bar=False, run_dir=tmp_path / "first")


def test_learning_shows_progress(tiny: RunConfig, capsys: pytest.CaptureFixture[str]) -> None:
    TopErl(config=tiny).learn(60)
    assert "iteration     1/2" in capsys.readouterr().out


def test_a_loaded_agent_predicts_and_goes_on_in_the_same_way(tiny: RunConfig, tmp_path: Path) -> None:
    agent = TopErl(config=tiny).learn(100, progress_bar=False)
    for _ in range(2):  # saving again replaces
        agent.save(tmp_path / "saved" / "here")
    loaded = TopErl.load(tmp_path / "saved" / "here")
    assert loaded.config == agent.config
    assert _same_tensors(agent, loaded)
    state = (np.zeros(2), np.zeros(2))
    observation = np.array([0.3, 0.5, -0.5])
    assert torch.equal(loaded.predict(observation, *state).position, agent.predict(observation, *state).position)
    np.testing.assert_array_equal(loaded.evaluate(5).returns, agent.evaluate(5).returns)
    for one in (agent, loaded):
        one.learn(60, progress_bar=False)
    assert _same_tensors(agent, loaded)


def test_an_untrained_agent_can_be_saved(tiny: RunConfig, tmp_path: Path) -> None:
    agent = TopErl(config=tiny)
    agent.save(tmp_path)
    loaded = TopErl.load(tmp_path)
    for one in (agent, loaded):
        one.learn(60, progress_bar=False)
    assert _same_tensors(agent, loaded)


def test_saving_without_the_replay(tiny: RunConfig, tmp_path: Path) -> None:
    agent = TopErl(config=tiny).learn(100, progress_bar=False)
    agent.save(tmp_path, replay=False)
    loaded = TopErl.load(tmp_path, device="cpu")
    assert len(loaded.training.learner.replay) == 0
    assert torch.equal(loaded.training.learner.policy.raw_covariance, agent.training.learner.policy.raw_covariance)
    loaded.learn(20, progress_bar=False)  # it collects new episodes first


def test_loading_a_run_folder(tiny: RunConfig, tmp_path: Path) -> None:
    agent = TopErl(config=tiny).learn(100, progress_bar=False, run_dir=tmp_path / "run")
    assert _same_tensors(TopErl.load(tmp_path / "run"), agent)
    with pytest.raises(UserError, match="is a run folder, which saves itself"):
        agent.save(tmp_path / "run")


def test_loading_nothing(tiny: RunConfig, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a run folder"):
        TopErl.load(tmp_path / "nothing")
    agent = TopErl(config=tiny)
    agent.save(tmp_path / "saved")
    for part in sorted((tmp_path / "saved" / "checkpoint").iterdir()):
        part.unlink()
    (tmp_path / "saved" / "checkpoint").rmdir()
    with pytest.raises(UserError, match="has no checkpoint yet"):
        TopErl.load(tmp_path / "saved")


def test_evaluation_uses_contexts_of_its_own(tiny: RunConfig) -> None:
    agent = TopErl(config=tiny)
    scores = agent.evaluate(4)
    assert scores.returns.shape == (4,)
    assert set(scores.metrics) == {"success", "last"}
    np.testing.assert_array_equal(agent.evaluate(4).returns, scores.returns)
    assert not set(scores.returns) & set(agent.evaluate(4, seed=1).returns)
    assert not set(scores.returns) & set(agent.training.evaluate(4).returns)
    for bad in (0, -1):
        with pytest.raises(UserError, match="at least 1 episode"):
            agent.evaluate(bad)


def test_a_strangers_folder_imports_nothing(tiny: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = TopErl(config=tiny)
    agent.save(tmp_path / "saved")
    (tmp_path / "evil.py").write_text("from pathlib import Path\nPath('ran').touch()\ndef boom(): ...\n")
    config = tmp_path / "saved" / "config.yaml"
    monkeypatch.chdir(tmp_path)
    for task in ("evil:boom", "os:abort", "shutil:rmtree"):  # not imported, or imported and no task
        config.write_text(re.sub(r"^task: .*$", f"task: {task}", config.read_text(), flags=re.MULTILINE))
        with pytest.raises(UserError, match=f"If you trust it, name it: --task {task}"):
            TopErl.load(tmp_path / "saved")
        for words in (["evaluate", "saved"], ["resume", "saved"], ["train", "--config", "saved/config.yaml"]):
            assert main(words) == 2
    assert not (tmp_path / "ran").exists()
    config.write_text(re.sub(r"^task: .*$", "task: evil:boom", config.read_text(), flags=re.MULTILINE))
    with pytest.raises(UserError, match="evil"):  # named: it is imported, and turns out to be no task
        TopErl.load(tmp_path / "saved", task="evil:boom")
    assert (tmp_path / "ran").exists()


def test_a_run_folder_holds_what_was_learned_before(tiny: RunConfig, tmp_path: Path) -> None:
    agent = TopErl(config=tiny)
    agent.learn(tiny.total_env_steps, progress_bar=False)
    done = agent.training.progress.iteration
    with pytest.raises(RuntimeError):
        agent.learn(100, callback=_crash, run_dir=tmp_path / "run", progress_bar=False)
    assert TopErl.load(tmp_path / "run").training.progress.iteration == done


def _crash(numbers: dict[str, float]) -> None:
    raise RuntimeError("a fault in a callback")


@pytest.mark.parametrize("workers", [0, 2])
def test_an_environment_of_your_own(tiny: RunConfig, workers: int) -> None:
    config = replace(
        tiny,
        task=POINT,
        primitive=PrimitiveConfig(num_basis=2, tau=0.8),
        hardware=HardwareConfig(threads=1, workers=workers),
    )
    agent = TopErl(config=config)
    assert isinstance(agent.training.task, GymnasiumTask)
    agent.learn(8 * 10, progress_bar=False)
    assert agent.num_timesteps >= 80
    with pytest.raises(UserError, match=r"toy/Point does not say .*pass position= and velocity= as well"):
        agent.predict(np.zeros(2))
    with pytest.raises(UserError, match="pass position= and velocity="):
        agent.predict(np.zeros(2), position=np.zeros(1))
    reference = agent.predict(np.zeros(2), position=np.zeros(1), velocity=np.zeros(1))
    assert reference.position.shape == (8, 1)
    agent.close()


def test_workers_play_the_same(tiny: RunConfig) -> None:
    config = replace(tiny, task=POINT, primitive=PrimitiveConfig(num_basis=2, tau=0.8))
    here = TopErl(config=config).learn(100, progress_bar=False)
    there = TopErl(config=replace(config, hardware=HardwareConfig(threads=1, workers=2))).learn(100, progress_bar=False)
    assert _same_tensors(here, there)
    there.close()


def test_a_task_beside_the_users_script(tmp_path: Path) -> None:
    """`module:Class` of a file in the current directory, played by workers, from a plain script."""
    root = Path(__file__).parents[1]
    (tmp_path / "my_robot.py").write_text((root / "tests" / "rollout" / "toy_tasks.py").read_text())
    (tmp_path / "main.py").write_text(
        textwrap.dedent(
            """
            from dataclasses import replace
            from top_erl import TopErl, preset
            from top_erl.config.run import HardwareConfig

            if __name__ == "__main__":
                config = preset("top_erl", "my_robot:PointTask", "laptop")
                agent = TopErl(config=replace(config, hardware=HardwareConfig(threads=1, workers=1)))
                print(len(agent.evaluate(3).returns))
                agent.close()
            """
        )
    )
    done = subprocess.run([sys.executable, "main.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr
