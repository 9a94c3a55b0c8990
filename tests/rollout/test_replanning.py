"""Plans that follow each other: continuous references, when they are made, and what is known of them afterwards."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from tests.rollout.toy_tasks import PointTask
from top_erl.models import GaussianPolicy, PolicyConfig
from top_erl.models.tools import seeded
from top_erl.primitives import make_primitive
from top_erl.primitives.plans import PlanMovements
from top_erl.rollout.player import LocalPlayer
from top_erl.rollout.replanning import ReplanningCollector
from top_erl.rollout.replay import EpisodeReplay
from top_erl.rollout.tokens import Rollout
from top_erl.tasks import Task
from top_erl.tasks.via_point_reacher.task import ViaPointReacher, ViaPointReacherJump

CLOCKS = ["episode", "rest", "plan"]


def _collector(
    task: Task, clock: Any = "rest", every: int = 10, kind: str = "prodmp", **options: Any
) -> ReplanningCollector:
    spec = task.spec
    primitive = make_primitive(replace(spec.primitive, kind=kind), spec.num_dof, spec.dt)
    movements = PlanMovements(primitive, spec.horizon, every=every, clock=clock)
    return ReplanningCollector(LocalPlayer(task), spec, movements, every=every, seed=3, **options)


def _policy(collector: ReplanningCollector, std: float = 1.0) -> GaussianPolicy:
    spec, size = collector.spec, collector.primitive.num_params
    with seeded(0):
        inputs = spec.observation_dim + 1 + collector.plan_inputs
        return GaussianPolicy(PolicyConfig(hidden=(16,), initial_std=std), inputs, size)


def _explored(collector: ReplanningCollector, count: int, std: float = 1.0) -> Rollout:
    collector.start(_policy(collector, std), count)
    rollout, _ = collector.finish_rollout()
    return rollout


@pytest.mark.parametrize(("clock", "kind"), [*((clock, "prodmp") for clock in CLOCKS), ("rest", "bspline")])
def test_references_are_continuous(clock: str, kind: str) -> None:
    """100 exploring episodes: a plan passes through position and velocity of the one before, at the very instant."""
    collector = _collector(ViaPointReacherJump(), clock, kind=kind, stride=2, random=True)
    rollout, dt, dof = _explored(collector, 100), collector.spec.dt, collector.spec.num_dof
    span = np.ptp(rollout.reference.reshape(-1, 2 * dof), axis=0)
    plans, movements = rollout.plans, collector.movements
    assert plans is not None
    assert len(plans.start) > 400
    worst = 0.0
    for episode, start, params in zip(plans.episode, plans.start, plans.params, strict=True):
        if not start:
            continue
        before = torch.from_numpy(rollout.reference[episode, start - 1])  # at time start · dt
        basis = movements.basis(int(start), torch.tensor([float(start) - 1, float(start)], dtype=torch.float64))
        origin = torch.from_numpy(rollout.position[episode]) if movements.needs_origin else None
        state = (params.double()[None], *before.chunk(2), origin)
        through = movements.primitive.segments(basis[None], *state)[0]  # [2, 2D]
        worst = max(worst, float(np.abs((through[0] - before).numpy() / span).max()))
        np.testing.assert_allclose(through[1], rollout.reference[episode, start], rtol=1e-9, atol=1e-12)
    assert worst <= 1e-6
    # What is executed has no jumps either: no step is longer than its velocities say, with room for acceleration.
    reference = np.concatenate(
        (np.concatenate((rollout.position, rollout.velocity), axis=-1)[:, None], rollout.reference), axis=1
    )
    position, velocity = np.split(reference, 2, axis=-1)
    moved, speed = np.diff(position, axis=1) / dt, np.maximum(np.abs(velocity[:, 1:]), np.abs(velocity[:, :-1]))
    assert np.percentile(np.abs(moved) - speed, 99) < 0.05 * span[dof:].max()


def test_the_first_plan_is_that_of_the_whole_movement() -> None:
    """On every clock: the rest is the whole episode at its start, and a plan lasts as long as that unless told."""
    task = ViaPointReacher()
    spec = task.spec
    primitive = make_primitive(spec.primitive, spec.num_dof, spec.dt)
    times = torch.arange(1, spec.horizon + 1, dtype=torch.float64) * spec.dt
    generator = torch.Generator().manual_seed(0)
    params, position, velocity = (
        torch.randn(4, size, generator=generator, dtype=torch.float64) for size in (primitive.num_params, 5, 5)
    )
    whole = primitive.trajectory(params, times, 0.0, position, velocity).stacked()
    for clock in ("plan", "episode", "rest"):
        movements = PlanMovements(primitive, spec.horizon, every=10, clock=clock)  # type: ignore[arg-type]
        torch.testing.assert_close(movements.reference(0, params, position, velocity), whole, rtol=1e-10, atol=1e-11)
    grid = movements.grid(2, torch.device("cpu"), torch.float64).table  # [25, 25, 2, G + 2]
    torch.testing.assert_close(grid[7, 9:], movements.basis(14, torch.arange(18.0, 50.0, 2.0).double()))
    assert grid[7, :7].isnan().all()


@pytest.mark.parametrize("relative", [True, False])
def test_with_the_same_parameters_a_plan_goes_on_as_the_one_before(relative: bool) -> None:
    """On the episode's clock: so a policy that sees nothing new changes nothing."""
    spec = ViaPointReacher().spec
    primitive = make_primitive(replace(spec.primitive, relative_goal=relative), spec.num_dof, spec.dt)
    movements = PlanMovements(primitive, spec.horizon, every=10, clock="episode")
    params = torch.randn(1, primitive.num_params, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    position, velocity = torch.full((1, 5), 0.3, dtype=torch.float64), torch.zeros(1, 5, dtype=torch.float64)
    whole = movements.reference(0, params, position, velocity, position)
    later = movements.reference(20, params, *whole[:, 19].chunk(2, dim=-1), position)
    assert movements.needs_origin is relative
    torch.testing.assert_close(later, whole[:, 20:], rtol=0.0, atol=1e-6)  # tables of ProDMP are interpolated


def test_a_stored_episode_knows_its_plans() -> None:
    """Start, parameters, and what they were drawn around; with the reference there they are the actions executed."""
    collector = _collector(ViaPointReacherJump(), stride=2, random=True)
    rollout = _explored(collector, 6)
    replay = EpisodeReplay(8)
    replay.add(collector.stored(rollout))
    copy = EpisodeReplay(8)
    copy.load_state_dict(replay.state_dict())
    batch, plans = copy.gather(torch.tensor([4, 1])), rollout.plans
    assert batch.plans is not None
    assert plans is not None
    grid, size = collector.movements.grid(2, torch.device("cpu")), collector.primitive.num_params
    for row, episode in enumerate((4, 1)):
        starts = torch.nonzero(batch.plans[row, :, 0]).flatten()
        assert (2 * starts).tolist() == plans.start[plans.episode == episode].tolist()
        for first, stop in zip(starts.tolist(), [*starts.tolist()[1:], 25], strict=True):
            params, mean = batch.plans[row, first, 1:].split(size)
            assert not torch.equal(params, mean)
            basis = grid.basis(torch.tensor([first]), torch.arange(first, stop)[None])
            position, velocity = batch.reference[row, first].chunk(2)
            actions = collector.primitive.segments(basis, params[None], position[None], velocity[None])[0]
            torch.testing.assert_close(actions, batch.action[row, first:stop], rtol=1e-4, atol=1e-4)


def test_when_plans_are_made() -> None:
    plans = _explored(_collector(PointTask(), every=3, stride=1), 4).plans
    assert plans is not None
    for episode in range(4):
        assert plans.start[plans.episode == episode].tolist() == [0, 3, 6]
    random = _collector(ViaPointReacher(), stride=2, random=True)
    times = [random._random_times(number) for number in range(2000)]
    assert times[5] == random._random_times(5)  # of the episode's number alone
    assert all(step % 2 == 0 and 0 < step < 50 for row in times for step in row)
    assert np.mean([len(row) for row in times]) == pytest.approx(24 * 2 / 10, abs=0.15)  # 24 tokens, chance 1/5
    assert len({tuple(row) for row in times}) > 1000


def test_episodes_depend_on_their_number_only() -> None:
    whole = _explored(_collector(ViaPointReacherJump(), random=True), 5)
    parts = _collector(ViaPointReacherJump(), random=True)
    first, rest = _explored(parts, 2), _explored(parts, 3)
    np.testing.assert_allclose(np.concatenate((first.reference, rest.reference)), whole.reference, atol=1e-5)
    assert first.plans is not None
    assert whole.plans is not None
    assert set(zip(first.plans.episode, first.plans.start, strict=True)) == {
        (episode, start) for episode, start in zip(whole.plans.episode, whole.plans.start, strict=True) if episode < 2
    }


def test_every_plan_has_noise_of_its_own_and_evaluations_have_none() -> None:
    collector = _collector(ViaPointReacher())
    rollout = _explored(collector, 3)
    plans = rollout.plans
    assert plans is not None
    noise = (plans.params - plans.behaviour.mean) / plans.behaviour.std()
    assert len(torch.unique(noise)) == noise.numel()
    mean, _ = collector.play(_policy(collector), [1, 2])
    assert mean.plans is not None
    assert torch.equal(mean.plans.params, mean.plans.behaviour.mean)
    assert mean.plans.start.tolist() == [0, 0, 10, 10, 20, 20, 30, 30, 40, 40]


def test_a_judge_decides_whether_a_new_plan_is_taken() -> None:
    asked: list[tuple[int, tuple[int, ...], tuple[int, ...]]] = []

    def judge(state: Any, step: int, old: Any, new: Any) -> Any:
        asked.append((step, state.shape, new.shape))
        assert old.shape == new.shape
        return np.arange(len(state)) % 2 == (step // 10) % 2

    collector = _collector(ViaPointReacher())
    collector.make_judge = lambda: judge
    plans = _explored(collector, 4).plans
    assert asked == [(step, (4, 17), (4, 50 - step, 10)) for step in (10, 20, 30, 40)]
    assert plans is not None
    assert plans.start[plans.episode == 0].tolist() == [0, 20, 40]
    assert plans.start[plans.episode == 1].tolist() == [0, 10, 30]


def test_a_goal_that_jumps_is_seen_after_the_jump_and_answered() -> None:
    """A policy that heads for the goal that it sees has another one after the jump."""
    task = ViaPointReacherJump()
    collector = _collector(task)
    rollout, _ = collector.play(_policy(collector), list(range(40)))
    goals = rollout.state[..., 14:16]
    changes = [np.flatnonzero((goals[row, 1:] != goals[row, :-1]).any(-1)) + 1 for row in range(40)]
    assert all(len(change) == 1 and 10 <= change[0] <= 30 for change in changes)
    assert len({int(change[0]) for change in changes}) > 10
    assert (rollout.state[..., 12:14] == rollout.state[:, :1, 12:14]).all()  # the via point stays
    plans = rollout.plans
    assert plans is not None
    first, last = (plans.behaviour.mean[plans.start == start] for start in (0, 40))
    assert float((first - last).abs().max()) > 1e-3
