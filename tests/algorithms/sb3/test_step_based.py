"""Step-based methods: episodes and seeds, exact resume, evaluation, and what goes wrong."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from tests.algorithms.sb3.step_tasks import (
    CONFIGS,
    HORIZON,
    PointTask,
    ShortTask,
    broken_task,
    make_learner,
    ppo_config,
    sac_config,
    with_collect,
)
from top_erl.algorithms.divergence import Diverged
from top_erl.algorithms.sb3.config import NormalizeConfig
from top_erl.algorithms.sb3.extra import require_sb3
from top_erl.algorithms.sb3.learner import StepLearner
from top_erl.errors import UserError
from top_erl.seeding import episode_seeds
from top_erl.tasks import make_task

METHODS = list(CONFIGS)
REACHER = "top_erl/ViaPointReacher-v0"


def _whole_state(learner: StepLearner) -> dict[str, torch.Tensor]:
    return {**learner.state_dict(), **{f"replay.{name}": value for name, value in learner.replay_state().items()}}


def _assert_same(first: StepLearner, second: StepLearner) -> None:
    """Two learners agree bit for bit."""
    states = _whole_state(first), _whole_state(second)
    assert states[0].keys() == states[1].keys()
    for name, value in states[0].items():
        assert value.dtype == states[1][name].dtype
        assert torch.equal(value, states[1][name]), name
    assert (first.episodes_collected, first.env_steps) == (second.episodes_collected, second.env_steps)


def _copy(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in state.items()}


# ---------------------------------------------------------------------- iterations


@pytest.mark.parametrize("method", [*METHODS, "sac with statistics"])
def test_exact_resume(method: str) -> None:
    """Four iterations in a row, and two, saved, restored into a new learner, two more: bit for bit the same."""
    config = CONFIGS.get(method, replace(sac_config(), normalize=NormalizeConfig()))
    whole, first = make_learner(config), make_learner(config)
    rows = [whole.iterate(iteration) for iteration in (1, 2, 3, 4)]
    for iteration in (1, 2):
        first.iterate(iteration)
        first.evaluate([1, 2, 3])  # leaves no trace
        np.random.uniform(), random.random(), torch.rand(1)  # nor does the rest of the program
    state, replay = _copy(first.state_dict()), _copy(first.replay_state())
    second = make_learner(config)
    second.load_state_dict(state)
    second.load_replay_state(replay)
    second.episodes_collected, second.env_steps = first.episodes_collected, first.env_steps
    _assert_same(first, second)
    resumed = [second.iterate(iteration) for iteration in (3, 4)]
    _assert_same(whole, second)
    for row, again in zip(rows[2:], resumed, strict=True):
        assert np.array_equal(row.exploration.returns, again.exploration.returns)
        assert row.numbers == again.numbers
    assert np.array_equal(whole.evaluate(range(5)).returns, second.evaluate(range(5)).returns)


@pytest.mark.parametrize("method", METHODS)
def test_resume_with_cut_episodes(method: str) -> None:
    """An iteration that cuts its last episodes off; they count as begun, and the next iteration starts anew."""
    config = with_collect(CONFIGS[method], steps=4 * 12, bootstrap=True)
    if method in ("ppo", "gsde"):
        config = replace(config, learn=replace(config.learn, batch_size=12))
    whole, first = make_learner(config), make_learner(config)
    scores = [whole.iterate(iteration).exploration for iteration in (1, 2)]
    assert [len(score.returns) for score in scores] == [4, 4]
    assert (whole.episodes_collected, whole.env_steps) == (16, 96)
    first.iterate(1)
    second = make_learner(config)
    second.load_state_dict(_copy(first.state_dict()))
    second.load_replay_state(_copy(first.replay_state()))
    second.episodes_collected, second.env_steps = first.episodes_collected, first.env_steps
    second.iterate(2)
    _assert_same(whole, second)


@pytest.mark.parametrize("method", METHODS)
def test_seeds_decide_everything(method: str) -> None:
    learners = [make_learner(CONFIGS[method], seed=seed) for seed in (0, 0, 1)]
    first, same, other = (learner.iterate(1).exploration.returns for learner in learners)
    assert np.array_equal(first, same)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("method", METHODS)
def test_the_programs_generators_are_left_alone(method: str) -> None:
    learner = make_learner(CONFIGS[method])
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    expected = random.random(), np.random.uniform(), float(torch.rand(1))
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    learner.iterate(1)
    make_learner(CONFIGS[method])
    assert (random.random(), np.random.uniform(), float(torch.rand(1))) == expected


@pytest.mark.parametrize("method", METHODS)
def test_training_changes_networks_and_reports(method: str) -> None:
    learner = make_learner(CONFIGS[method])
    before = _copy(learner.state_dict())
    stats = learner.iterate(1)
    assert set(stats.numbers) == set(learner.columns)
    assert all(np.isfinite(value) for value in stats.numbers.values())
    assert len(stats.exploration.returns) == 8
    assert set(stats.exploration.metrics) == {"missed"}
    assert (learner.episodes_collected, learner.env_steps) == (8, 64)
    after = learner.state_dict()
    for name in before:
        if name.startswith("policy.") and name.endswith("weight"):
            assert not torch.equal(before[name], after[name]), name


def test_every_episode_has_the_seed_of_its_number() -> None:
    """Episode e of environment k in an iteration has number first + 4 e + k; the next iteration goes on counting."""
    learner = make_learner(CONFIGS["ppo"])
    seen: list[list[int]] = [[] for _ in range(4)]
    for place, environment in enumerate(learner.environments.environments):
        original = environment.reset
        environment.reset = lambda seed, place=place, original=original: (  # type: ignore[method-assign,misc]
            seen[place].append(seed),
            original(seed),
        )[1]
    learner.iterate(1)
    learner.iterate(2)
    seeds = episode_seeds(0, "training", 0, 16)
    assert seen == [[seeds[place + 4 * episode] for episode in range(4)] for place in range(4)]


def test_scores_are_unscaled_and_complete() -> None:
    """Returns of exploration are those of the environment, whatever the learner is shown."""
    plain = make_learner(replace(CONFIGS["ppo"], normalize=replace(CONFIGS["ppo"].normalize, rewards=False)))
    scaled = make_learner(with_collect(CONFIGS["ppo"], reward_scale=0.1))
    first, second = (learner.iterate(1).exploration for learner in (plain, scaled))
    assert first.returns.shape == (8,)
    assert np.array_equal(first.returns, second.returns)  # the first iteration's policy is the same
    assert (first.returns < 0).all()
    rewards = scaled.model.rollout_buffer.rewards
    assert np.abs(rewards).max() <= 10.0


def test_early_ends_give_way_to_the_next_episode() -> None:
    """16 steps an environment are three episodes of five steps and one that is cut."""
    learner = make_learner(CONFIGS["sac"], ShortTask())
    stats = learner.iterate(1)
    assert len(stats.exploration.returns) == 12
    assert (learner.episodes_collected, learner.env_steps) == (16, 64)
    dones = learner.replay_state()["dones"]
    assert dones[:, 0].tolist() == [float(step % 5 == 4) for step in range(16)]
    assert len(learner.evaluate(range(20)).returns) == 20


@pytest.mark.parametrize("bootstrap", [False, True])
def test_time_limit_as_end_or_interruption(bootstrap: bool) -> None:
    learner = make_learner(with_collect(CONFIGS["sac"], bootstrap=bootstrap))
    learner.iterate(1)
    replay = learner.replay_state()
    last = [float(step % HORIZON == HORIZON - 1) for step in range(16)]
    assert replay["dones"][:, 2].tolist() == last
    assert replay["timeouts"][:, 2].tolist() == (last if bootstrap else [0.0] * 16)
    following = replay["next_observations"][HORIZON - 1, 2]  # of the episode that ends, not of the next one
    assert following[2] == 1.0
    assert following[1] == replay["observations"][HORIZON - 1, 2, 1]
    assert torch.equal(replay["observations"][HORIZON, 2, ::2], torch.zeros(2))  # at its start, at time 0


def test_time_is_observed_if_asked_for() -> None:
    with_time, without = (make_learner(with_collect(CONFIGS["sac"], observe_time=flag)) for flag in (True, False))
    for learner in (with_time, without):
        learner.iterate(1)
    assert with_time.replay_state()["observations"].shape == (16, 4, 3)
    assert without.replay_state()["observations"].shape == (16, 4, 2)
    time = with_time.replay_state()["observations"][:, 0, 2]
    assert torch.equal(time, torch.arange(16) % HORIZON / HORIZON)


def test_episodes_must_fit_into_iterations() -> None:
    config = replace(ppo_config(batch_size=4), collect=replace(ppo_config().collect, steps=16))
    with pytest.raises(
        UserError, match=r"collect.steps \(16\) must be at least 32, an episode of 8 steps in each of 4"
    ):
        make_learner(config)


# ---------------------------------------------------------------------- playing without exploration


@pytest.mark.parametrize("method", METHODS)
def test_evaluation_is_repeatable_and_row_by_row(method: str) -> None:
    learner = make_learner(CONFIGS[method])
    learner.iterate(1)
    seeds = list(range(20))  # two batches
    scores = learner.evaluate(seeds)
    again = learner.evaluate(seeds)
    assert scores.returns.shape == (20,)
    assert np.array_equal(scores.returns, again.returns)
    assert np.array_equal(scores.metrics["missed"], again.metrics["missed"])
    alone = learner.evaluate([13])
    assert alone.returns[0] == pytest.approx(scores.returns[13], rel=1e-5)
    assert len(set(scores.returns.tolist())) == 20


def test_evaluation_leaves_statistics_alone() -> None:
    learner = make_learner(CONFIGS["ppo"])
    learner.iterate(1)
    before = _copy(learner.state_dict())
    assert before["normalizer.observations.count"] > 60
    assert before["normalizer.returns.var"] != 1.0
    learner.evaluate(range(5))
    for name, value in learner.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_film() -> None:
    learner = make_learner(CONFIGS["ppo"])
    pictures = learner.film(3, every=3)
    assert [int(picture[0, 0, 0]) for picture in pictures] == [3, 6, 8]
    short = make_learner(CONFIGS["ppo"], ShortTask()).film(3, every=2)
    assert [int(picture[0, 0, 0]) for picture in short] == [2, 4, 5, 5]


def test_film_of_a_registered_environment() -> None:
    learner = make_learner(with_collect(CONFIGS["ppo"], environments=1), make_task(REACHER))
    assert [picture.shape for picture in learner.film(0, every=25)] == [(480, 480, 3)] * 2


# ---------------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize("method", ["ppo", "sac"])
@pytest.mark.parametrize("how", ["observation", "reward", "raises"])
def test_a_broken_environment_is_replaced(method: str, how: str, caplog: pytest.LogCaptureFixture) -> None:
    learner = make_learner(CONFIGS[method], broken_task(how))
    words = {"observation": "NaN in its observation", "reward": "infinity in its reward", "raises": "ZeroDivisionError"}
    scores = learner.iterate(1).exploration
    assert (len(scores.returns), scores.failures) == (4, 4)  # the second episode of each environment breaks it
    assert f"{words[how]} at step 2 of the episode with seed " in caplog.text


@pytest.mark.parametrize("method", METHODS)
def test_divergence_is_noticed(method: str) -> None:
    learner = make_learner(CONFIGS[method])
    learner.iterate(1)
    with torch.no_grad():
        for name, parameter in learner.model.policy.named_parameters():
            if name.endswith("bias"):
                parameter.fill_(1e6 if "value" in name or "critic" in name else 0.0)
    with pytest.raises(Diverged) as diverged:
        learner.iterate(2)
    assert diverged.value.kind == "critic"
    assert "its loss is" in str(diverged.value)
    assert diverged.value.remedy.startswith("--learn.critic-rate ")
    assert diverged.value.batch["observations"].isfinite().all()


@pytest.mark.parametrize("method", METHODS)
def test_policy_with_nan_is_noticed(method: str) -> None:
    learner = make_learner(CONFIGS[method])
    learner.iterate(1)
    with torch.no_grad():
        for parameter in learner.model.policy.parameters():
            parameter.fill_(np.nan)
    with pytest.raises(Diverged, match="its parameters are not finite"):
        learner.iterate(2)


def test_replay_of_another_size_is_refused() -> None:
    learner = make_learner(CONFIGS["sac"])
    for iteration in (1, 2):
        learner.iterate(iteration)
    state = _copy(learner.replay_state())
    assert len(state["rewards"]) == 25  # 100 steps of 4 environments: the ring is full
    assert int(state["next_row"]) == 32 - 25
    smaller, larger = (make_learner(sac_config(buffer_size=size)) for size in (80, 400))
    for other in (smaller, larger):
        with pytest.raises(UserError, match="The saved replay holds 25 rows and does not fit"):
            other.load_replay_state(state)
    fewer = make_learner(with_collect(sac_config(buffer_size=50), environments=2))
    with pytest.raises(
        UserError, match=r"observations is float32 of shape \[25, 4, 3\], not float32 of shape \[25, 2, 3\]"
    ):
        fewer.load_replay_state(state)


def test_state_of_other_networks_is_refused() -> None:
    learner = make_learner(CONFIGS["ppo"])
    blind = make_learner(with_collect(CONFIGS["ppo"], observe_time=False))
    with pytest.raises((RuntimeError, ValueError)):
        learner.load_state_dict(blind.state_dict())


def test_missing_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    for method in METHODS:
        require_sb3(method)
    monkeypatch.setitem(sys.modules, "pink", None)
    require_sb3("sac")
    with pytest.raises(UserError, match=r"The method .pink. needs .*: pip install -c constraints.txt -e '.\[b"):
        require_sb3("pink")
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    for method in METHODS:
        with pytest.raises(
            UserError, match=r"needs the package 'stable-baselines3': pip install -c constraints.txt -e '.\[baselines\]"
        ):
            require_sb3(method)


def test_configurations_need_no_extra() -> None:
    code = """
import sys
import top_erl.algorithms.sb3, top_erl.algorithms.sb3.preset, top_erl.tasks.stepping
print(sorted({"stable_baselines3", "pink"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_learning_leaves_no_files(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model's own logger would make a folder per call."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.chdir(tmp_path)
    for config in CONFIGS.values():
        make_learner(config, PointTask()).iterate(1)
    assert not list(tmp_path.iterdir())
