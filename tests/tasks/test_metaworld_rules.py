"""What is the same for all Meta-World tasks: names, controller, starts, instants, pictures, and errors."""

import importlib.metadata
import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from metaworld.utils.reward_utils import tolerance
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from top_erl.errors import RunStopped, UserError
from top_erl.tasks import make_task, task_ids
from top_erl.tasks.metaworld import simulator as simulator_module
from top_erl.tasks.metaworld.arithmetic import quaternion_of, quick_tolerance
from top_erl.tasks.metaworld.env import MetaworldEnv
from top_erl.tasks.metaworld.facts import TASKS
from top_erl.tasks.metaworld.task import MetaworldTask

Array = NDArray[np.float64]


@pytest.fixture(scope="module")
def reach() -> Iterator[MetaworldEnv]:
    env = MetaworldEnv("reach-v3", render_mode="rgb_array")
    yield env
    env.close()


@pytest.fixture(scope="module")
def task() -> Iterator[MetaworldTask]:
    made = MetaworldTask("reach-v3")
    yield made
    made.close()


def hold(position: Array) -> Array:
    """A reference that stays at a position, [T, 8]."""
    return np.concatenate([np.tile(position, (500, 1)), np.zeros((500, 4))], axis=1)


def test_all_names_are_known_without_the_package() -> None:
    code = (
        "import sys; from top_erl.tasks import make_task, task_ids\n"
        "specs = [make_task(name).spec for name in task_ids() if name.startswith('metaworld/')]\n"
        "assert len(specs) == 52 and not {'metaworld', 'mujoco', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_names_make_tasks_and_environments() -> None:
    assert {name for name in task_ids() if name.startswith("metaworld/")} == {
        *(f"metaworld/{name}" for name in TASKS),
        *("metaworld/reach-jump-v3", "metaworld/push-jump-v3"),
    }
    assert len(TASKS) == 50
    assert isinstance(make_task("metaworld/door-open-v3"), MetaworldTask)
    assert isinstance(make_task("top_erl.tasks.metaworld.task:door-open-v3"), MetaworldTask)
    env = gym.make("metaworld/door-open-v3")
    assert isinstance(env.unwrapped, MetaworldEnv)
    observation, _ = env.reset(seed=4)
    np.testing.assert_array_equal(observation, make_task("metaworld/door-open-v3").begin([4]).observation[0])
    env.close()


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("metaworld/reach-v2", "metaworld/reach-v3"), ("metaworld/pick_place", "metaworld/pick-place-v3")],
)
def test_a_wrong_name_gets_the_nearest(wrong: str, right: str) -> None:
    with pytest.raises(UserError, match=f"did you mean '{right}'"):
        make_task(wrong)


def test_wrong_names_for_the_classes() -> None:
    for make in (MetaworldTask, MetaworldEnv):
        with pytest.raises(UserError, match="Unknown Meta-World task 'reach'; did you mean 'reach-v3'"):
            make("reach")
    with pytest.raises(UserError, match="no class or function 'reach'"):
        make_task("top_erl.tasks.metaworld.task:reach")
    with pytest.raises(UserError, match="renders as 'rgb_array' only"):
        MetaworldEnv("reach-v3", render_mode="human")


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    simulator_module.simulator.cache_clear()
    task = make_task("metaworld/reach-v3")  # its facts need no simulator
    assert task.spec.horizon == 500
    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(UserError, match=r"needs .*: pip install -c constraints.txt -e '.\[metaworld\]'$"):
        task.begin([0])
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "3.0.0")
    with pytest.raises(UserError, match=r"needs metaworld 3\.1\.1, .* found 3\.0\.0: pip install"):
        task.begin([0])


def test_the_specification_is_that_of_the_experiments(task: MetaworldTask) -> None:
    spec = task.spec
    assert (spec.observation_dim, spec.num_dof, spec.horizon, spec.dt, spec.stride) == (39, 4, 500, 0.0125, 5)
    assert spec.duration == 6.25
    primitive = spec.primitive
    assert (primitive.num_basis, primitive.tau, primitive.bandwidth_factor) == (8, 5.0, 5.0)
    assert (primitive.alpha, primitive.alpha_phase) == (10.0, 3.0)
    assert (primitive.weights_scale, primitive.goal_scale, primitive.relative_goal) == (0.1, 0.1, True)
    assert spec.success_rule == "After the last step, the gripper is within 5 cm of the goal."


def test_the_controller(task: MetaworldTask) -> None:
    """At (0, 0.6, 0.2): 4 mm are reached in one step, 3 cm are cut to 1 cm, gripper commands are handed on."""
    task.begin([0])
    env = task._envs[0]
    desired = np.array([0.004, 0.6, 0.23, 0.3])
    action = task.control(env, desired, np.full(4, 99.0))  # velocities play no role
    np.testing.assert_allclose(action, [0.4, 0.0, 1.0, 0.3], atol=1e-12)
    env.step(action)
    np.testing.assert_allclose(task.position(env)[:3], [0.004, 0.6, 0.21], atol=1e-12)
    np.testing.assert_array_equal(task.control(env, np.array([9.0, -9.0, 0.21, -7.0]), desired)[[0, 1, 3]], [1, -1, -1])
    np.testing.assert_array_equal(task.velocity(env), np.zeros(4))


def test_the_target_stays_in_its_box(reach: MetaworldEnv) -> None:
    """From z = 0.2, 1 cm down a step: the target stops at 0.05 after 15 steps."""
    reach.reset(seed=0)
    heights = []
    for _ in range(17):
        reach.step(np.array([0.0, 0.0, -1.0, 1.0]))
        heights.append(reach.target_position[2])
    np.testing.assert_allclose(heights, np.maximum(0.2 - 0.01 * np.arange(1, 18), 0.05), atol=1e-12)


def test_success_is_read_at_the_last_step(task: MetaworldTask) -> None:
    """The hand reaches the goal and stays; or it leaves again, and then having been there does not count."""
    starts = task.begin([11, 11])
    start, goal = starts.position[0], starts.observation[0, 36:]
    share = np.clip(np.arange(1, 501) / 200, 0, 1)[:, None]
    there = hold(start)
    there[:, :3] += share * (goal - start[:3])
    back = there.copy()
    back[300:, :3] += share[:200] * (start[:3] - goal)
    outcomes = task.play(np.stack([there, back]))
    np.testing.assert_array_equal(outcomes.metrics["success"], [1, 0])
    assert outcomes.reward[1, 299] > 9.5  # it was there
    distance = np.linalg.norm(start[:3] - goal)
    assert outcomes.metrics["obj_to_target"][1] == pytest.approx(distance, abs=0.03)


def test_unseeded_starts_go_on_from_the_seed(reach: MetaworldEnv) -> None:
    sequences = []
    for _ in range(2):
        reach.reset(seed=5)
        sequences.append([reach.reset()[0] for _ in range(3)])
    np.testing.assert_array_equal(sequences[0], sequences[1])
    assert len(np.unique(np.array(sequences[0])[:, 36])) == 3


def test_a_start_from_a_given_vector(reach: MetaworldEnv) -> None:
    vector = [0.05, 0.65, 0.02, -0.05, 0.85, 0.1]
    observation, _ = reach.reset(seed=0, options={"task_vector": vector})
    np.testing.assert_allclose(observation[36:], vector[3:])
    np.testing.assert_allclose(observation[4:6], vector[:2], atol=1e-6)
    np.testing.assert_array_equal(reach.task_vector, vector)
    with pytest.raises(UserError, match="needs a task vector from"):
        reach.reset(options={"task_vector": [1.0, 0.65, 0.02, -0.05, 0.85, 0.1]})
    with pytest.raises(UserError, match="needs a task vector from"):
        reach.reset(options={"task_vector": [0.0]})
    with pytest.raises(UserError, match="too close to the goal"):
        reach.reset(options={"task_vector": [0.0, 0.7, 0.02, 0.0, 0.8, 0.1]})


def test_instants_can_be_gone_back_to(reach: MetaworldEnv) -> None:
    actions = np.random.default_rng(0).uniform(-1, 1, (30, 4))
    reach.reset(seed=1)
    for action in actions[:10]:
        reach.step(action)
    instant = reach.save()
    expected = [reach.step(action)[:2] for action in actions[10:]]
    reach.reset(seed=2)
    reach.step(actions[0])
    reach.restore(instant)
    for action, (observation, reward) in zip(actions[10:], expected, strict=True):
        again = reach.step(action)
        np.testing.assert_array_equal(again[0], observation)
        assert again[1] == reward


def test_wrong_calls_are_explained(task: MetaworldTask) -> None:
    env = MetaworldEnv("reach-v3")
    with pytest.raises(UserError, match=r"call reset\(\) before step\(\)"):
        env.step(np.zeros(4))
    assert env.render() is None
    env.reset(seed=0)
    with pytest.raises(UserError, match=r"action of shape \(4,\), got \(3,\)"):
        env.step(np.zeros(3))
    with pytest.raises(RunStopped, match=r"got the action .*nan.* at step 0"):
        env.step(np.full(4, np.nan))
    env.close()
    with pytest.raises(UserError, match="at least one seed"):
        task.begin([])
    with pytest.raises(UserError, match="call begin"):
        task.play(np.zeros((1, 500, 8)))


@pytest.mark.parametrize(
    ("bad_observation", "message"),
    [
        (0, "NaN in its reward at step 7 of the episode with seed 3"),
        (5, "infinity in its observation after step 4 of the episode with seed 3"),
    ],
)
def test_bad_numbers_name_the_step_and_the_seed(
    task: MetaworldTask, monkeypatch: pytest.MonkeyPatch, bad_observation: int, message: str
) -> None:
    starts = task.begin([3])
    env = task._envs[0]
    step, count = env.step, [0]

    def broken(action: Array) -> Any:
        observation, reward, *rest = step(action)
        count[0] += 1
        observation[0] = np.inf if count[0] == bad_observation else observation[0]
        return observation, np.nan if count[0] == 8 else reward, *rest

    monkeypatch.setattr(env, "step", broken)
    with pytest.raises(RunStopped, match=message):
        task.play(hold(starts.position[0])[None])


@pytest.mark.parametrize("name", ["reach-v3", "window-close-v3"])
def test_gymnasium_finds_nothing_to_complain_about(name: str) -> None:
    env = MetaworldEnv(name, render_mode="rgb_array")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*infinity.*")  # Meta-World bounds no object position
        warnings.filterwarnings("ignore", message=".*spec.*")  # made without gymnasium.make
        check_env(env)
    env.close()


def test_an_episode_can_be_filmed(task: MetaworldTask) -> None:
    """The film shows the episode that `play` plays: the hand ends at the same place, to the last bit."""
    starts = task.begin([9])
    reference = hold(starts.position[0])
    reference[:, 0] += np.linspace(0, 0.3, 500)
    task.play(reference[None])
    hand = task._envs[0].simulator.data.body("hand").xpos  # type: ignore[attr-defined]
    played = hand.copy()
    pictures = task.frames(9, reference, every=250)
    np.testing.assert_array_equal(hand, played)
    assert [picture.shape for picture in pictures] == [(480, 640, 3)] * 2
    assert (pictures[0] != pictures[1]).any(axis=2).mean() > 0.02  # the arm has moved by 15 cm


def test_pictures_are_upright_and_show_the_arm(reach: MetaworldEnv) -> None:
    reach.reset(seed=0)
    picture = reach.render()
    assert picture is not None
    assert picture.shape == (480, 640, 3)
    assert picture.dtype == np.uint8
    red, green, blue = (picture[..., channel].astype(int) for channel in range(3))
    arm = (red > 90) & (red > 2 * green) & (red > 2 * blue)
    rows, columns = np.nonzero(arm)
    assert 0.05 < arm.mean() < 0.5
    assert columns.mean() < 320  # the robot stands on the left
    assert rows.min() < 40  # and reaches the upper edge
    wood = (red > green + 15) & (green > blue + 5) & ~arm
    assert wood[240:].mean() > 2 * wood[:240].mean()  # the table is below


def test_tolerances_equal_the_package() -> None:
    quick, generator = quick_tolerance(tolerance), np.random.default_rng(0)
    for sigmoid in ("long_tail", "gaussian", "hyperbolic", "cosine"):
        for x, lower, width, margin in generator.uniform([-0.5, 0, 0, 0], [1, 0.1, 0.1, 0.5], (200, 4)):
            for number in (x, float(x)):
                arguments = (number, (lower, lower + width), margin, sigmoid)
                assert quick(*arguments) == tolerance(*arguments)
    assert quick(0.2, (0, 0.1)) == tolerance(0.2, (0, 0.1)) == 0.0  # no margin
    with pytest.raises(ValueError, match="margin"):
        quick(0.2, (0, 0.1), -1.0)


def test_quaternions_equal_those_of_scipy() -> None:
    generator, branches = np.random.default_rng(0), set()
    for quaternion in (*generator.normal(size=(200, 4)), *([1, 0, 0, 0] + 1e-3 * generator.normal(size=(50, 4)))):
        matrix = np.empty(9)
        mujoco.mju_quat2Mat(matrix, quaternion / np.linalg.norm(quaternion))
        matrix = matrix.reshape(3, 3)
        expected = Rotation.from_matrix(matrix).as_quat()
        np.testing.assert_allclose(quaternion_of(matrix), expected, rtol=0, atol=1e-15)
        branches.add(int(np.argmax([*np.diag(matrix), np.trace(matrix)])))
    assert branches == {0, 1, 2, 3}
