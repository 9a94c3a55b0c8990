"""A point mass that is fine, and can be made faulty in many ways."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np

from top_erl.tasks import GoalRule, GymnasiumTask, PrimitiveConfig, TaskSpec
from top_erl.tasks.contract import Array


class PointGoals(GoalRule):
    """The goal of the point mass, with a fault or none."""

    entries = (4, 5)

    def __init__(self, fault: str = "") -> None:
        self.fault = fault
        if fault == "moves":
            self.entries = (0, 5)

    def reached(self, observation: Array) -> Array:
        return observation[..., 0] if self.fault == "one number" else observation[..., :2]

    def as_goal(self, reached: Array) -> Array:
        return -reached if self.fault == "other side" else reached

    def with_goal(self, observation: Array, goal: Array) -> Array:
        changed = super().with_goal(observation, goal)
        return {"forgets": changed + 1.0, "ignores": observation}.get(self.fault, changed)

    def reward(self, reached: Array, goal: Array) -> Array:
        distance: Array = np.linalg.norm(reached - goal[:, None], axis=-1)
        answers = {
            "one an episode": -distance[:, 0],
            "a third": -distance / 3,
            "not finite": np.full_like(distance, np.nan),
        }
        return answers.get(self.fault, -distance)


DT, STEPS, STRENGTH = 0.05, 20, 30.0

SPEC = TaskSpec(
    id="tests/PointMass",
    observation_dim=6,
    num_dof=2,
    horizon=STEPS,
    dt=DT,
    metrics=("success", "distance"),
    primitive=PrimitiveConfig(num_basis=3, tau=1.0, weights_scale=0.3, goal_scale=0.5, relative_goal=True),
    stride=2,
    success_rule="The point is within 0.2 m of the goal at the end.",
)


class PointMassEnv(gym.Env[Any, Any]):
    """Force moves a mass in the plane; it should come to a goal."""

    def __init__(self, **faults: Any) -> None:
        self.faults = faults
        self.dt = faults.get("own_dt", DT)
        self.action_space = gym.spaces.Box(-STRENGTH, STRENGTH, (2,), np.float64)
        self.played = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.place, self.speed, self.count = np.zeros(2), np.zeros(2), 0
        draw = np.random if self.faults.get("own_dice") else self.np_random
        self.goal = draw.uniform(0.5, 1.5, 2) * draw.choice([-1.0, 1.0], 2)
        self.shown = self.goal.copy()
        if self.faults.get("hidden"):
            self.shown[:] = 0.0
        if self.faults.get("same"):
            self.goal = self.shown = np.ones(2)
        self.played += 1
        return self._seen(), {}

    def step(self, action: Array) -> Any:
        assert not (self.faults.get("explode") and self.count == 9), "the mass fell off the table"
        for _ in range(5):
            self.speed = self.speed + DT / 5 * np.clip(action, -STRENGTH, STRENGTH)
            self.place = self.place + DT / 5 * self.speed
        wall = self.faults.get("wall", np.inf)
        self.speed = np.where(np.abs(self.place) > wall, 0.0, self.speed)
        self.place = np.clip(self.place, -wall, wall)
        self.count += 1
        reward = -float(np.linalg.norm(self.place - self.goal)) * self.faults.get("pay", 1.0)
        if self.faults.get("memory"):
            reward -= 1e-6 * self.played
        if self.faults.get("bad_reward") == self.count:
            reward = float("nan")
        ended = self.count >= self.faults.get("end", 10**9) or float(np.abs(self.place).max()) > self.faults.get(
            "edge", 1e9
        )
        return self._seen(), reward, bool(ended), False, {}

    def _seen(self) -> Array:
        return np.concatenate((self.place, self.speed, self.shown))


class PointMassTask(GymnasiumTask):
    """Tracks a reference with springs and dampers."""

    spec = SPEC

    def __init__(self, *, facts: Mapping[str, Any] | None = None, scale: float = 1.0, **faults: Any) -> None:
        super().__init__()
        self.faults = faults
        primitive = SPEC.primitive
        primitive = replace(primitive, weights_scale=0.3 * scale, goal_scale=0.5 * scale)
        self.spec = replace(SPEC, primitive=primitive, **(facts or {}))
        self.reward_after_end = faults.get("after", 0.0)

    def make_env(self) -> PointMassEnv:
        return PointMassEnv(**self.faults)

    def position(self, env: Any) -> Array:
        place: Array = env.place
        return place

    def velocity(self, env: Any) -> Array:
        speed: Array = env.speed * self.faults.get("unit", 1.0)
        return speed[::-1] if self.faults.get("swapped") else speed

    def control(self, env: Any, desired_position: Array, desired_velocity: Array) -> Array:
        gain = self.faults.get("gain", 1.0)
        force = gain * (200.0 * (desired_position - env.place) + 20.0 * (desired_velocity - env.speed))
        return force if self.faults.get("unclipped") else np.clip(force, -STRENGTH, STRENGTH)

    def metrics(self, env: Any, info: dict[str, Any]) -> Mapping[str, float]:
        distance = float(np.linalg.norm(env.place - env.goal))
        success = self.faults.get("success", float(distance < 0.2))
        values = {"success": success, "distance": distance}
        if "metrics" in self.faults:
            values = self.faults["metrics"]
        return {"success_any": 0.0, **values} if "success_any" in self.spec.metrics else values

    def measured_state(self, observation: Array) -> tuple[Array, Array]:
        first = self.faults.get("first", 0)
        velocity = observation[..., 2:4] * self.faults.get("unit", 1.0)
        return observation[..., first : first + 2], velocity[..., ::-1] if self.faults.get("swapped") else velocity
