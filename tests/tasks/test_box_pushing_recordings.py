"""Box Pushing against recordings of the paper's environment (MuJoCo 2.3.3), thinned to every fourth instant.

Sequences: A is open loop, B tracks fast sine waves (torques saturate, speed limits break, the rod tilts), C pushes the
box by 0.3 m, E is C with a target that it reaches. The recorded arm has meshes, ours has none: in B, hand and forearm
touch after step 78.
"""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from numpy.typing import NDArray

from top_erl.tasks import make_task
from top_erl.tasks.box_pushing.arm import DAMPING, STIFFNESS
from top_erl.tasks.box_pushing.env import (
    BoxPushingEnv,
    BoxPushingFixedStartEnv,
    BoxPushingFixedStartSparseEnv,
    BoxPushingSparseEnv,
)
from top_erl.tasks.box_pushing.task import BoxPushingDense, BoxPushingFixedStartDense
from top_erl.tasks.gymnasium_task import Env

Array = NDArray[np.float64]
FOLDER = Path(__file__).parents[1] / "data" / "box_pushing"
STEPS = range(3, 100, 4)
"""The recorded steps."""
E_TARGET = (0.53134511, -0.01283888, -0.01, 0.30184608, 0.0, 0.0, 0.95335667)


def load(name: str) -> dict[str, Array]:
    with np.load(FOLDER / f"{name}.npz") as data:
        return dict(data)


def begin(env: BoxPushingEnv, name: str, seed: int) -> Array:
    return env.reset(seed=seed, options={"target": E_TARGET} if name.endswith("e") else None)[0]


def test_resets_from_200_seeds_with_a_fixed_start() -> None:
    env = BoxPushingFixedStartEnv()
    observation = np.stack([env.reset(seed=seed)[0] for seed in range(200)])
    np.testing.assert_allclose(observation, load("resets")["fixed_start"], rtol=0, atol=1e-12)


def test_a_seeded_and_49_unseeded_resets_with_a_random_start() -> None:
    env = BoxPushingEnv()
    observation = np.stack([env.reset(seed=0 if index == 0 else None)[0] for index in range(50)])
    np.testing.assert_allclose(observation, load("resets")["random_start_sequence"], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "variant", "valid", "tolerance"),
    [
        ("fixed_a", "FixedStartDense", 100, 3e-6),
        ("fixed_c", "FixedStartDense", 100, 3e-6),
        ("fixed_e", "FixedStartDense", 100, 3e-6),
        ("random_a", "Dense", 100, 1e-7),
        ("random_b", "Dense", 77, 2e-4),
    ],
)
def test_recorded_actions_give_the_recorded_episode(name: str, variant: str, valid: int, tolerance: float) -> None:
    recorded = load(name)
    env = gym.make(f"top_erl/BoxPushing{variant}-v0")
    simulation = env.unwrapped
    assert isinstance(simulation, BoxPushingEnv)
    target = {"target": E_TARGET} if name == "fixed_e" else None
    observation, _ = env.reset(seed=int(recorded["seed"]), options=target)
    np.testing.assert_allclose(observation, recorded["observation"][0], rtol=0, atol=1e-8)
    for step, action in enumerate(recorded["action"]):
        observation, reward, terminated, truncated, info = env.step(action)
        if step < valid:
            assert float(reward) == pytest.approx(recorded["reward"][step], abs=tolerance)
        if step in STEPS and step < valid:
            row = STEPS.index(step)
            np.testing.assert_allclose(observation, recorded["observation"][row + 1], rtol=0, atol=tolerance)
            np.testing.assert_allclose(simulation._control, recorded["torque"][row], rtol=0, atol=10 * tolerance)
            energy = float(((10.0 * action.clip(-1.0, 1.0)) ** 2).sum())
            measured = simulation.measure(observation, energy)
            np.testing.assert_allclose(measured, recorded["measurements"][row], rtol=1e-9, atol=tolerance)
        assert (terminated, truncated) == (step == 99 and bool(recorded["flags"][0]), step == 99)
    if valid == 100:
        end = [info[key] for key in ("box_goal_pos_dist", "box_goal_rot_dist", "episode_energy", "is_success")]
        np.testing.assert_allclose(end, recorded["info"][:4], rtol=1e-9, atol=tolerance)
    env.close()


@pytest.mark.parametrize(
    ("name", "env_class"), [("fixed_a", BoxPushingFixedStartSparseEnv), ("random_a", BoxPushingSparseEnv)]
)
def test_recorded_sparse_rewards(name: str, env_class: type[BoxPushingEnv]) -> None:
    recorded, env = load(name), env_class()
    env.reset(seed=int(recorded["seed"]))
    rewards = [env.step(action)[1] for action in recorded["action"]]
    np.testing.assert_allclose(rewards, recorded["sparse_reward"], rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "dense", "sparse", "tolerance"),
    [
        ("fixed_b", -607.531, -1231.013, 0.1),
        ("fixed_c", -197.403, -178.940, 6e-4),
        ("fixed_e", -115.686, -92.576, 6e-4),
        ("random_c", -154.189, -211.817, 6e-4),
    ],
)
def test_recorded_returns(name: str, dense: float, sparse: float, tolerance: float) -> None:
    """Sequences B and C written down as references; only the returns of the recording are known to three digits."""
    classes: tuple[type[BoxPushingEnv], type[BoxPushingEnv]] = (
        (BoxPushingFixedStartEnv, BoxPushingFixedStartSparseEnv)
        if name.startswith("fixed")
        else (BoxPushingEnv, BoxPushingSparseEnv)
    )
    for env_class, expected in zip(classes, (dense, sparse), strict=True):
        env = env_class()
        observation = begin(env, name, seed=101 if name.endswith("b") else 102)
        start, total = observation[:7], 0.0
        for step in range(100):
            offset, velocity = sine_waves(step) if name.endswith("b") else push(step)
            error = start + offset - observation[:7]
            observation, reward, *_ = env.step(STIFFNESS * error + DAMPING * (velocity - observation[7:14]))
            total += float(reward)
        assert total == pytest.approx(expected, abs=tolerance)


def sine_waves(step: int) -> tuple[Array, Array]:
    """Sequence B: desired offset and velocity of the joints."""
    size = np.array([0.8, 0.3, 0.5, 0.4, 0.6, 0.9, 1.0])
    rate = 2.0 * np.pi * np.array([0.75, 0.6, 0.5, 0.7, 0.9, 0.5, 0.8])
    time = (step + 1) * 0.02
    return size * np.sin(rate * time), size * rate * np.cos(rate * time)


def push(step: int) -> tuple[Array, Array]:
    """Sequence C: desired offset and velocity of the joints."""
    size = np.array([-0.9, 0.1, -0.3, 0.0, 0.2, 0.1, -0.3])
    s = min((step + 1) * 0.02 / 1.6, 1.0)
    return size * (10 * s**3 - 15 * s**4 + 6 * s**5), size * (30 * s**2 - 60 * s**3 + 30 * s**4) / 1.6


@pytest.mark.parametrize(
    ("name", "task_class"), [("tracked_fixed", BoxPushingFixedStartDense), ("tracked_random", BoxPushingDense)]
)
def test_tracked_references(name: str, task_class: type[BoxPushingDense], monkeypatch: pytest.MonkeyPatch) -> None:
    recorded, task = load(name), task_class()
    actions: list[Array] = []
    control = task.control

    def noted(env: Env, position: Array, velocity: Array) -> Array:
        actions.append(control(env, position, velocity))
        return actions[-1]

    monkeypatch.setattr(task, "control", noted)
    starts = task.begin([300])
    first = np.concatenate([starts.observation[0], [0.0], starts.position[0], starts.velocity[0]])
    np.testing.assert_allclose(first, recorded["first"], rtol=0, atol=1e-12)
    outcomes = task.play(recorded["desired"][None])
    steps = np.array(STEPS)
    near = {"rtol": 0, "atol": 3e-6}
    np.testing.assert_allclose(outcomes.observation[0, steps[:-1] + 1], recorded["state"][:-1], **near)
    np.testing.assert_allclose(outcomes.observation[0, steps, :7], recorded["position"], **near)
    np.testing.assert_allclose(outcomes.observation[0, steps, 7:14], recorded["velocity"], **near)
    np.testing.assert_allclose(np.stack(actions)[steps], recorded["action"], **near)
    np.testing.assert_allclose(outcomes.reward[0], recorded["reward"], **near)
    assert outcomes.reward.sum() == pytest.approx(float(recorded["total"]), abs=1e-5)
    measured = [outcomes.metrics[key][0] for key in task.spec.metrics if key != "success_any"]
    np.testing.assert_allclose(measured, recorded["final"], rtol=1e-8, atol=1e-6)


def test_native_collisions_leave_the_recording_when_the_rod_touches_the_box() -> None:
    recorded = load("fixed_c")
    errors = []
    env = gym.make("top_erl/BoxPushingFixedStartDense-v0", native_ccd=True)
    env.reset(seed=int(recorded["seed"]))
    for step, action in enumerate(recorded["action"]):
        observation, *_ = env.step(action)
        if step in STEPS:
            errors.append(np.abs(observation - recorded["observation"][STEPS.index(step) + 1]).max())
    assert max(errors[:8]) < 3e-6  # the first touch is at step 34
    assert 1e-4 < max(errors) < 1.0
    env.close()


def test_the_task_can_use_native_collisions_as_well() -> None:
    desired = load("tracked_fixed")["desired"][None]
    returns = []
    for native_ccd in (False, True):
        task = BoxPushingFixedStartDense(native_ccd=native_ccd)
        task.begin([300])
        returns.append(task.play(desired).reward.sum())
    assert returns[0] != returns[1]
    assert returns[0] == pytest.approx(returns[1], rel=0.003)


def test_all_four_are_tasks_with_the_papers_primitive() -> None:
    for name in ("Dense", "Sparse", "FixedStartDense", "FixedStartSparse"):
        spec = make_task(f"top_erl/BoxPushing{name}-v0").spec
        primitive = spec.primitive
        assert spec.num_dof * (primitive.num_basis + 1) == 63
        assert (primitive.tau, primitive.weights_scale, primitive.goal_scale) == (2.0, 0.3, 0.3)
        assert spec.context_mask is not None
        assert len(spec.context_mask) == (7 if name.startswith("Fixed") else 21)
        assert spec.duration == 2.0
