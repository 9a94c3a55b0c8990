"""The step environments of Meta-World tasks whose goal jumps in the middle of an episode: reach and push.

Everything else is as in `env.py`. The second goal is drawn as Meta-World draws the first, from the same range and as
far from the object's start; the observation shows the goal as it is now, and rewards and success go by it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from top_erl.errors import UserError
from top_erl.tasks.metaworld.env import MetaworldEnv

Array = NDArray[np.float64]

FIRST_JUMP, LAST_JUMP = 100, 250
"""Steps before which the goal may jump, both included: of 500."""
_MIN_DISTANCE = 0.15
"""Metres between the goal and the object's start at least, on the table, as in Meta-World."""
_ON_THE_TABLE = {"reach-v3": False, "push-v3": True}
"""Whether the height of a goal is that of the object, whatever was drawn."""


class JumpingMetaworldEnv(MetaworldEnv):
    """A Meta-World task whose goal jumps once, after 100 to 250 of 500 steps."""

    def __init__(self, name: str, render_mode: str | None = None) -> None:
        """Build the simulator of `reach-v3` or `push-v3`."""
        if name not in _ON_THE_TABLE:
            raise UserError(f"The goal jumps in {' and '.join(_ON_THE_TABLE)} only, not in {name}.")
        super().__init__(name, render_mode)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Start an episode; where and when the goal jumps comes from the seed, too."""
        observation, info = super().reset(seed=seed, options=options)
        simulator, draw = self.simulator, self.np_random
        space, goal = simulator._random_reset_space, simulator._target_pos.copy()
        place = simulator.obj_init_pos[:2]
        while True:
            goal[:] = draw.uniform(space.low[-3:], space.high[-3:])
            if np.linalg.norm(goal[:2] - place) >= _MIN_DISTANCE:
                break
        if _ON_THE_TABLE[self.name]:
            goal[2] = simulator._target_pos[2]
        # Kept by the simulator, and so saved and restored with it: one environment plays many episodes.
        simulator.jump = int(draw.integers(FIRST_JUMP, LAST_JUMP + 1)), goal
        return observation, info

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Make a step; before the one of the jump, the new goal is seen."""
        observation, *rest = super().step(action)
        when, goal = self.simulator.jump
        if self._num_steps == when:
            self.simulator._target_pos = goal.copy()
            self.simulator.model.site("goal").pos = goal
            observation[36:] = goal
        return observation, *rest  # type: ignore[return-value]
