"""Collecting: what is stored of an episode, and that it depends on nothing but the seed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from tests.rollout.toy_tasks import SPEC, FailsAtSeed13, NanObservation, NanReward, ToyTask
from top_erl.errors import RunStopped, UserError
from top_erl.models import GaussianPolicy, PolicyConfig
from top_erl.primitives import PrimitiveConfig, ProDmp
from top_erl.rollout.collector import EpisodeCollector
from top_erl.rollout.player import LocalPlayer, Player
from top_erl.rollout.pool import WorkerPool
from top_erl.tasks import EpisodeOutcomes, Task
from top_erl.tasks.contract import Array

PRIMITIVE = ProDmp(PrimitiveConfig(num_basis=2, tau=0.6), num_dof=2, dt=0.1)
START, SPEED = [0.5, -0.5], [0.1, 0.2]


@pytest.fixture
def policy() -> GaussianPolicy:
    torch.manual_seed(0)
    return GaussianPolicy(PolicyConfig(hidden=(8,)), state_dim=4, num_params=PRIMITIVE.num_params)


class Spy(LocalPlayer):
    """Remembers what was begun and played."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.begun: list[list[int]] = []
        self.played: list[np.ndarray] = []
        self.announced: list[list[int]] = []

    def begin(self, seeds):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
        self.begun.append(list(seeds))
        return super().begin(seeds)

    def play(self, reference, next_seeds=()) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
        self.played.append(reference)
        self.announced.append(list(next_seeds))
        super().play(reference, next_seeds)


def _collector(player: Player | None = None, **options: float) -> EpisodeCollector:
    return EpisodeCollector(player or LocalPlayer(ToyTask()), SPEC, PRIMITIVE, seed=3, **options)  # type: ignore[arg-type]


def test_what_is_stored(policy: GaussianPolicy) -> None:
    spy = Spy(ToyTask())
    collector = _collector(spy)
    collector.start(policy, 2)
    batch, scores = collector.finish()
    reference = torch.tensor(spy.played[0], dtype=torch.float32)  # [B, T, 2D]
    assert batch.state.shape == (2, 6, 4)
    assert len({*batch.state[:, 0, 0].tolist()}) == 2  # the contexts differ
    torch.testing.assert_close(batch.state[0, :, -1], torch.arange(6) * 0.1)  # time before each step
    torch.testing.assert_close(batch.state[:, 1:, 1:3], reference[:, :-1, :2])  # the toy follows exactly
    torch.testing.assert_close(batch.action, reference)
    torch.testing.assert_close(batch.reference[:, 1:], reference[:, :-1])  # desired before the step ...
    torch.testing.assert_close(batch.reference[:, 0], torch.tensor([START + SPEED] * 2))  # ... measured at first
    context = batch.state[:, :1, 0]
    torch.testing.assert_close(batch.reward, 2.0 ** torch.arange(6) + context)
    torch.testing.assert_close(torch.tensor(scores.returns), 63.0 + 6 * context[:, 0].double())
    np.testing.assert_array_equal(scores.metrics["last"], spy.played[0][:, -1, 0])
    assert batch.behaviour is None


def test_the_reference_is_the_primitives_trajectory_from_the_measured_state(policy: GaussianPolicy) -> None:
    spy = Spy(ToyTask())
    _collector(spy).evaluate(policy, [5])
    start = ToyTask().begin([5])
    state = torch.tensor(np.append(start.observation[0], 0.0), dtype=torch.float32)
    expected = PRIMITIVE.trajectory(
        policy(state[None]).mean.detach().double()[0],
        torch.arange(1, 7, dtype=torch.float64) * 0.1,
        init_time=0.0,
        init_position=torch.tensor(START, dtype=torch.float64),
        init_velocity=torch.tensor(SPEED, dtype=torch.float64),
    )
    np.testing.assert_allclose(spy.played[0][0], expected.stacked().numpy(), atol=1e-6)


def test_stride_keeps_every_nth_step_and_sums_rewards(policy: GaussianPolicy) -> None:
    whole, strided = _collector(), _collector(stride=3, reward_scale=0.5)
    assert (whole.stored_horizon, strided.stored_horizon) == (6, 2)
    whole.start(policy, 2)
    strided.start(policy, 2)
    (every, full_scores), (third, scores) = whole.finish(), strided.finish()
    for name in ("state", "reference", "action"):
        torch.testing.assert_close(getattr(third, name), getattr(every, name)[:, ::3], rtol=0, atol=0)
    # Rewards 1 + 2 + 4 and 8 + 16 + 32, plus three times the context each, at half scale.
    context = every.state[:, :1, 0]
    torch.testing.assert_close(third.reward, 0.5 * (torch.tensor([[7.0, 56.0]]) + 3 * context))
    np.testing.assert_array_equal(scores.returns, full_scores.returns)  # scores are not scaled


def test_steps_worse_than_the_floor_count_as_the_floor_for_the_critic_alone(policy: GaussianPolicy) -> None:
    whole, floored = _collector(), _collector(stride=3, reward_scale=0.5, reward_shift=-1.0, reward_floor=6.0)
    whole.start(policy, 2)
    floored.start(policy, 2)
    (every, full_scores), (third, scores) = whole.finish(), floored.finish()
    # Rewards 1, 2, 4, 8, 16, 32, each plus the context, which is less than 2: the first three count as 6, nothing else
    # changes. Then 1 is taken off every step, and the sums of three are halved.
    context = every.state[:, 0, 0]
    assert (context.abs() < 2.0).all()
    expected = torch.stack((torch.full((2,), 0.5 * (3 * 6.0 - 3)), 0.5 * (56.0 + 3 * context - 3)), dim=-1)
    torch.testing.assert_close(third.reward, expected)
    np.testing.assert_array_equal(scores.returns, full_scores.returns)  # scores are as the task pays


@pytest.mark.parametrize("stride", [4, 5, 7])
def test_refuses_a_stride_that_does_not_divide(stride: int) -> None:
    with pytest.raises(UserError, match=rf"collect\.stride \({stride}\) must divide the task's horizon \(6 steps\)"):
        _collector(stride=stride)


def test_episodes_are_counted_and_never_repeat(policy: GaussianPolicy) -> None:
    spy = Spy(ToyTask())
    collector = _collector(spy)
    for count in (2, 3):
        collector.start(policy, count, next_count=4)
        collector.finish()
    assert collector.episodes_collected == 5
    assert len({seed for seeds in spy.begun for seed in seeds}) == 5
    assert spy.announced[0][:3] == spy.begun[1]  # what is announced is what comes next


def test_episodes_depend_on_their_number_only(policy: GaussianPolicy) -> None:
    together, apart = _collector(), _collector()
    together.start(policy, 4)
    batch, _ = together.finish()
    parts = []
    for count in (1, 3):
        apart.start(policy, count)
        parts.append(apart.finish()[0].action)
        apart.evaluate(policy, [1, 2])  # takes nothing from the episodes that follow
    torch.testing.assert_close(torch.cat(parts), batch.action)


@pytest.mark.parametrize("workers", [1, 2])
def test_exploration_does_not_depend_on_workers(policy: GaussianPolicy, workers: int) -> None:
    pool = WorkerPool("tests.rollout.toy_tasks:ToyTask", workers)
    local, remote = _collector(stride=2), _collector(pool, stride=2)
    for _ in range(3):
        for collector in (local, remote):
            collector.start(policy, 3, next_count=3)
        (here, here_scores), (there, there_scores) = local.finish(), remote.finish()
        for name in ("state", "reference", "action", "reward"):
            assert torch.equal(getattr(here, name), getattr(there, name))
        np.testing.assert_array_equal(here_scores.returns, there_scores.returns)
        np.testing.assert_array_equal(local.evaluate(policy, [9]).returns, remote.evaluate(policy, [9]).returns)
    pool.close()


def test_exploration_has_the_policys_spread() -> None:
    torch.manual_seed(0)
    policy = GaussianPolicy(PolicyConfig(hidden=(8,), initial_std=0.3), state_dim=4, num_params=PRIMITIVE.num_params)
    collector = _collector(keep_behaviour=True)
    collector.start(policy, 2000)
    batch, _ = collector.finish()
    assert batch.behaviour is not None
    basis = PRIMITIVE.trajectory(  # the goal position is linear in the parameters
        torch.eye(PRIMITIVE.num_params, dtype=torch.float64),
        torch.tensor([0.6], dtype=torch.float64),
        init_time=0.0,
        init_position=torch.zeros(2, dtype=torch.float64),
        init_velocity=torch.zeros(2, dtype=torch.float64),
    ).position[:, 0]  # [P, D]
    expected = 0.3 * basis.norm(dim=0).float()
    torch.testing.assert_close(batch.action[:, -1, :2].std(0), expected, rtol=0.06, atol=0)


def test_behaviour_is_kept_when_wanted(policy: GaussianPolicy) -> None:
    collector = _collector(keep_behaviour=True)
    collector.start(policy, 2)
    behaviour = collector.finish()[0].behaviour
    assert behaviour is not None
    assert behaviour.mean.shape == (2, PRIMITIVE.num_params)
    assert not behaviour.mean.requires_grad


def test_finish_needs_start() -> None:
    with pytest.raises(RuntimeError, match="without start"):
        _collector().finish()


def test_evaluation_plays_the_mean_in_chunks(policy: GaussianPolicy) -> None:
    spy = Spy(ToyTask())
    collector = _collector(spy)
    seeds = list(range(37))
    scores, again = collector.evaluate(policy, seeds), collector.evaluate(policy, seeds)
    assert [len(chunk) for chunk in spy.begun[:3]] == [16, 16, 5]
    assert scores.returns.shape == scores.metrics["last"].shape == (37,)
    np.testing.assert_array_equal(scores.returns, again.returns)
    np.testing.assert_array_equal(scores.metrics["last"], again.metrics["last"])
    assert collector.episodes_collected == 0
    one = collector.evaluate(policy, [seeds[20]])
    np.testing.assert_allclose(one.returns[0], scores.returns[20])


def test_refuses_a_policy_that_has_diverged(policy: GaussianPolicy) -> None:
    with torch.no_grad():
        policy.raw_covariance.fill_(torch.nan)
    with pytest.raises(RunStopped, match="The policy has diverged"):
        _collector().start(policy, 2)


@pytest.mark.parametrize(
    ("task", "what", "step"), [(NanReward, "reward", 4), (NanObservation, "observation", 2)], ids=["reward", "obs"]
)
def test_episodes_with_nan_or_infinity_are_left_out(
    policy: GaussianPolicy, task: Callable[[], Task], what: str, step: int, caplog: pytest.LogCaptureFixture
) -> None:
    player = Spy(task())
    collector = EpisodeCollector(player, player.task.spec, PRIMITIVE, seed=0)
    collector.start(policy, 4)
    episodes, scores = collector.finish()
    assert len(episodes) == len(scores.returns) == 2
    assert scores.failures == 2
    assert collector.episodes_collected == 4  # they were played, and count
    assert all(part.isfinite().all() for part in (episodes.state, episodes.action, episodes.reward))
    whole = EpisodeCollector(LocalPlayer(ToyTask()), player.task.spec, PRIMITIVE, seed=0)
    whole.start(policy, 4)
    torch.testing.assert_close(episodes.reward, whole.finish()[0].reward[[0, 2]])
    assert len(caplog.messages) == 2
    assert f"in its {what} at step {step} of the episode with seed {player.begun[0][1]}." in caplog.messages[0]
    assert "the run goes on" in caplog.messages[0]
    assert collector.evaluate(policy, [77, 78]).failures == 1


class AlwaysNan(NanReward):
    def play(self, reference: Array) -> EpisodeOutcomes:
        outcomes = super().play(reference)
        outcomes.reward[:] = np.nan
        return outcomes


def test_sixteen_failures_in_a_row_stop_the_run(policy: GaussianPolicy) -> None:
    collector = EpisodeCollector(LocalPlayer(AlwaysNan()), AlwaysNan.spec, PRIMITIVE, seed=0)
    for _ in range(3):  # a batch without a good episode is no reason to stop
        collector.start(policy, 5)
        episodes, scores = collector.finish()
        assert len(episodes) == len(scores.returns) == 0
        assert scores.failures == 5
    collector.start(policy, 1)
    with pytest.raises(RunStopped, match=r"toy/NanReward returned NaN in its reward at step 0 .* nothing saved"):
        collector.finish()


def test_an_evaluation_needs_one_good_episode(policy: GaussianPolicy) -> None:
    failing = EpisodeCollector(LocalPlayer(FailsAtSeed13()), FailsAtSeed13.spec, PRIMITIVE, seed=0)
    assert failing.evaluate(policy, [31, 1]).failures == 1
    with pytest.raises(RunStopped, match="None of the 1 episodes of toy could be played"):
        failing.evaluate(policy, [31])
    with pytest.raises(RunStopped, match=r"the tool is lost\. 16 episodes in a row") as caught:
        failing.evaluate(policy, [31] * 20)
    assert "Traceback" in str(caught.value)


def test_a_failed_episode_leaves_the_others_their_behaviour(policy: GaussianPolicy) -> None:
    collector = EpisodeCollector(LocalPlayer(NanReward()), NanReward.spec, PRIMITIVE, seed=0, keep_behaviour=True)
    collector.start(policy, 4)
    behaviour = collector._pending.behaviour
    episodes, _ = collector.finish()
    torch.testing.assert_close(episodes.behaviour.mean, behaviour.mean[[0, 2]])


@pytest.mark.parametrize(("share", "wide"), [(0.0, []), (0.25, [3, 7]), (0.5, [1, 3, 5, 7]), (1.0, [*range(8)])])
def test_some_episodes_explore_more_widely(policy: GaussianPolicy, share: float, wide: list[int]) -> None:
    plain, mixed = (
        _collector(**options).exploration(6, range(8)) for options in ({}, {"wide_share": share, "wide_factor": 3.0})
    )
    wanted = torch.where(torch.tensor([number in wide for number in range(8)])[:, None], 3.0 * plain, plain)
    torch.testing.assert_close(mixed, wanted, rtol=0.0, atol=0.0)
    later = _collector(wide_share=share, wide_factor=3.0).exploration(6, [3, 5])  # an episode's noise is its own
    torch.testing.assert_close(later, wanted[[3, 5]], rtol=0.0, atol=0.0)
