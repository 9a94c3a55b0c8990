"""The hopper's step environments against recordings of the original ones, and Gymnasium's rules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from numpy.typing import NDArray

import top_erl.tasks
from top_erl.errors import RunStopped, UserError
from top_erl.tasks.hopper_jump.env import MODEL_FILE, HopperJumpEnv, HopperJumpSparseEnv

Array = NDArray[np.float64]
DATA = Path(__file__).parents[1] / "data" / "hopper_jump"
IDS = ("top_erl/HopperJump-v0", "top_erl/HopperJumpSparse-v0")
ENVIRONMENTS = {
    "dense_a": HopperJumpEnv,
    "dense_b": HopperJumpEnv,
    "sparse_a": HopperJumpSparseEnv,
    "sparse_d": HopperJumpSparseEnv,
}


def recording(name: str) -> dict[str, Any]:
    with np.load(DATA / f"{name}.npz") as file:
        return dict(file)


def wave(amplitude: Array, frequency: Array, phase: Array) -> Array:
    """Sines, [T, 3]."""
    time = np.arange(250)[:, None] * 0.008
    return np.asarray(amplitude * np.sin(2 * np.pi * frequency * time + phase))


# ---------------------------------------------------------------------- against recordings


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_an_episode_is_the_recorded_one(name: str) -> None:
    env, recorded = ENVIRONMENTS[name](), recording(name)
    observation, _ = env.reset(seed=int(recorded["seed"]))
    observations, rewards, infos, flags, ends = [observation], [], [], [], []
    for action in recorded["action"]:
        observation, reward, terminated, truncated, info = env.step(action)
        contacts = env.contacts
        observations.append(observation)
        rewards.append(reward)
        infos.append(info)
        flags.append([contacts.has_touched_floor, contacts.has_left_floor, contacts.has_landed])
        ends.append([terminated, truncated])
    np.testing.assert_allclose(np.stack(observations)[recorded["instant"]], recorded["observation"], rtol=0, atol=1e-10)
    np.testing.assert_allclose(rewards, recorded["reward"], rtol=0, atol=1e-11)
    np.testing.assert_array_equal(flags, recorded["flags"][:, :3])
    np.testing.assert_array_equal(ends, [[False, False]] * 249 + [[False, True]])
    names = ("height", "max_height", "goal_dist", "contact_dist", "has_left_floor", "healthy_reward", "healthy")
    numbers = np.array([[float(info[name]) for name in names] for info in infos])[recorded["step"]]
    np.testing.assert_allclose(numbers, recorded["info"][:, :7], rtol=0, atol=1e-11)
    feet = np.stack([info["x_pos"] for info in infos])[recorded["step"]]  # a history, since they are copies
    np.testing.assert_allclose(feet, recorded["info"][:, 10:], rtol=0, atol=1e-11)
    assert [info["num_steps"] for info in infos] == list(range(1, 251))
    assert all(info["height_rew"] == info["max_height"] for info in infos)


@pytest.mark.parametrize("kind", [HopperJumpEnv, HopperJumpSparseEnv])
def test_two_hundred_resets_are_the_recorded_ones(kind: type[HopperJumpEnv]) -> None:
    env, recorded = kind(), recording("reset")
    starts = [env.reset(seed=int(seed))[0] for seed in recorded["seed"]]
    np.testing.assert_allclose(np.stack(starts), recorded["observation"], rtol=0, atol=1e-12)
    np.testing.assert_allclose(np.stack(starts)[:, 15], recorded["goal"][:, 0], rtol=0, atol=1e-15)


def test_returns_of_wide_swings() -> None:
    """Actions beyond the limits: the motors clip them, their cost does not."""
    action = wave(np.array([1.3, 1.1, 0.9]), 1 + 0.4 * np.arange(3), np.array([0, 0.5, -0.4]))
    for kind, expected in ((HopperJumpEnv, 127.782993), (HopperJumpSparseEnv, 8.570166)):
        env = kind()
        env.reset(seed=201)
        assert sum(env.step(row)[1] for row in action) == pytest.approx(expected, abs=1e-6)


def test_the_dynamics_are_those_of_gymnasiums_hopper() -> None:
    """An outside check: its geometry is the same, written differently; only its joint ranges have more digits."""
    file = Path(gym.__file__).parent / "envs" / "mujoco" / "assets" / "hopper.xml"
    theirs, ours = mujoco.MjModel.from_xml_path(str(file)), mujoco.MjModel.from_xml_path(str(MODEL_FILE))
    np.testing.assert_allclose(ours.jnt_range, theirs.jnt_range, rtol=0, atol=5e-6)
    ours.jnt_range[:] = theirs.jnt_range
    for name in ENVIRONMENTS:
        recorded = recording(name)
        states = []
        for model in (theirs, ours):
            data = mujoco.MjData(model)
            data.qpos[:] = recorded["observation"][0, :6]
            for action in recorded["action"]:
                data.ctrl[:] = action
                mujoco.mj_step(model, data, 4)
            states.append(np.concatenate((data.qpos, data.qvel)))
        np.testing.assert_allclose(states[1], states[0], rtol=0, atol=1e-10)


# ---------------------------------------------------------------------- Gymnasium's rules


@pytest.mark.parametrize("id", IDS)
@pytest.mark.filterwarnings("ignore:.*Box observation space m.*imum value is -?infinity")
def test_gymnasium_checks_pass(id: str) -> None:
    env = gym.make(id, render_mode="rgb_array")
    check_env(env.unwrapped)
    env.close()
    assert env.spec is not None
    assert env.spec.max_episode_steps == 250
    assert env.observation_space.shape == (16,)
    assert env.observation_space.dtype == np.float64
    assert env.action_space.shape == (3,)


def test_observations_lie_in_their_space() -> None:
    env = HopperJumpEnv()
    env.reset(seed=1)
    for action in wave(np.full(3, 9.0), np.full(3, 8.0), np.arange(3.0)):
        observation, *_ = env.step(action)
        assert env.observation_space.contains(observation)


def test_unseeded_resets_go_on_with_the_generator() -> None:
    draws = [[env.reset(seed=3)[0], env.reset()[0]] for env in (HopperJumpEnv(), HopperJumpEnv())]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert (draws[0][0] != draws[0][1]).any()


def test_an_episode_does_not_depend_on_earlier_ones() -> None:
    used, fresh = HopperJumpSparseEnv(), HopperJumpSparseEnv()
    for seed in (5, 6):
        used.reset(seed=seed)
        for action in wave(np.full(3, 1.0), np.full(3, 2.0), np.arange(3.0) + seed)[: 100 * seed - 400]:
            used.step(action)
    episodes = []
    for env in (used, fresh):
        numbers = [env.reset(seed=7)[0]]
        for action in wave(np.full(3, 0.7), np.full(3, 1.5), np.arange(3.0)):
            observation, reward, _, _, info = env.step(action)
            numbers += [observation, np.array([reward, info["max_height"], info["contact_dist"]])]
        episodes.append(np.concatenate(numbers).tobytes())
    assert episodes[0] == episodes[1]


def test_rendering() -> None:
    env = HopperJumpEnv(render_mode="rgb_array")
    assert env.render() is None
    env.reset(seed=0)
    before = env.render()
    for _ in range(40):
        env.step(np.zeros(3))
    after = env.render()
    env.close()
    assert before is not None
    assert after is not None
    assert before.shape == after.shape == (480, 640, 3)
    assert before.std() > 10  # a scene, not a blank
    assert (before != after).any(-1).mean() > 0.01
    assert env.metadata["render_fps"] == 125
    with pytest.raises(UserError, match="'human'"):
        HopperJumpEnv(render_mode="human")
    silent = HopperJumpEnv()
    silent.reset(seed=0)
    assert silent.render() is None


def test_the_goal_is_where_it_is_drawn() -> None:
    env = HopperJumpSparseEnv()
    for seed in (0, 1):
        observation, _ = env.reset(seed=seed)
        np.testing.assert_array_equal(env.data.body("goal").xpos, [observation[15], 0.0, 0.0])


def test_drawing_does_not_change_the_episode() -> None:
    seen, unseen = HopperJumpEnv(render_mode="rgb_array"), HopperJumpEnv()
    for env in (seen, unseen):
        env.reset(seed=2)
        for step in range(60):
            env.step(np.full(3, 0.3))
            if step % 20 == 0:
                env.render()
    seen.close()
    assert seen.data.qpos.tobytes() == unseen.data.qpos.tobytes()


def test_stepping_outside_an_episode_is_explained() -> None:
    env = HopperJumpEnv()
    with pytest.raises(UserError, match="call reset"):
        env.step(np.zeros(3))
    env.reset(seed=0)
    for _ in range(250):
        env.step(np.zeros(3))
    with pytest.raises(UserError, match="call reset"):
        env.step(np.zeros(3))


def test_a_wrong_action_is_explained() -> None:
    env = HopperJumpEnv()
    env.reset(seed=0)
    with pytest.raises(UserError, match=r"an action of shape \(3,\), got \(2,\)"):
        env.step(np.zeros(2))


def test_a_simulation_that_explodes_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # MuJoCo writes a log file
    env = HopperJumpEnv()
    env.reset(seed=0)
    env.step(np.zeros(3))
    env.data.qvel[3] = 1e12
    with pytest.raises(RunStopped, match="HopperJumpEnv became unstable after step 1"):
        env.step(np.zeros(3))


def test_gymnasium_finds_the_environment_by_module_and_id_in_a_fresh_process() -> None:
    code = (
        f"import sys, gymnasium; gymnasium.make('top_erl.tasks:{IDS[1]}').reset(seed=0); print('torch' in sys.modules)"
    )
    command = [sys.executable, "-W", "error", "-c", code]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == ["False"]
    assert set(IDS) <= set(top_erl.tasks.task_ids())
