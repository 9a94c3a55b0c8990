"""The episodic task: contexts, rewards, success, and numbers that depend on seed and reference only."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import least_squares

from top_erl.errors import RunStopped, UserError
from top_erl.tasks import EpisodeOutcomes, make_task
from top_erl.tasks.via_point_reacher.rules import (
    ACCELERATION_COST,
    ARM,
    SUCCESS_RADIUS,
    Context,
    acceleration_cost,
    draw_context,
    observe,
    success,
)
from top_erl.tasks.via_point_reacher.task import ViaPointReacher

Array = NDArray[np.float64]
START = np.array(ARM.start)


def random_references(num_episodes: int, seed: int = 0) -> Array:
    """Wild but continuous references, [B, T, 2D]."""
    steps = np.random.default_rng(seed).normal(0.0, 0.1, (num_episodes, 50, 10))
    return np.cumsum(steps, axis=1) + np.concatenate([START, np.zeros(5)])


def smooth_reference(via: Array, goal: Array) -> Array:
    """Joint angles for via point and goal by least squares, joined by quintic polynomials, [T, 2D]."""
    middle = inverse_kinematics(START, via)
    end = inverse_kinematics(middle, goal)
    share = (np.arange(1, 26) / 25)[:, None]
    place, speed = 10 * share**3 - 15 * share**4 + 6 * share**5, 30 * share**2 - 60 * share**3 + 30 * share**4
    moves = [(START, middle), (middle, end)]
    position = np.concatenate([a + place * (b - a) for a, b in moves])
    velocity = np.concatenate([speed * (b - a) / 0.5 for a, b in moves])
    return np.concatenate([position, velocity], axis=1)


def inverse_kinematics(near: Array, point: Array) -> Array:
    """Joint angles that put the tip on a point and change little."""

    def residual(angles: Array) -> Array:
        return np.concatenate([10 * (ARM.tip(angles) - point), 0.1 * (angles - near)])

    nudges = np.random.default_rng(0).normal(0.0, 0.6, (4, 5)) * np.array([[0.0], [1.0], [1.0], [1.0]])
    fits = [least_squares(residual, near + nudge) for nudge in nudges]
    solution: Array = min(fits, key=lambda fit: float(fit.cost)).x
    return solution


def test_spec_agrees_with_what_is_played() -> None:
    task = make_task("top_erl/ViaPointReacher-v0")
    spec = task.spec
    starts = task.begin([1, 2, 3])
    outcomes = task.play(random_references(3))
    assert starts.observation.shape == (3, spec.observation_dim) == (3, 16)
    assert starts.position.shape == starts.velocity.shape == (3, spec.num_dof)
    assert outcomes.observation.shape == (3, spec.horizon, 16)
    assert outcomes.reward.shape == (3, spec.horizon)
    assert set(outcomes.metrics) == set(spec.metrics)
    assert all(value.shape == (3,) for value in outcomes.metrics.values())
    assert spec.duration == 1.0
    np.testing.assert_array_equal(outcomes.observation[:, 0], starts.observation)


def test_first_observation_by_hand() -> None:
    starts = ViaPointReacher().begin([5])
    context = draw_context([np.random.default_rng(5)])
    height = 0.2 * (2 * np.cos(0.6) + 2 * np.cos(0.3) + 1)
    expected = np.concatenate([START, np.zeros(5), [0.0, height], context.via[0], context.goal[0]])
    np.testing.assert_allclose(starts.observation[0], expected, atol=1e-15)


def test_context_mask_names_what_varies() -> None:
    task = ViaPointReacher()
    observation = task.begin(range(20)).observation
    varies = np.flatnonzero(np.ptp(observation, axis=0) > 0)
    assert tuple(varies) == task.spec.context_mask


def test_measured_state_is_in_the_observation() -> None:
    task = ViaPointReacher()
    starts = task.begin([0, 1])
    position, velocity = task.measured_state(starts.observation)
    np.testing.assert_array_equal(position, starts.position)
    np.testing.assert_array_equal(velocity, starts.velocity)


def test_contexts_are_uniform_over_the_area_and_independent() -> None:
    context = draw_context([np.random.default_rng(seed) for seed in range(4000)])
    for points in (context.via, context.goal):
        radius, angle = np.hypot(*points.T), np.arctan2(points[:, 1], points[:, 0])
        assert (points[:, 1] >= 0).all()
        assert radius.min() >= 0.2
        assert radius.max() <= 0.95
        # Uniform in area: squared radius and angle are uniform. Kolmogorov-Smirnov bound at p = 0.001.
        area = (radius**2 - 0.2**2) / (0.95**2 - 0.2**2)
        for share in (area, angle / np.pi):
            gap = np.abs(np.sort(share) - (np.arange(4000) + 0.5) / 4000).max()
            assert gap < 1.95 / np.sqrt(4000)
    correlation = np.corrcoef(np.concatenate([context.via.T, context.goal.T]))[:2, 2:]
    assert np.abs(correlation).max() < 0.06


def test_reward_is_the_distance_at_two_instants_and_the_acceleration_always() -> None:
    task = ViaPointReacher()
    task.begin([3])
    outcomes = task.play(random_references(1))
    observation, reward = outcomes.observation[0], outcomes.reward[0]
    velocity, tip = observation[:, 5:10], observation[:, 10:12]
    via, goal = observation[0, 12:14], observation[0, 14:]
    # The observation before step t + 1 is what step t ended with; the last step's end is not observed.
    cost = ACCELERATION_COST * (((velocity[1:] - velocity[:-1]) / 0.02) ** 2).sum(axis=1)
    quiet = [step for step in range(49) if step != 24]
    np.testing.assert_allclose(reward[quiet], -cost[quiet], rtol=1e-12)
    via_distance = np.linalg.norm(tip[25] - via)
    np.testing.assert_allclose(reward[24], -10 * via_distance - cost[24], rtol=1e-12)
    np.testing.assert_allclose(outcomes.metrics["via_distance"], [via_distance])
    # The last step again, with the controller and the integrator called by hand.
    position, last = observation[49, :5], random_references(1)[0, 49]
    action = ARM.control(position, velocity[49], last[:5], last[5:])
    after, speed = ARM.advance(position, velocity[49], action)
    goal_distance = np.linalg.norm(ARM.tip(after) - goal)
    last_cost = ACCELERATION_COST * (((speed - velocity[49]) / 0.02) ** 2).sum()
    np.testing.assert_allclose(reward[49], -10 * goal_distance - last_cost, rtol=1e-12)
    np.testing.assert_allclose(outcomes.metrics["goal_distance"], [goal_distance])


def test_acceleration_cost_by_hand() -> None:
    # Velocities change by 0.2 and 0.4 rad/s in 0.02 s: accelerations 10 and 20, squares 100 + 400.
    before, after = np.zeros((1, 5)), np.array([[0.2, 0.0, -0.4, 0.0, 0.0]])
    np.testing.assert_allclose(acceleration_cost(before, after), [500e-5])


def test_resting_arm_pays_for_distance_only() -> None:
    task = ViaPointReacher()
    task.begin([0])
    outcomes = task.play(np.tile(np.concatenate([START, np.zeros(5)]), (1, 50, 1)))
    assert (np.delete(outcomes.reward[0], [24, 49]) == 0).all()
    total = -10 * (outcomes.metrics["via_distance"] + outcomes.metrics["goal_distance"])
    np.testing.assert_allclose(outcomes.reward.sum(axis=1), total)


@pytest.mark.parametrize(
    ("via", "goal", "expected"),
    [(0.1, 0.1, 1.0), (0.0, 0.0, 1.0), (0.1001, 0.0, 0.0), (0.0, 0.1001, 0.0), (0.5, 0.5, 0.0)],
)
def test_success_needs_both_distances(via: float, goal: float, expected: float) -> None:
    assert SUCCESS_RADIUS == 0.1
    assert success(np.array([via]), np.array([goal])) == [expected]


LAYOUTS: list[Callable[[Array], Array]] = [
    np.ascontiguousarray,
    np.asfortranarray,
    lambda array: np.repeat(array, 2, axis=2)[:, :, ::2],
    lambda array: array[::-1].copy()[::-1],
    lambda array: array.transpose(2, 1, 0).copy().transpose(2, 1, 0),
]


@pytest.mark.parametrize("num_episodes", [1, 2, 7, 33])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_episode_does_not_depend_on_its_batch(num_episodes: int, layout: Callable[[Array], Array]) -> None:
    task = ViaPointReacher()
    references = random_references(num_episodes, seed=num_episodes)
    starts = task.begin(range(num_episodes))
    together = task.play(layout(references))
    for index in range(num_episodes):
        start = task.begin([index])
        alone = task.play(references[index : index + 1])
        np.testing.assert_array_equal(start.observation[0], starts.observation[index])
        assert_equal(alone, together, index)


def assert_equal(alone: EpisodeOutcomes, together: EpisodeOutcomes, index: int) -> None:
    """Compare bit for bit."""
    assert alone.observation[0].tobytes() == together.observation[index].tobytes()
    assert alone.reward[0].tobytes() == together.reward[index].tobytes()
    for name, value in alone.metrics.items():
        assert value[0].tobytes() == together.metrics[name][index].tobytes()


def test_seeds_decide_the_context() -> None:
    task = ViaPointReacher()
    first, again = task.begin([7, 8, 7]).observation, ViaPointReacher().begin([7]).observation
    np.testing.assert_array_equal(first[0], again[0])
    np.testing.assert_array_equal(first[0], first[2])
    assert (first[0] != first[1]).any()


def test_observations_stay_near_one() -> None:
    task = ViaPointReacher()
    task.begin(range(16))
    assert np.abs(task.play(random_references(16)).observation).max() < 20


def test_nearly_every_context_can_be_solved_smoothly() -> None:
    seeds = range(1000, 1050)
    context = draw_context([np.random.default_rng(seed) for seed in seeds])
    references = [smooth_reference(via, goal) for via, goal in zip(context.via, context.goal, strict=True)]
    task = ViaPointReacher()
    task.begin(seeds)
    outcomes = task.play(np.stack(references))
    assert outcomes.metrics["success"].mean() >= 0.98
    missed = outcomes.metrics["via_distance"] + outcomes.metrics["goal_distance"]
    paid_for_acceleration = -outcomes.reward.sum(axis=1) - 10 * missed
    assert np.median(paid_for_acceleration) < 0.3


def test_observe_repeats_the_context_over_time() -> None:
    context = Context(via=np.array([[0.1, 0.2]]), goal=np.array([[0.3, 0.4]]))
    observation = observe(np.zeros((3, 5)), np.ones((3, 5)), context)
    np.testing.assert_array_equal(observation[:, 12:], np.tile([0.1, 0.2, 0.3, 0.4], (3, 1)))


def test_wrong_calls_are_explained() -> None:
    task = ViaPointReacher()
    with pytest.raises(UserError, match="call begin"):
        task.play(random_references(1))
    with pytest.raises(UserError, match="at least one seed"):
        task.begin([])
    with pytest.raises(UserError, match="negative"):
        task.begin([3, -1])
    task.begin([0, 1])
    with pytest.raises(UserError, match=r"shape \(2, 50, 10\).*got \(3, 50, 10\)"):
        task.play(random_references(3))
    for value, word in ((np.nan, "NaN"), (np.inf, "infinity")):
        task.begin([0, 1])
        references = random_references(2)
        references[1, 12, 3] = value
        with pytest.raises(RunStopped, match=f"{word} at step 12 of episode 1"):
            task.play(references)


def test_an_episode_is_played_once() -> None:
    task = ViaPointReacher()
    task.begin([0])
    task.play(random_references(1))
    with pytest.raises(UserError, match="call begin"):
        task.play(random_references(1))
