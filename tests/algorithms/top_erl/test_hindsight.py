"""Episodes counted for other goals: what the task would have paid, who gets which goal, saving and refusing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from tests.algorithms.top_erl.tiny import TinyGoals, TinyTask, tiny_config, tiny_learner
from tests.rollout.failing_tasks import BEGIN, PLAY, RAISES, FailingSteps
from tests.rollout.toy_tasks import PointEnv, PointTask
from top_erl.algorithms.top_erl.batches import Batches
from top_erl.algorithms.top_erl.learner import TopErlLearner
from top_erl.config.changes import changed
from top_erl.errors import UserError
from top_erl.experiment.presets import preset
from top_erl.experiment.training import Training
from top_erl.models import GaussianPolicy, PolicyConfig
from top_erl.primitives import make_primitive
from top_erl.rollout.collector import EpisodeCollector
from top_erl.rollout.player import LocalPlayer
from top_erl.rollout.replay import EpisodeBatch
from top_erl.rollout.tokens import EpisodeTokenizer, TokenRewards
from top_erl.tasks import TaskSpec


class EndingEnv(PointEnv):
    """The point's environment, which ends after three steps."""

    def reset(self, **how: Any) -> tuple[Any, dict[str, Any]]:
        self.count = 0
        return super().reset(**how)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        observation, reward, _, truncated, info = super().step(action)
        return observation, reward, self.count == 3, truncated, info


class EndingTask(PointTask):
    """The same as a task."""

    def make_env(self) -> EndingEnv:
        return EndingEnv()


DOF = 2
TARGET = slice(0, DOF)


def _learner(sparse: bool = False, share: float = 1.0, reached: float = 0.5, **collect: object) -> TopErlLearner:
    sections = {"learn": {"hindsight": share, "hindsight_reached": reached}, "collect": {"prefill": 8, **collect}}
    learner = tiny_learner(tiny_config(**sections), task=TinyTask(sparse=sparse))
    learner.prefill()
    return learner


def _exchanged(learner: TopErlLearner, seed: int = 0) -> tuple[EpisodeBatch, EpisodeBatch]:
    """The whole replay, and the same with other goals."""
    batch = learner.replay.gather(torch.arange(len(learner.replay)))
    assert learner.hindsight is not None
    return batch, learner.hindsight(batch, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("collect", [{}, {"stride": 3, "reward_scale": 0.5, "reward_shift": 1.0, "reward_floor": -0.6}])
def test_rewards_are_what_the_task_pays_for_the_goal(sparse: bool, collect: dict[str, float]) -> None:
    """By a loop over the positions that the tiny task was in, which tracks perfectly and moves no target."""
    learner = _learner(sparse, **collect)
    before, after = _exchanged(learner)
    stride, horizon = learner.collector.stride, learner.collector.spec.horizon
    scale, shift, floor = (collect.get(f"reward_{name}", x) for name, x in (("scale", 1), ("shift", 0), ("floor", -99)))
    assert before.goalless is not None
    for episode in range(len(after)):
        goal = after.state[episode, 0, TARGET].double().numpy()
        for token in range(after.horizon):
            total = 0.0
            for step in range(token * stride, (token + 1) * stride):
                position = before.goalless[episode, step, :DOF].double().numpy()
                paid = 0.0 if sparse and step < horizon - 1 else -float(((position - goal) ** 2).sum())
                total += max(paid, floor) + shift
            assert float(after.reward[episode, token]) == pytest.approx(scale * total, abs=1e-5)


def test_the_goal_is_seen_in_every_state_and_nothing_else_changes() -> None:
    before, after = _exchanged(_learner())
    assert torch.equal(after.state[:, :, TARGET], after.state[:, :1, TARGET].expand(-1, after.horizon, -1))
    assert torch.equal(after.state[:, :, DOF:], before.state[:, :, DOF:])
    assert torch.equal(after.action, before.action)
    assert torch.equal(after.reference, before.reference)


def test_who_gets_which_goal() -> None:
    """Of many episodes the shares asked for keep their goal, get what they have reached, or that of another."""
    learner = _learner(share=0.6, reached=0.25, prefill=64)
    before, after = _exchanged(learner)
    assert before.goalless is not None
    own = (after.state[:, 0, TARGET] == before.state[:, 0, TARGET]).all(-1)
    ends = torch.isclose(after.state[:, 0, TARGET], before.goalless[:, -1, :DOF], atol=1e-6).all(-1)
    others = (after.state[:, None, 0, TARGET] == before.state[None, :, 0, TARGET]).all(-1).any(-1)
    assert not (own & ends).any()
    assert (own | ends | others).all()
    assert 0.4 - 0.2 < own.float().mean() < 0.4 + 0.2
    assert 0.15 - 0.12 < ends.float().mean() < 0.15 + 0.12
    assert torch.equal(after.reward[own & ~ends], before.reward[own & ~ends])  # as paid, not counted anew
    assert (after.reward[ends, -1] > -1e-9).all()  # at the goal at last


def test_a_share_of_zero_keeps_nothing() -> None:
    learner = _learner(share=0.0)
    assert learner.hindsight is None
    assert "goalless" not in learner.replay_state()


def test_the_critic_learns_from_other_goals_and_the_policy_from_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = _learner(reached=0.0, reward_spread=4.0)
    own = {tuple(row) for row in learner.replay.gather_first().state[:, 0].tolist()}
    seen: dict[str, list[EpisodeBatch]] = {"critic_step": [], "policy_step": []}
    for name, batches in seen.items():
        step = getattr(learner, name)
        monkeypatch.setattr(
            learner,
            name,
            lambda batch, *rest, _step=step, _to=batches, **more: _to.append(batch) or _step(batch, *rest, **more),
        )
    learner.iterate(1)
    own |= {tuple(row) for row in learner.replay.gather_first().state[:, 0].tolist()}
    starts = {
        name: {tuple(row) for batch in batches for row in batch.state[:, 0].tolist()} for name, batches in seen.items()
    }
    assert starts["policy_step"] <= own
    assert starts["critic_step"] - own


def test_the_targets_policy_is_asked_for_the_new_goal(monkeypatch: pytest.MonkeyPatch) -> None:
    """New actions in a target come from the policy at the first state with the exchanged goal."""
    learner = _learner()
    asked, project = [], learner.project
    monkeypatch.setattr(
        learner, "project", lambda batch, bound: asked.append(batch.state[:, 0]) or project(batch, bound)
    )
    seen, step = [], learner.critic_step
    monkeypatch.setattr(
        learner, "critic_step", lambda batch, *rest: seen.append(batch.state[:, 0]) or step(batch, *rest)
    )
    learner.train_critic(3, torch.Generator().manual_seed(0), None)
    assert len(asked) == len(seen) == 3
    for one, other in zip(asked, seen, strict=True):
        assert torch.equal(one, other)


def test_saved_and_restored_bit_by_bit() -> None:
    learner, other = _learner(), _learner(prefill=4)
    other.check_state(learner.state_dict(), learner.replay_state())
    other.load_replay_state(learner.replay_state())
    for one, two in zip(_exchanged(learner), _exchanged(other), strict=True):
        assert torch.equal(one.state, two.state)
        assert torch.equal(one.reward, two.reward)


def test_a_replay_without_what_is_needed_is_refused() -> None:
    learner, without = _learner(), _learner(share=0.0)
    with pytest.raises(UserError, match="does not fit"):
        learner.check_state(learner.state_dict(), without.replay_state())
    with pytest.raises(UserError, match="does not fit"):
        without.check_state(without.state_dict(), learner.replay_state())


def test_a_task_that_does_not_tell_its_last_observation_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    task = TinyTask()
    play = task.play
    monkeypatch.setattr(task, "play", lambda reference: replace(play(reference), last=None))
    learner = tiny_learner(tiny_config(learn={"hindsight": 0.5}), task=task)
    with pytest.raises(UserError, match=r"EpisodeOutcomes\.last"):
        learner.prefill()


def test_iterations_in_which_all_episodes_fail_are_left_out() -> None:
    """An iteration of one episode that fails stores none, as without exchanged goals."""
    task, spec = FailingSteps(), PointTask.spec
    tokenize = EpisodeTokenizer(spec, TokenRewards(), goal_rule=spec.goal_rule)
    collector = EpisodeCollector(LocalPlayer(task), spec, make_primitive(spec.primitive, 1, spec.dt), seed=0)
    collector.tokenize = tokenize
    policy = GaussianPolicy(PolicyConfig(hidden=(4,)), 3, collector.primitive.num_params)
    for seeds, stored in (([PLAY + RAISES], 0), ([BEGIN + RAISES, 1], 1)):
        rollout, _ = collector.play(policy, seeds)
        episodes = collector.stored(rollout)
        assert episodes.goalless is not None
        assert episodes.goalless.shape == (stored, spec.horizon, 2)


def test_an_episode_that_ends_early_has_no_goal_to_exchange() -> None:
    """What is paid after the end follows from no goal."""
    task, spec = EndingTask(), PointTask.spec
    task.begin([0])
    outcomes = task.play(np.zeros((1, spec.horizon, 2)))
    assert outcomes.last is None
    collector = EpisodeCollector(LocalPlayer(task), spec, make_primitive(spec.primitive, 1, spec.dt), seed=0)
    collector.tokenize = EpisodeTokenizer(spec, TokenRewards(), goal_rule=spec.goal_rule)
    policy = GaussianPolicy(PolicyConfig(hidden=(4,)), 3, collector.primitive.num_params)
    with pytest.raises(UserError, match="of those that end early there is none"):
        collector.stored(collector.play(policy, [0])[0])


@pytest.mark.parametrize("entries", [(), (0, 0), (-1,), (4,)], ids=str)
def test_entries_that_no_observation_has_are_refused(entries: tuple[int, ...]) -> None:
    rule = TinyGoals(2, sparse=False)
    rule.entries = entries
    with pytest.raises(UserError, match=r"goal_rule with entries .* 0 to 3"):
        TaskSpec("tests/Tiny-v0", 4, 2, 12, dt=0.1, metrics=("distance",), goal_rule=rule)
    with pytest.raises(UserError, match="give an object of a class of GoalRule"):
        TaskSpec("tests/Tiny-v0", 4, 2, 12, dt=0.1, metrics=("distance",), goal_rule=TinyGoals)  # type: ignore[arg-type]


def test_the_batch_that_diverged_is_the_one_with_its_goals() -> None:
    learner = _learner()
    batches = Batches(learner.replay, 4, torch.Generator().manual_seed(5), learner.hindsight)
    drawn = [batches.draw() for _ in range(3)]
    for number, batch in enumerate(drawn, start=1):
        again = batches.again(number)
        for name, tensor in batch.tensors().items():
            assert torch.equal(again[name], tensor)


def test_a_goal_that_moves_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    task = TinyTask()
    assert isinstance(task.spec.goal_rule, TinyGoals)
    task.spec.goal_rule.entries = (0, 2)  # the second is a position
    learner = tiny_learner(tiny_config(learn={"hindsight": 0.5}), task=task)
    with pytest.raises(UserError, match="changes during an episode"):
        learner.prefill()


def test_a_task_without_a_goal_rule_is_told_so() -> None:
    config = changed(preset("top_erl", "top_erl/ViaPointReacher-v0", "laptop"), {"algorithm.learn.hindsight": 0.5})
    with pytest.raises(UserError, match="has no goal_rule"):
        Training(config)


def test_several_plans_an_episode() -> None:
    """Other goals also where plans start in the middle: states there show the exchanged goal."""
    config = tiny_config(learn={"hindsight": 1.0}, collect={"prefill": 8}, plan={"every": 4})
    learner = tiny_learner(config)
    learner.prefill()
    before, after = _exchanged(learner)
    assert before.plans is not None
    assert torch.equal(before.plans, after.plans)
    assert np.isfinite(learner.iterate(1).numbers["critic_loss"])
