"""Via-point reacher: a planar arm passes one point at half time and stops at another at the end.

But for a small cost of acceleration, the reward is zero except at those two instants, so the movement as a
whole has to be right. Observation (16): joint angles 5, joint velocities 5, tip 2, via point 2, goal 2.

`ViaPointReacher` plays whole episodes; `ViaPointReacherEnv` is the same as a Gymnasium step environment. Both
call the functions here, so they agree to the last bit.

Axes: `B` episodes, `T` control steps, `D` joints, `...` any batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from top_erl.tasks.checks import checked_reference, checked_seeds
from top_erl.tasks.contract import EpisodeOutcomes, EpisodeStarts, PrimitiveSettings, Task, TaskSpec
from top_erl.tasks.planar_arm import PlanarArm

Array = NDArray[np.float64]

ARM = PlanarArm()
"""The arm of this task."""
HORIZON = 50
"""T: control steps per episode (one second)."""
VIA_STEP = 24
"""Index of the step at whose end the tip should be at the via point: half time."""
GOAL_STEP = HORIZON - 1
"""Index of the step at whose end the tip should be at the goal: the last."""
INNER_RADIUS, OUTER_RADIUS = 0.2 * ARM.reach, 0.95 * ARM.reach
"""Via point and goal lie between these distances from the base, above it."""
SUCCESS_RADIUS = 0.1 * ARM.reach
"""Both distances must be at most this."""
DISTANCE_COST = 10.0
"""Reward lost per metre from the via point at half time, and from the goal at the end."""
ACCELERATION_COST = 1e-5
"""Reward lost per (rad/s²)², over all joints, at every step: about 0.15 a good episode, 1 to 2 a wild one."""

SPEC = TaskSpec(
    id="top_erl/ViaPointReacher-v0",
    observation_dim=16,
    num_dof=ARM.num_joints,
    horizon=HORIZON,
    dt=ARM.dt,
    metrics=("success", "via_distance", "goal_distance"),
    primitive=PrimitiveSettings(num_basis=5, tau=1.0, weights_scale=0.3, goal_scale=0.5, relative_goal=True),
    stride=2,
    context_mask=(12, 13, 14, 15),
    version="1",
    success_rule="The tip is within 0.1 m of the via point after 0.5 s and of the goal after 1 s.",
    description="A five-joint planar arm passes a via point at half time and reaches a goal at the end.",
)


@dataclass(frozen=True)
class Context:
    """What differs between episodes."""

    via: Array
    """The via point, [..., 2]."""
    goal: Array
    """The goal, [..., 2]."""


def draw_context(generators: Sequence[np.random.Generator]) -> Context:
    """Draw a via point and a goal per generator, uniform over the area of the upper half ring.

    Args:
        generators: One per episode; each gives four numbers.

    Returns:
        Via points and goals, [B, 2] each.
    """
    uniform = np.stack([generator.random((2, 2)) for generator in generators])  # [B, via and goal, radius and angle]
    inner, outer = INNER_RADIUS**2, OUTER_RADIUS**2
    radius = np.sqrt(inner + (outer - inner) * uniform[..., 0])  # the area inside r grows with r squared
    angle = np.pi * uniform[..., 1]
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)
    return Context(via=points[:, 0], goal=points[:, 1])


def observe(position: Array, velocity: Array, context: Context) -> Array:
    """Build observations, [..., 16], from joint angles and velocities, [..., D], and their contexts."""
    tip = ARM.tip(position)
    via, goal = np.broadcast_to(context.via, tip.shape), np.broadcast_to(context.goal, tip.shape)
    return np.concatenate([position, velocity, tip, via, goal], axis=-1)


def acceleration_cost(velocity: Array, next_velocity: Array) -> Array:
    """Price one step's mean joint accelerations: velocities before and after, [..., D], to [...]."""
    acceleration = (next_velocity - velocity) / ARM.dt
    total = np.zeros(acceleration.shape[:-1])
    for joint in range(acceleration.shape[-1]):  # written out: the order of a sum decides its last digit
        total = total + acceleration[..., joint] * acceleration[..., joint]
    return ACCELERATION_COST * total


def distance(point: Array, target: Array) -> Array:
    """Distance between points, [..., 2] each, to [...]."""
    dx, dy = point[..., 0] - target[..., 0], point[..., 1] - target[..., 1]
    result: Array = np.sqrt(dx * dx + dy * dy)
    return result


def success(via_distance: Array, goal_distance: Array) -> Array:
    """1.0 where both distances are within the success radius, else 0.0."""
    return ((via_distance <= SUCCESS_RADIUS) & (goal_distance <= SUCCESS_RADIUS)).astype(np.float64)


class ViaPointReacher(Task):
    """The via-point reacher as an episodic task: give it references, it tracks them."""

    spec = SPEC

    def __init__(self) -> None:
        self._context: Context | None = None

    def begin(self, seeds: Sequence[int]) -> EpisodeStarts:
        """Start one episode per seed; the arm starts the same, via point and goal come from the seed."""
        self._context = draw_context([np.random.default_rng(seed) for seed in checked_seeds(SPEC, seeds)])
        position = np.tile(np.array(ARM.start), (len(seeds), 1))
        velocity = np.zeros_like(position)
        return EpisodeStarts(observe(position, velocity, self._context), position, velocity)

    def play(self, reference: Array) -> EpisodeOutcomes:
        """Track the references, [B, T, 2D], to the end of the episodes just begun."""
        context, self._context = self._context, None
        num_episodes = 0 if context is None else len(context.via)
        reference = checked_reference(SPEC, reference, num_episodes)
        assert context is not None
        position, velocity = _track(reference)  # [B, T + 1, D] each
        per_step = Context(via=context.via[:, None], goal=context.goal[:, None])
        observation = observe(position[:, :-1], velocity[:, :-1], per_step)
        via_distance = distance(ARM.tip(position[:, VIA_STEP + 1]), context.via)
        goal_distance = distance(ARM.tip(position[:, GOAL_STEP + 1]), context.goal)
        reward = -acceleration_cost(velocity[:, :-1], velocity[:, 1:])
        reward[:, VIA_STEP] -= DISTANCE_COST * via_distance
        reward[:, GOAL_STEP] -= DISTANCE_COST * goal_distance
        metrics = {
            "success": success(via_distance, goal_distance),
            "via_distance": via_distance,
            "goal_distance": goal_distance,
        }
        return EpisodeOutcomes(observation, reward, metrics)

    def measured_state(self, observation: Array) -> tuple[Array, Array]:
        """Read joint angles and velocities, [..., D] each, off observations, [..., 16]."""
        dof = SPEC.num_dof
        return observation[..., :dof], observation[..., dof : 2 * dof]

    def frames(self, seed: int, reference: Array, every: int = 1) -> list[NDArray[np.uint8]]:
        """Play one episode, reference [T, 2D]; pictures, [480, 480, 3], after each `every`-th step and the last."""
        from top_erl.tasks.reacher_picture import draw_reacher

        context = draw_context([np.random.default_rng(seed)])
        position, _ = _track(checked_reference(SPEC, np.asarray(reference)[None], 1))
        points = ARM.joint_points(position[0])  # [T + 1, D + 1, 2]
        steps = [*range(every, HORIZON, every), HORIZON]
        return [draw_reacher(points[: step + 1], context.via[0], context.goal[0]) for step in steps]


def _track(reference: Array) -> tuple[Array, Array]:
    """Track references, [B, T, 2D]; joint angles and velocities at all instants, [B, T + 1, D] each."""
    dof = ARM.num_joints
    positions = np.empty((len(reference), HORIZON + 1, dof))
    velocities = np.empty_like(positions)
    position = positions[:, 0] = np.tile(np.array(ARM.start), (len(reference), 1))
    velocity = velocities[:, 0] = np.zeros_like(position)
    for step in range(HORIZON):
        action = ARM.control(position, velocity, reference[:, step, :dof], reference[:, step, dof:])
        position, velocity = ARM.advance(position, velocity, action)
        positions[:, step + 1], velocities[:, step + 1] = position, velocity
    return positions, velocities
