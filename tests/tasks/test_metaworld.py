"""All 50 Meta-World tasks: against the package `metaworld` itself, against published numbers, and over whole episodes.

Each task's simulator is built once, for all tests that need it.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from metaworld.env_dict import ALL_V3_ENVIRONMENTS
from numpy.typing import NDArray

from top_erl.primitives import make_primitive
from top_erl.tasks import make_task
from top_erl.tasks.metaworld.env import MetaworldEnv
from top_erl.tasks.metaworld.facts import TASKS, task_id
from top_erl.tasks.metaworld.task import MetaworldTask

Array = NDArray[np.float64]

PUBLISHED: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "metaworld" / "published.json").read_text()
)
"""Ranges of the task vectors, least distances, hand and target ranges, entries that vary, and what a script scores."""
SEEDS = range(20)
STEPS = 60
"""Steps that are compared with the package, per task."""
LAST_BIT = 1e-15
"""Quaternions may differ by a rounding where a compiler fuses SciPy's multiplications and additions."""


@pytest.fixture(scope="module", params=sorted(TASKS))
def task(request: pytest.FixtureRequest) -> Iterator[MetaworldTask]:
    made = make_task(task_id(request.param))
    assert isinstance(made, MetaworldTask)
    yield made
    made.close()


@pytest.fixture
def env(task: MetaworldTask) -> MetaworldEnv:
    task.begin([0])
    env = task._envs[0]
    assert isinstance(env, MetaworldEnv)
    return env


@pytest.fixture(scope="module")
def elsewhere() -> dict[str, list[list[float]]]:
    """First observations with seeds 7 and 8 in another process, by task."""
    code = (
        "import json\n"
        "from top_erl.tasks import make_task, task_ids\n"
        "tasks = [make_task(name) for name in task_ids() if name.startswith('metaworld/')]\n"
        "starts = {}\n"
        "for task in tasks:\n"
        "    starts[task.spec.id] = task.begin([7, 8]).observation.tolist()\n"
        "    task.close()\n"
        "print(json.dumps(starts))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    starts: dict[str, list[list[float]]] = json.loads(answer.stdout)
    return starts


def expected_vector(name: str, seed: int) -> Array:
    """Draw a task vector by hand: uniform in its range, again while object and goal are too close."""
    facts = PUBLISHED[name]
    generator = np.random.default_rng(seed)
    while True:
        vector = generator.uniform(facts["vector_low"], facts["vector_high"])
        goal = np.array([0.0, 0.84]) if name == "sweep-into-v3" else vector[-3:-1]
        if np.linalg.norm(vector[:2] - goal) >= facts.get("min_distance", 0.0) or len(vector) == 3:
            return vector


def original(name: str, vector: Array) -> Any:
    """Meta-World's own environment, with the goal shown, started with a task vector."""
    env = ALL_V3_ENVIRONMENTS[name]()
    env._partially_observable = False
    env._set_task_called = True
    env.__dict__.pop("sawyer_observation_space", None)
    env._freeze_rand_vec, env._last_rand_vec = True, vector
    return env


def random_reference(task: MetaworldTask, position: Array, seed: int) -> Array:
    """Draw a movement of the task's primitive from a position, [T, 8]."""
    spec = task.spec
    primitive = make_primitive(spec.primitive, spec.num_dof, spec.dt)
    generator = torch.Generator().manual_seed(seed)
    reference = primitive.trajectory(
        torch.randn(spec.num_dof * (spec.primitive.num_basis + 1), generator=generator, dtype=torch.float64),
        torch.arange(1, spec.horizon + 1, dtype=torch.float64) * spec.dt,
        init_time=0.0,
        init_position=torch.as_tensor(position),
        init_velocity=torch.zeros(spec.num_dof, dtype=torch.float64),
    )
    return torch.cat([reference.position, reference.velocity], dim=-1).numpy()


def minimum_jerk(time: Array, begin: float, end: float) -> Array:
    """From 0 to 1 between two instants."""
    s = np.clip((time - begin) / (end - begin), 0.0, 1.0)
    return 10 * s**3 - 15 * s**4 + 6 * s**5


def scripted_reference(position: Array, observation: Array) -> Array:
    """To the object in 2 s, close the gripper in 0.5 s, to the goal in 2.5 s, [T, 8]."""
    time = (np.arange(500) + 1) * 0.0125
    there, closed, back = (minimum_jerk(time, *when)[:, None] for when in ((0, 2), (2, 2.5), (2.5, 5)))
    thing, goal = observation[4:7], observation[36:]
    hand = position[:3] + there * (thing - position[:3]) + back * (goal - thing)
    gripper = position[3:] + closed * (1 - position[3:])
    return np.concatenate([hand, gripper, np.zeros((500, 4))], axis=1)


def test_starts_follow_the_published_rules(env: MetaworldEnv) -> None:
    facts = PUBLISHED[env.name]
    observations, vectors = [], []
    for seed in SEEDS:
        observation, info = env.reset(seed=seed)
        assert info == {}
        assert env.observation_space.contains(observation)
        np.testing.assert_array_equal(observation[18:36], observation[:18])
        np.testing.assert_allclose(env.task_vector, expected_vector(env.name, seed), rtol=0, atol=2e-7)
        np.testing.assert_allclose(env.target_position, [*facts["hand"], -1.72e-4], atol=2e-7)
        observations.append(observation)
        vectors.append(env.task_vector)
    assert len(np.unique(vectors, axis=0)) == len(SEEDS)
    spread = np.std(observations, axis=0)
    assert (spread[facts["varying"]] > 1e-6).all()
    others = np.setdiff1d(np.arange(39), facts["varying"])
    assert (spread[others] < 3e-3).all()  # contacts at the start move hand or lid a little
    simulator = env.simulator
    np.testing.assert_allclose(simulator.mocap_low, facts["mocap_low"])
    np.testing.assert_allclose(simulator.mocap_high, facts["mocap_high"])


def test_context_holds_what_varies(task: MetaworldTask) -> None:
    facts, mask = PUBLISHED[task.name], task.spec.context_mask
    assert mask is not None
    # In release 3.1.1 basketball's ball varies (group E was made for a release in which the hand did instead).
    assert mask == ((36, 37, 38) if facts["group"] == "G" else (4, 5, 6, 36, 37, 38))
    places = {4, 5, 6, 36, 37, 38}
    assert places & set(facts["varying"]) <= set(mask)


def test_the_first_observation_agrees_with_the_simulation(env: MetaworldEnv) -> None:
    """Seed after seed: a start that remembers the one before shows the object up to 0.2 m beside its place."""
    for seed in (3, 4):
        first, _ = env.reset(seed=seed)
        second, _, _, _, _ = env.step(np.array([0.0, 0.0, 0.0, -1.0]))
        np.testing.assert_allclose(second[4:7], first[4:7], atol=1e-2)  # the hammer rises by 7 mm
        np.testing.assert_allclose(second[36:], first[36:], atol=1e-12)


def test_seeds_mean_the_same_in_another_process(env: MetaworldEnv, elsewhere: dict[str, Any]) -> None:
    for seed, observation in zip((7, 8), elsewhere[task_id(env.name)], strict=True):
        np.testing.assert_array_equal(env.reset(seed=seed)[0], observation)


def test_numbers_are_those_of_the_package(env: MetaworldEnv) -> None:
    observation, _ = env.reset(seed=11)
    plain = original(env.name, env.task_vector)
    expected, _ = plain.reset()
    if env.name == "window-close-v3":  # the package forgets a forward pass after moving the window
        expected[[4, 22]] += 0.2
        np.testing.assert_allclose(observation, expected, atol=1e-4)
        plain._prev_obs = observation[:18].copy()
        expected = observation
    np.testing.assert_array_equal(observation, expected)
    generator = np.random.default_rng(0)
    for step in range(STEPS):
        action = generator.uniform(-1.5, 1.5, 4)
        action = action.astype(np.float32) if step % 3 == 0 else action
        observation, reward, terminated, truncated, info = env.step(action)
        expected, expected_reward, _, _, expected_info = plain.step(action)
        np.testing.assert_allclose(observation, expected, rtol=0, atol=LAST_BIT)
        assert reward == pytest.approx(expected_reward, rel=0, abs=LAST_BIT)
        assert not terminated
        assert not truncated
        assert info == {**expected_info, "is_success": bool(expected_info["success"])}


def test_an_episode_is_a_function_of_seed_and_reference(task: MetaworldTask) -> None:
    starts = task.begin([5, 6])
    reference = np.stack([random_reference(task, starts.position[0], seed) for seed in (1, 2)])
    together = task.play(reference)
    assert len(task._envs) == 1
    np.testing.assert_array_equal(together.observation[:, 0], starts.observation)
    assert np.isfinite(together.observation).all()
    assert np.isfinite(together.reward).all()
    assert (together.reward >= 0).all()
    assert (together.reward <= 10 + 1e-9).all()
    # Alone, by hand, in an environment that has played something else: the same bits, success at the last step.
    env: Any = task._envs[0]
    observation, _ = env.reset(seed=6)
    for step in range(task.spec.horizon):
        np.testing.assert_array_equal(observation, together.observation[1, step])
        desired = reference[1, step]
        action = np.append(100 * (desired[:3] - env.simulator.data.mocap_pos[0]), desired[3]).clip(-1, 1)
        observation, reward, _, truncated, info = env.step(action)
        assert reward == together.reward[1, step]
    assert truncated
    assert together.metrics["success"][1] == info["success"]
    assert together.metrics["obj_to_target"][1] == info["obj_to_target"]


def test_a_script_scores_what_was_published(task: MetaworldTask) -> None:
    """Return and final success of a simple script were recorded with the package, seeds as in its second version.

    There the script took the object's place from a slightly different first observation, so returns agree to a few
    points only; basketball's was another place altogether.
    """
    facts = PUBLISHED[task.name]
    starts = task.begin([11])
    outcomes = task.play(scripted_reference(starts.position[0], starts.observation[0])[None])
    assert outcomes.metrics["success"][0] == facts["scripted_success"]
    if task.name != "basketball-v3":
        assert outcomes.reward[0].sum() == pytest.approx(facts["scripted_return"], rel=0.003, abs=4)


def test_states_can_be_told_from_the_task_alone(task: MetaworldTask) -> None:
    starts = task.begin([1, 2])
    position, velocity = task.measured_state(starts.observation)
    np.testing.assert_allclose(position, starts.position, atol=1e-7)
    np.testing.assert_array_equal(velocity, starts.velocity)
