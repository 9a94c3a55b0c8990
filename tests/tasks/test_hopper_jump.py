"""The hopper's episodic tasks: tracking, re-arranged rewards, purity."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from top_erl.tasks import PrimitiveConfig, make_task
from top_erl.tasks.hopper_jump.env import DT, HORIZON, HopperJumpSparseEnv
from top_erl.tasks.hopper_jump.task import HopperJump, HopperJumpSparse

Array = NDArray[np.float64]
DATA = Path(__file__).parents[1] / "data" / "hopper_jump"
TASKS = {"tracked_dense": HopperJump, "tracked_sparse": HopperJumpSparse}


def recording(name: str) -> dict[str, Any]:
    with np.load(DATA / f"{name}.npz") as file:
        return dict(file)


def minimum_jerk(begin: Array, end: Array, since: float, until: float, times: Array) -> tuple[Array, Array]:
    """Positions and velocities, [T, 3] each, of the smoothest way from one posture to another; at rest outside it."""
    share = np.clip((times - since) / (until - since), 0.0, 1.0)[:, None]
    position = begin + (end - begin) * (10 * share**3 - 15 * share**4 + 6 * share**5)
    velocity = (end - begin) * (30 * share**2 - 60 * share**3 + 30 * share**4) / (until - since)
    return position, velocity


def crouch_and_jump(start: Array) -> Array:
    """A reference, [T, 6]: wait for the landing, crouch, stretch."""
    times = np.arange(1, HORIZON + 1) * DT
    crouched, stretched = np.array([-0.9, -1.4, 0.5]), np.array([-0.05, -0.05, -0.5])
    down = np.concatenate(minimum_jerk(start, crouched, 0.6, 1.1, times), axis=1)
    up = np.concatenate(minimum_jerk(crouched, stretched, 1.1, 1.25, times), axis=1)
    return np.where(times[:, None] <= 1.1, down, up)


def wild(seed: int) -> Array:
    """A reference, [T, 6], that swings about."""
    phase = np.random.default_rng(seed).uniform(0, 6, (2, 3))
    times = np.arange(1, HORIZON + 1)[:, None] * DT
    position = -0.6 + 0.6 * np.sin(8 * times + phase[0])
    return np.concatenate((position, 4.8 * np.cos(8 * times + phase[1])), axis=1)


@pytest.mark.parametrize("name", TASKS)
def test_tracking_is_the_recorded_one(name: str) -> None:
    task, recorded = TASKS[name](), recording(name)
    starts = task.begin([int(recorded["seed"])])
    np.testing.assert_allclose(starts.observation[0], recorded["init"][:16], rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        np.concatenate((starts.position[0], starts.velocity[0])), recorded["init"][17:], rtol=0, atol=1e-12
    )
    outcomes = task.play(recorded["desired"][None])
    after = recorded["step"][recorded["step"] < HORIZON - 1]  # recorded states are those after a step
    np.testing.assert_allclose(
        outcomes.observation[0, after + 1], recorded["state"][: len(after), :16], rtol=0, atol=1e-10
    )
    np.testing.assert_allclose(outcomes.reward[0], recorded["mdp_reward"], rtol=0, atol=1e-11)
    assert outcomes.reward.sum() == pytest.approx(float(recorded["episode_return"]), abs=1e-9)
    metrics = [outcomes.metrics[metric][0] for metric in task.spec.metrics]
    np.testing.assert_allclose(metrics, recorded["metrics"], rtol=0, atol=1e-11)


@pytest.mark.parametrize("name", TASKS)
def test_rewards_can_be_left_as_they_are_paid(name: str) -> None:
    task, recorded = TASKS[name](markov_reward=False), recording(name)
    task.begin([int(recorded["seed"])])
    reward = task.play(recorded["desired"][None]).reward[0]
    np.testing.assert_allclose(reward, recorded["reward"], rtol=0, atol=1e-11)


@pytest.mark.parametrize("name", TASKS)
def test_rewards_move_to_take_off(name: str) -> None:
    task, recorded = TASKS[name](), recording(name)
    task.begin([int(recorded["seed"])])
    reward = task.play(recorded["desired"][None]).reward[0]
    take_off = int(recorded["left_floor"].argmax())
    assert 0 < take_off < 200
    assert not reward[take_off + 1 :].any()
    np.testing.assert_allclose(reward[:take_off], recorded["reward"][:take_off], rtol=0, atol=1e-11)


@pytest.mark.parametrize(("kind", "expected"), [(HopperJump, -95.486030), (HopperJumpSparse, 11.121186)])
def test_return_of_a_jump(kind: type[HopperJumpSparse], expected: float) -> None:
    task = kind()
    starts = task.begin([202])
    outcomes = task.play(crouch_and_jump(starts.position[0])[None])
    assert outcomes.reward.sum() == pytest.approx(expected, abs=1e-6)


def test_stepping_with_the_controllers_action_is_the_episode() -> None:
    task, env = HopperJumpSparse(markov_reward=False), HopperJumpSparseEnv()
    task.begin([11])
    outcomes = task.play(wild(11)[None])
    observation, _ = env.reset(seed=11)
    for step, desired in enumerate(wild(11)):
        assert observation.tobytes() == outcomes.observation[0, step].tobytes()
        # by hand, from the unclipped state
        error = desired - np.concatenate((env.data.qpos[3:], env.data.qvel[3:]))
        observation, reward, _, _, info = env.step(np.clip(1.0 * error[:3] + 0.1 * error[3:], -1, 1))
        assert reward == outcomes.reward[0, step]
    for name, value in outcomes.metrics.items():
        assert value[0] == info["contact_dist" if name == "landing_dist" else name]


def test_an_episode_is_a_pure_function_of_seed_and_reference() -> None:
    used = HopperJumpSparse()
    used.begin([1, 2, 3])
    used.play(np.stack([wild(seed) for seed in (1, 2, 3)]))
    used.begin([9, 4, 5])  # other episodes, in environments that have been played in
    together = used.play(np.stack([wild(seed) for seed in (9, 4, 5)]))
    for index, seed in enumerate((9, 4, 5)):
        fresh = HopperJumpSparse()
        fresh.begin([seed])
        alone = fresh.play(wild(seed)[None])
        assert together.observation[index].tobytes() == alone.observation[0].tobytes()
        assert together.reward[index].tobytes() == alone.reward[0].tobytes()
        assert all(together.metrics[name][index] == alone.metrics[name][0] for name in alone.metrics)
    used.begin([4])  # a smaller batch takes its own environment's take-off
    assert used.play(wild(4)[None]).reward.tobytes() == together.reward[1].tobytes()


def test_a_robot_that_never_lands_is_far_from_the_goal() -> None:
    task = HopperJumpSparse()
    starts = task.begin([0])
    rest = np.concatenate((starts.position, starts.velocity), axis=1).repeat(HORIZON, axis=0)  # [T, 6]: stand
    metrics = task.play(rest[None]).metrics
    assert metrics["has_left_floor"][0] == 0.0
    assert metrics["landing_dist"][0] == 5.0


def test_measured_state_is_read_off_the_first_observation() -> None:
    task = HopperJumpSparse()
    starts = task.begin([0, 1])
    position, velocity = task.measured_state(starts.observation)
    np.testing.assert_array_equal(position, starts.position)
    np.testing.assert_array_equal(velocity, starts.velocity)
    assert not velocity.any()


@pytest.mark.parametrize("id", ["top_erl/HopperJump-v0", "top_erl/HopperJumpSparse-v0"])
def test_facts(id: str) -> None:
    spec = make_task(id).spec
    assert spec.id == id
    assert (spec.observation_dim, spec.num_dof, spec.horizon, spec.dt, spec.stride) == (16, 3, HORIZON, DT, 1)
    assert spec.primitive == PrimitiveConfig(num_basis=3, tau=0.8)
    assert spec.context_mask == (3, 4, 5, 15)
    assert "success" not in spec.metrics


def test_making_a_task_builds_no_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "top_erl.tasks.hopper_jump.env", None)  # importing it would fail
    assert make_task("top_erl/HopperJumpSparse-v0").spec.horizon == 250
