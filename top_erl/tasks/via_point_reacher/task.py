"""Via-point reacher: a planar arm passes one point at half time and stops at another at the end.

But for a small cost of acceleration, the reward is zero except at those two instants, so the movement as a
whole has to be right. Observation (16): joint angles 5, joint velocities 5, tip 2, via point 2, goal 2.

`ViaPointReacher` plays whole episodes; `ViaPointReacherEnv` is the same as a Gymnasium step environment. Both
call the functions of `rules.py`, so they agree to the last bit.

Axes: `B` episodes, `T` control steps, `D` joints, `...` any batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from top_erl.config.primitive import PrimitiveConfig
from top_erl.tasks.checks import checked_reference, checked_seeds
from top_erl.tasks.contract import Array, EpisodeOutcomes, EpisodeStarts, Task, TaskSpec
from top_erl.tasks.via_point_reacher.rules import (
    ARM,
    DISTANCE_COST,
    GOAL_STEP,
    HORIZON,
    VIA_STEP,
    Context,
    acceleration_cost,
    distance,
    draw_context,
    observe,
    success,
)

SPEC = TaskSpec(
    id="top_erl/ViaPointReacher-v0",
    observation_dim=16,
    num_dof=ARM.num_joints,
    horizon=HORIZON,
    dt=ARM.dt,
    metrics=("success", "via_distance", "goal_distance"),
    primitive=PrimitiveConfig(num_basis=5, tau=1.0, weights_scale=0.3, goal_scale=0.5, relative_goal=True),
    stride=2,
    context_mask=(12, 13, 14, 15),
    version="1",
    success_rule="The tip is within 0.1 m of the via point after 0.5 s and of the goal after 1 s.",
    description="A five-joint planar arm passes a via point at half time and reaches a goal at the end.",
    dof_names=tuple(f"joint{number}" for number in range(1, ARM.num_joints + 1)),
    dof_units=("rad",) * ARM.num_joints,
)


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
        from top_erl.tasks.via_point_reacher.picture import draw_reacher

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
