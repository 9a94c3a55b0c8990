"""Box Pushing as a step environment and as a task: rules, purity, mistakes, pictures."""

from __future__ import annotations

import copy
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from numpy.typing import NDArray

from top_erl.errors import RunStopped, UserError
from top_erl.tasks import make_task
from top_erl.tasks.box_pushing.env import BoxPushingEnv, BoxPushingFixedStartEnv, BoxPushingSparseEnv
from top_erl.tasks.box_pushing.model import simulation_model
from top_erl.tasks.box_pushing.task import BoxPushingDense
from top_erl.tasks.rendering import mujoco

Array = NDArray[np.float64]
IDS = [f"top_erl/BoxPushing{name}-v0" for name in ("Dense", "Sparse", "FixedStartDense", "FixedStartSparse")]


def reference(position: Array, seed: int) -> Array:
    """Smooth motions away from joint positions, [B, 7], to references, [B, T, 14]."""
    s = np.linspace(0.01, 1.0, 100)[:, None]
    size = np.random.default_rng(seed).normal(0.0, 0.4, (len(position), 1, 7))
    return np.concatenate(
        [position[:, None] + size * (10 * s**3 - 15 * s**4 + 6 * s**5), size * (15 * s**2 - 30 * s**3 + 15 * s**4)],
        axis=-1,
    )


@pytest.mark.filterwarnings("ignore:.*(minimum|maximum) value is -?infinity")
@pytest.mark.parametrize("name", IDS)
def test_gymnasium_checks_pass(name: str) -> None:
    env = gym.make(name)
    assert env.observation_space.shape == (28,)
    assert env.observation_space.dtype == np.float64
    assert env.action_space.shape == (7,)
    check_env(env.unwrapped)


@pytest.mark.parametrize("name", IDS)
def test_stepping_with_the_controllers_torques_is_the_episode(name: str) -> None:
    task, env = make_task(name), gym.make(name)
    assert isinstance(task, BoxPushingDense)
    starts = task.begin([5])
    desired = reference(starts.position, 0)
    outcomes = task.play(desired)
    observation, _ = env.reset(seed=5)
    for step, row in enumerate(desired[0]):
        assert observation.tobytes() == outcomes.observation[0, step].tobytes()
        position, velocity = task.measured_state(observation)
        kp, kd = [1.2, 1.2, 1.2, 1.2, 0.5, 0.3, 0.1], [0.1, 0.1, 0.1, 0.1, 0.06, 0.05, 0.03]
        action = np.clip(kp * (row[:7] - position) + kd * (row[7:] - velocity), -1.0, 1.0)
        observation, reward, _, _, info = env.step(action)
        assert reward == outcomes.reward[0, step]
    assert info["is_success"] == bool(outcomes.metrics["success"][0])
    for key in ("box_goal_pos_dist", "box_goal_rot_dist", "episode_energy"):
        assert info[key] == outcomes.metrics[key][0]
    assert outcomes.observation[0, 0].tobytes() == starts.observation[0].tobytes()


def test_an_episode_depends_on_seed_and_reference_only() -> None:
    task = BoxPushingDense()
    starts = task.begin([11, 12, 13])
    desired = reference(starts.position, 1)
    together = task.play(desired)
    wild = np.random.default_rng(0).normal(0.0, 3.0, (2, 100, 14))
    task.begin([13, 40])
    task.play(wild)
    for index, (seed, player) in enumerate(zip((11, 12, 13), (task, BoxPushingDense(), task), strict=True)):
        player.begin([seed])
        alone = player.play(desired[index : index + 1])
        assert alone.observation[0].tobytes() == together.observation[index].tobytes()
        assert alone.reward[0].tobytes() == together.reward[index].tobytes()
        for key, values in together.metrics.items():
            assert alone.metrics[key][0] == values[index]


def test_info_is_zero_before_the_last_step() -> None:
    env = BoxPushingEnv()
    env.reset(seed=0)
    action = np.array([0.1, -0.2, 0.0, 0.0, 2.0, 0.0, 0.0])  # 2 is clipped to 1
    for step in range(1, 101):
        *_, terminated, truncated, info = env.step(action)
        last = step == 100
        assert info["num_steps"] == step
        assert info["episode_end"] is last
        assert (info["box_goal_pos_dist"] > 0) == (info["box_goal_rot_dist"] > 0) == last
        assert info["is_success"] is False
        assert (terminated, truncated) == (False, last)
        assert info["episode_energy"] == pytest.approx(100 * (1.0 + 4.0 + 100.0) if last else 0.0)
    with pytest.raises(UserError, match="call reset"):
        env.step(action)


def test_poses_are_one_physics_step_old_and_torques_are_held() -> None:
    env, model = BoxPushingEnv(), simulation_model(False)
    env.reset(seed=3)
    action = np.array([0.4, 0.2, -0.4, 0.3, 0.0, 0.0, 5.0])
    for _ in range(30):
        twin = copy.copy(env._data)
        torque = 10.0 * action.clip(-1.0, 1.0) + twin.qfrc_bias[:7]
        twin.ctrl[:] = torque.clip([-90.0] * 4 + [-12.0] * 3, [90.0] * 4 + [12.0] * 3)
        mujoco.mj_step(model, twin, 9)
        before = twin.qpos.copy()
        mujoco.mj_step(model, twin, 1)
        observation, *_ = env.step(action)
        np.testing.assert_array_equal(observation[:7], twin.qpos[:7])
        np.testing.assert_array_equal(observation[7:14], twin.qvel[:7])
        np.testing.assert_allclose(observation[14:21], before[9:16], rtol=0, atol=1e-15)
    assert np.abs(observation[14:17] - twin.qpos[9:12]).max() > 1e-5  # the box moves: its newest pose is another


def test_the_box_settles_where_it_starts() -> None:
    env = BoxPushingFixedStartEnv()
    observation, info = env.reset(seed=0)
    assert info == {}
    for _ in range(20):
        observation, *_ = env.step(np.zeros(7))
    assert observation[14:16] == pytest.approx([0.4, 0.3], abs=1e-4)
    assert observation[16] == pytest.approx(-0.0092, abs=2e-4)


def test_observations_are_not_shared_memory() -> None:
    env = BoxPushingEnv()
    first, _ = env.reset(seed=0)
    kept = first.copy()
    second, *_ = env.step(np.ones(7))
    assert (first == kept).all()
    assert (second[:14] != first[:14]).any()


def test_a_target_of_ones_own() -> None:
    env, plain = BoxPushingEnv(), BoxPushingEnv()
    observation, _ = env.reset(seed=4, options={"target": (0.5, 0.1, -0.01, 2.0, 0.0, 0.0, 0.0)})
    assert observation[21:].tolist() == [0.5, 0.1, -0.01, 1.0, 0.0, 0.0, 0.0]
    usual, _ = plain.reset(seed=4)
    assert (observation[:21] == usual[:21]).all()
    assert (env.reset()[0] == plain.reset()[0]).all()  # it takes nothing from the random numbers
    for wrong in ({"goal": (0.5, 0.1)}, {"target": (0.5, 0.1)}, {"target": [np.nan] * 7}):
        with pytest.raises(UserError, match="only option of reset is 'target'"):
            env.reset(options=wrong)
    with pytest.raises(UserError, match="quaternion is zero"):
        env.reset(options={"target": [0.0] * 7})


def test_mistakes_are_explained() -> None:
    env = BoxPushingSparseEnv()
    with pytest.raises(UserError, match="call reset"):
        env.step(np.zeros(7))
    env.reset(seed=0)
    with pytest.raises(UserError, match=r"has shape \(7,\), not \(3,\)"):
        env.step(np.zeros(3))
    with pytest.raises(UserError, match="holds NaN"):
        env.step(np.array([0.0, np.nan, 0.0, 0.0, 0.0, 0.0, 0.0]))
    with pytest.raises(UserError, match="'human'"):
        BoxPushingSparseEnv(render_mode="human")


def test_a_reference_with_nan_is_refused() -> None:
    task = BoxPushingDense()
    desired = reference(task.begin([0]).position, 0)
    desired[0, 20, 3] = np.nan
    with pytest.raises(RunStopped, match="NaN at step 20 of episode 0"):
        task.play(desired)


def test_an_exploded_simulation_is_reported() -> None:
    env = BoxPushingEnv()
    env.reset(seed=0)
    env.step(np.zeros(7))
    env._data.time = 0.0  # what MuJoCo does when numbers explode
    with pytest.raises(RunStopped, match="exploded at step 1"):
        env.step(np.zeros(7))


def test_making_a_task_builds_no_simulator() -> None:
    code = (
        "import sys; from top_erl.tasks import make_task; "
        "tasks = [make_task(f'top_erl/BoxPushing{name}-v0') for name in ('Dense', 'FixedStartSparse')]; "
        "print('mujoco' in sys.modules, 'torch' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["False", "False"]


def test_pictures_do_not_change_the_episode() -> None:
    watched, blind = BoxPushingEnv(render_mode="rgb_array"), BoxPushingEnv()
    assert watched.render() is None
    watched.reset(seed=0)
    blind.reset(seed=0)
    pictures = []
    for step in range(12):
        action = np.full(7, 0.3)
        first, second = watched.step(action), blind.step(action)
        if step % 4 == 0:
            pictures.append(watched.render())
        assert first[0].tobytes() == second[0].tobytes()
        assert first[1] == second[1]
    assert pictures[0] is not None
    assert pictures[0].shape == (480, 640, 3)
    assert pictures[0].dtype == np.uint8
    assert pictures[0].std() > 20
    assert pictures[-1] is not None
    assert (pictures[0] != pictures[-1]).any()
    assert blind.render() is None
    watched.close()
    watched.close()


def test_the_camera_sees_the_target() -> None:
    env = BoxPushingEnv(render_mode="rgb_array")
    pictures = []
    for y in (-0.2, 0.2):
        env.reset(seed=0, options={"target": (0.5, y, -0.01, 1.0, 0.0, 0.0, 0.0)})
        picture = env.render()
        assert picture is not None
        red, green, blue = (picture[..., channel].astype(int) for channel in range(3))
        columns = np.nonzero((green > red + 40) & (green > blue + 20))[1]
        assert len(columns) > 200
        pictures.append(columns.mean())
    assert pictures[1] > pictures[0] + 50  # left of the robot is right in the picture
    env.close()
