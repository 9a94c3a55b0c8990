"""Via-point reacher: a planar arm passes one point at half time and stops at another at the end.

But for a small cost of acceleration, the reward is zero except at those two instants, so the movement as a
whole has to be right. Observation (16): joint angles 5, joint velocities 5, tip 2, via point 2, goal 2.

`ViaPointReacher` plays whole episodes; `ViaPointReacherEnv` is the same as a Gymnasium step environment. Both
call the functions of `rules.py`, so they agree to the last bit.

In `ViaPointReacherJump` the goal jumps somewhere else in the middle of the episode. The observation shows where it is
now, so that nobody can know before, and who looks again can answer.

Axes: `B` episodes, `T` control steps, `D` joints, `...` any batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from top_erl.config.primitive import PrimitiveConfig
from top_erl.tasks.checks import checked_part, checked_reference, checked_seeds
from top_erl.tasks.contract import Array, EpisodeOutcomes, EpisodeStarts, Task, TaskSpec
from top_erl.tasks.via_point_reacher.rules import (
    ARM,
    DISTANCE_COST,
    GOAL_STEP,
    HORIZON,
    VIA_STEP,
    Context,
    Jump,
    acceleration_cost,
    distance,
    draw_context,
    draw_jump,
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
    family="via_point_reacher",
    dof_names=tuple(f"joint{number}" for number in range(1, ARM.num_joints + 1)),
    dof_units=("rad",) * ARM.num_joints,
)
JUMP_SPEC = replace(
    SPEC,
    id="top_erl/ViaPointReacherJump-v0",
    success_rule="The tip is within 0.1 m of the via point after 0.5 s and of the goal, as it is then, after 1 s.",
    description="The via-point arm, whose goal jumps to another place between 0.2 and 0.6 s.",
)


@dataclass
class _Episodes:
    """Episodes that have begun."""

    context: Context
    jump: Jump | None
    position: Array  # joint angles at all instants, [B, T + 1, D]
    velocity: Array
    step: int = 0  # steps made


class ViaPointReacher(Task):
    """The via-point reacher as an episodic task: give it references, it tracks them."""

    spec = SPEC
    jumping: ClassVar[bool] = False
    """Whether the goal jumps."""

    def __init__(self) -> None:
        self._episodes: _Episodes | None = None

    def begin(self, seeds: Sequence[int]) -> EpisodeStarts:
        """Start one episode per seed; the arm starts the same, via point and goal come from the seed."""
        generators = [np.random.default_rng(seed) for seed in checked_seeds(self.spec, seeds)]
        context = draw_context(generators)
        position = np.empty((len(generators), HORIZON + 1, ARM.num_joints))
        velocity = np.empty_like(position)
        position[:, 0], velocity[:, 0] = np.array(ARM.start), 0.0
        self._episodes = _Episodes(context, draw_jump(generators) if self.jumping else None, position, velocity)
        return _instant(self._episodes)

    def advance(self, reference: Array) -> EpisodeStarts:
        """Track the next rows of the references, [B, n, 2D], in the episodes just begun."""
        episodes = self._episodes
        count, step = (0, 0) if episodes is None else (len(episodes.position), episodes.step)
        reference = checked_part(self.spec, reference, count, step)
        assert episodes is not None
        _track(episodes, reference)
        return _instant(episodes)

    def play(self, reference: Array) -> EpisodeOutcomes:
        """Track the references, [B, T, 2D], to the end of the episodes just begun."""
        episodes, self._episodes = self._episodes, None
        count, step = (0, 0) if episodes is None else (len(episodes.position), episodes.step)
        reference = checked_reference(self.spec, reference, count, step)
        assert episodes is not None
        _track(episodes, reference)
        position, velocity, via = episodes.position, episodes.velocity, episodes.context.via
        goal = _goals(episodes, np.arange(HORIZON))  # [B, T, 2], or [B, 1, 2] if it stays
        observation = observe(position[:, :-1], velocity[:, :-1], Context(via=via[:, None], goal=goal))
        via_distance = distance(ARM.tip(position[:, VIA_STEP + 1]), via)
        goal_distance = distance(ARM.tip(position[:, GOAL_STEP + 1]), goal[:, -1])
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

        self.begin([seed])
        episodes, self._episodes = self._episodes, None
        assert episodes is not None
        _track(episodes, checked_reference(self.spec, np.asarray(reference)[None], 1))
        points = ARM.joint_points(episodes.position[0])  # [T + 1, D + 1, 2]
        steps = np.array([*range(every, HORIZON, every), HORIZON])
        goals = np.broadcast_to(_goals(episodes, steps)[0], (len(steps), 2))
        via = episodes.context.via[0]
        return [draw_reacher(points[: step + 1], via, goal) for step, goal in zip(steps, goals, strict=True)]


class ViaPointReacherJump(ViaPointReacher):
    """The via-point reacher whose goal jumps in the middle of the episode."""

    spec = JUMP_SPEC
    jumping = True


def _goals(episodes: _Episodes, steps: NDArray[np.int64]) -> Array:
    """Goals seen before steps, [n]: [B, n, 2], or [B, 1, 2] if they stay where they are."""
    goal = episodes.context.goal
    return goal[:, None] if episodes.jump is None else episodes.jump.goals(goal, steps)


def _instant(episodes: _Episodes) -> EpisodeStarts:
    """What is seen and measured now."""
    step = episodes.step
    position, velocity = episodes.position[:, step].copy(), episodes.velocity[:, step].copy()
    now = Context(episodes.context.via, _goals(episodes, np.array([step]))[:, 0])
    return EpisodeStarts(observe(position, velocity, now), position, velocity)


def _track(episodes: _Episodes, reference: Array) -> None:
    """Track the next rows of references, [B, n, 2D], and note the joint angles and velocities after each."""
    dof, first = ARM.num_joints, episodes.step
    position, velocity = episodes.position[:, first].copy(), episodes.velocity[:, first].copy()
    for step, row in enumerate(reference.swapaxes(0, 1), start=first + 1):
        action = ARM.control(position, velocity, row[:, :dof], row[:, dof:])
        position, velocity = ARM.advance(position, velocity, action)
        episodes.position[:, step], episodes.velocity[:, step] = position, velocity
    episodes.step = first + reference.shape[1]
