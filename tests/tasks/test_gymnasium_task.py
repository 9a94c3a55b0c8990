"""The adapter for a user's own step environment, on a point mass that can misbehave."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest
from numpy.typing import NDArray

from top_erl.errors import RunStopped, UserError
from top_erl.tasks import EpisodeOutcomes, EpisodeStarts, GymnasiumTask, Task, TaskSpec

Array = NDArray[np.float64]


class PointEnv(gym.Env[Any, Any]):
    """Two coordinates; the action is the velocity. It hands out its own memory, as careless simulators do."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"]}  # type: ignore[misc]

    def __init__(self, **wishes: Any) -> None:
        self.wishes = wishes
        self.render_mode = wishes.get("render_mode")
        self.closed = False
        self.state = np.zeros(3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.count = 0
        self.state[:] = self.np_random.normal(size=3)
        return self.wishes.get("first", self.state), {}

    def step(self, action: Array) -> Any:
        assert not self.wishes.get("explode"), "the simulator fell over"
        self.state[:2] += 0.1 * action
        self.count += 1
        late = self.count == self.wishes.get("bad_step", 3)
        observation = self.wishes["observation"] if late and "observation" in self.wishes else self.state
        reward = self.wishes["reward"] if late and "reward" in self.wishes else float(self.count)
        end = self.count == self.wishes.get("end", -1)
        return observation, reward, end and not self.wishes.get("truncate"), end, {"count": self.count}

    def render(self) -> Any:
        return np.full((4, 4, 3), self.count, dtype=np.uint8)

    def close(self) -> None:
        self.closed = True


class PointTask(GymnasiumTask):
    """Moves the point along a reference."""

    spec = TaskSpec("tests/Point", observation_dim=3, num_dof=2, horizon=6, dt=0.1, metrics=("steps", "x"))

    def __init__(self, **wishes: Any) -> None:
        super().__init__()
        self.wishes = wishes
        self.made: list[PointEnv] = []

    def make_env(self) -> PointEnv:
        self.made.append(PointEnv(**self.wishes))
        return self.made[-1]

    def position(self, env: Any) -> Array:
        position: Array = self.wishes.get("position", env.state[:2])
        return position

    def velocity(self, env: Any) -> Array:
        return np.zeros(2)

    def control(self, env: Any, desired_position: Array, desired_velocity: Array) -> Array:
        action: Array = (desired_position - env.state[:2]) / 0.1 + 0 * desired_velocity
        return action

    def metrics(self, env: Any, info: dict[str, Any]) -> Mapping[str, float]:
        result: Mapping[str, float] = self.wishes.get("metrics", {"steps": info["count"], "x": env.state[0]})
        return result


def references(num_episodes: int) -> Array:
    return np.random.default_rng(0).normal(size=(num_episodes, 6, 4))


def test_an_episode_follows_its_reference() -> None:
    task = PointTask()
    starts = task.begin([3, 4])
    wanted = references(2)
    outcomes = task.play(wanted)
    np.testing.assert_array_equal(outcomes.observation[:, 0], starts.observation)
    np.testing.assert_allclose(starts.position, starts.observation[:, :2])
    # The desired state of step i is where the point is before step i + 1.
    np.testing.assert_allclose(outcomes.observation[:, 1:, :2], wanted[:, :-1, :2])
    np.testing.assert_array_equal(outcomes.reward, [[1, 2, 3, 4, 5, 6]] * 2)
    np.testing.assert_array_equal(outcomes.metrics["steps"], [6, 6])
    np.testing.assert_allclose(outcomes.metrics["x"], wanted[:, -1, 0])


def test_batches_and_earlier_episodes_make_no_difference() -> None:
    task = PointTask()
    task.begin([1, 2, 3])
    together = task.play(references(3))
    task.begin([3])
    alone = task.play(references(3)[2:])
    np.testing.assert_array_equal(alone.observation[0], together.observation[2])
    assert len(task.made) == 3  # environments are used again


@pytest.mark.parametrize("truncate", [True, False])
def test_an_early_end_keeps_the_last_observation_and_pays_zero(truncate: bool) -> None:
    task = PointTask(end=4, truncate=truncate)
    task.begin([0])
    wanted = references(1)
    outcomes = task.play(wanted)
    np.testing.assert_array_equal(outcomes.reward[0], [1, 2, 3, 4, 0, 0])
    np.testing.assert_array_equal(outcomes.observation[0, 4], outcomes.observation[0, 5])
    np.testing.assert_allclose(outcomes.observation[0, 4, :2], wanted[0, 3, :2])
    np.testing.assert_array_equal(outcomes.metrics["steps"], [4])


def test_a_task_may_say_what_the_steps_after_an_early_end_pay() -> None:
    task = PointTask(end=4)
    task.reward_after_end = -2.5
    task.begin([0])
    np.testing.assert_array_equal(task.play(references(1)).reward[0], [1, 2, 3, 4, -2.5, -2.5])


@pytest.mark.parametrize(
    ("wishes", "error", "message"),
    [
        ({"observation": [0, np.nan, 0]}, RunStopped, r"NaN in its observation at step 2 of .* with seed 34"),
        ({"observation": [0, np.inf, 0]}, RunStopped, r"infinity in its observation at step 2"),
        ({"reward": np.nan}, RunStopped, r"NaN in its reward at step 2 of the episode with seed 34"),
        (
            {"observation": [0, 0]},
            UserError,
            r"observation with shape \(2,\) at step 2 .*; its spec says \(3,\)",
        ),
        (
            {"observation": {"image": 1}},
            UserError,
            r"a dict as its observation at step 2 .*observation_space that is a gymnasium.spaces.Dict",
        ),
        (
            {"metrics": {"steps": 1.0}},
            UserError,
            r"measured \['steps'\] at the end .* names \['steps', 'x'\]",
        ),
        (
            {"metrics": {"steps": 1.0, "x": np.nan}},
            RunStopped,
            r"NaN in its metric 'x' at the end of the episode",
        ),
    ],
)
def test_bad_answers_name_task_seed_and_step(wishes: dict[str, Any], error: type[UserError], message: str) -> None:
    task = PointTask(**wishes)
    task.begin([34])
    with pytest.raises(error, match=r"tests/Point .*" + message):
        task.play(references(1))


@pytest.mark.parametrize(
    ("wishes", "message"),
    [
        ({"first": np.zeros(5)}, r"observation with shape \(5,\) at the start of the episode with seed 34"),
        ({"position": np.zeros(3)}, r"position with shape \(3,\) at the start"),
        ({"position": np.full(2, np.nan)}, r"NaN in its position at the start"),
    ],
)
def test_bad_starts_are_named(wishes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        PointTask(**wishes).begin([34])


def test_exceptions_of_the_environment_come_through() -> None:
    task = PointTask(explode=True)
    task.begin([0])
    with pytest.raises(AssertionError, match="fell over"):
        task.play(references(1))


def test_wrong_calls_are_explained() -> None:
    task = PointTask()
    with pytest.raises(UserError, match="call begin"):
        task.play(references(1))
    with pytest.raises(UserError, match="at least one seed"):
        task.begin([])
    task.begin([0])
    with pytest.raises(UserError, match=r"shape \(1, 6, 4\)"):
        task.play(references(2))


def test_frames_repeat_the_last_picture_after_an_early_end() -> None:
    frames = PointTask(render_mode="rgb_array", end=4).frames(0, references(1)[0])
    assert [int(frame[0, 0, 0]) for frame in frames] == [1, 2, 3, 4, 4, 4]
    for every, expected in ((2, [2, 4, 4]), (4, [4, 4]), (5, [4, 4]), (9, [4])):
        frames = PointTask(render_mode="rgb_array", end=4).frames(0, references(1)[0], every)
        assert [int(frame[0, 0, 0]) for frame in frames] == expected
    with pytest.raises(UserError, match="render_mode='rgb_array'"):
        PointTask().frames(0, references(1)[0])


def test_close_closes_the_environments_and_the_task_can_go_on() -> None:
    task = PointTask()
    task.begin([0, 1])
    task.close()
    assert all(env.closed for env in task.made)
    task.begin([0])
    assert len(task.made) == 3


class BareTask(Task):
    """Only what the contract demands."""

    spec = PointTask.spec

    def begin(self, seeds: Sequence[int]) -> EpisodeStarts:
        raise NotImplementedError

    def play(self, reference: Array) -> EpisodeOutcomes:
        raise NotImplementedError


def test_optional_parts_of_the_contract_say_what_is_missing() -> None:
    task = BareTask()
    with pytest.raises(UserError, match="pass position= and velocity="):
        task.measured_state(np.zeros(3))
    with pytest.raises(UserError, match="tests/Point has no rendering"):
        task.frames(0, references(1)[0])
    task.close()


@pytest.mark.parametrize("wrong", [{"horizon": 0}, {"num_dof": 0}, {"stride": -1}, {"dt": 0.0}, {"dt": float("nan")}])
def test_facts_that_cannot_be(wrong: dict[str, float]) -> None:
    (name,) = wrong
    right = {"id": "mine", "observation_dim": 2, "num_dof": 1, "horizon": 10, "dt": 0.1, "metrics": ()}
    TaskSpec(**right)
    with pytest.raises(UserError, match=f"mine has a {name} of .*; it must be"):
        TaskSpec(**right | wrong)
