"""Three episodes of each family of tasks: solved on the way and not at the end, solved at the end, never solved.

Workers import this file; it needs no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from top_erl.tasks import EpisodeStarts, GymnasiumTask, TaskSpec
from top_erl.tasks.box_pushing.env import BoxPushingFixedStartEnv, BoxPushingFixedStartSparseEnv
from top_erl.tasks.box_pushing.task import BoxPushingFixedStartDense, BoxPushingFixedStartSparse

Array = NDArray[np.float64]

HERE = "tests.tasks.solved_on_the_way"
LAST, ANY = [0.0, 1.0, 0.0], [1.0, 1.0, 0.0]
"""What `success` and `success_any` must be in the three episodes."""


class LineEnv(gym.Env[Any, Any]):
    """A place on a line, which the action chooses; it ends early if told so."""

    action_space = gym.spaces.Box(-2.0, 2.0, (1,))

    def __init__(self, end: int = 0) -> None:
        self.end = end

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.place, self.count = np.zeros(1), 0
        return self.place, {}

    def step(self, action: Array) -> Any:
        self.place, self.count = np.array(action, dtype=np.float64), self.count + 1
        return self.place, 0.0, self.count == self.end, False, {}


class Line(GymnasiumTask):
    """Solved within 0.1 of 1."""

    spec = TaskSpec("tests/Line", 1, num_dof=1, horizon=6, dt=0.1, metrics=("success", "success_any", "missed"))
    end = 0

    def make_env(self) -> Any:
        return LineEnv(self.end)

    def position(self, env: Any) -> Array:
        place: Array = env.place
        return place

    def velocity(self, env: Any) -> Array:
        return np.zeros(1)

    def control(self, env: Any, desired_position: Array, desired_velocity: Array) -> Array:
        return desired_position

    def metrics(self, env: Any, info: dict[str, Any]) -> Mapping[str, float]:
        missed = abs(float(env.place[0]) - 1.0)
        return {"success": float(missed < 0.1), "missed": missed}


def line_references(starts: EpisodeStarts | None = None) -> Array:
    """Places, [3, 6], as references, [3, 6, 2]."""
    places = [[0.0, 0.5, 1.05, 1.2, 0.3, 0.0], [0.0, 0.2, 0.4, 0.6, 0.8, 0.95], [0.0, 0.5, 0.85, 0.85, 1.2, 2.0]]
    return np.stack([np.array(places), np.zeros((3, 6))], axis=-1)


RECORDED = np.load(Path(__file__).parents[1] / "data" / "box_pushing" / "tracked_fixed.npz")
POSES = np.stack([RECORDED["state"][17, 14:21], RECORDED["state"][-1, 14:21], RECORDED["state"][-1, 21:]])
"""Where the recorded reference brings the box after 72 of 100 steps, and after all; where it does not, [3, 7]."""


class _Targets:
    """Puts the target to the pose that the seed chooses."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        assert seed is not None
        return super().reset(seed=seed, options={"target": POSES[seed]})  # type: ignore[misc]


class DenseTargets(_Targets, BoxPushingFixedStartEnv):
    """Paid at every step."""


class SparseTargets(_Targets, BoxPushingFixedStartSparseEnv):
    """Paid at the end."""


class Dense(BoxPushingFixedStartDense):
    """Box Pushing with known targets."""

    def make_env(self) -> Any:
        return DenseTargets()


class Sparse(BoxPushingFixedStartSparse):
    """The same, sparse."""

    def make_env(self) -> Any:
        return SparseTargets()


def reach_references(starts: EpisodeStarts) -> Array:
    """To the goal and back, to the goal, nowhere, [3, 500, 8]; the fingers are 4.5 cm below the hand."""
    position, goal = starts.position, starts.observation[:, 36:] + np.array([0.0, 0.0, 0.045])
    there = np.clip(np.arange(1, 501) / 200, 0, 1)
    share = np.stack([np.minimum(there, there[::-1]), there, np.zeros(500)])  # [3, 500]
    still = np.concatenate([position, np.zeros_like(position)], axis=-1)
    reference = np.repeat(still[:, None], 500, axis=1)
    reference[..., :3] += share[..., None] * (goal - position[:, :3])[:, None]
    return reference


def box_references(starts: EpisodeStarts) -> Array:
    """The recorded reference, three times, [3, 100, 14]."""
    return np.repeat(RECORDED["desired"][None], 3, axis=0)


TASKS: dict[str, tuple[str, Callable[[EpisodeStarts], Array]]] = {
    "line": (f"{HERE}:Line", line_references),
    "dense": (f"{HERE}:Dense", box_references),
    "sparse": (f"{HERE}:Sparse", box_references),
    "metaworld": ("metaworld/reach-v3", reach_references),
}
"""Import path of each task, and its references from the starts with seeds 0, 1, 2."""
