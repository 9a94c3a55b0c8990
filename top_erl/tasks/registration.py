"""Registers the step environments with Gymnasium, so that `gymnasium.make` finds them.

Gymnasium 1.x loads no plugins by itself any more: `import top_erl.tasks` comes first, or the module stands in
the id, as in `gymnasium.make("top_erl.tasks:top_erl/ViaPointReacher-v0")`.
"""

from __future__ import annotations

from gymnasium.envs.registration import register, registry

from top_erl.tasks.metaworld.facts import HORIZON as METAWORLD_HORIZON
from top_erl.tasks.metaworld.facts import TASKS as METAWORLD_TASKS
from top_erl.tasks.metaworld.facts import task_id

_ENTRY_POINTS = {
    "BoxPushingDense-v0": ("top_erl.tasks.box_pushing.env:BoxPushingEnv", 100),
    "BoxPushingSparse-v0": ("top_erl.tasks.box_pushing.env:BoxPushingSparseEnv", 100),
    "BoxPushingFixedStartDense-v0": ("top_erl.tasks.box_pushing.env:BoxPushingFixedStartEnv", 100),
    "BoxPushingFixedStartSparse-v0": ("top_erl.tasks.box_pushing.env:BoxPushingFixedStartSparseEnv", 100),
    "HopperJump-v0": ("top_erl.tasks.hopper_jump.env:HopperJumpEnv", 250),
    "HopperJumpSparse-v0": ("top_erl.tasks.hopper_jump.env:HopperJumpSparseEnv", 250),
    "ViaPointReacher-v0": ("top_erl.tasks.via_point_reacher_env:ViaPointReacherEnv", 50),
}
"""Name of each environment, with where it is and its number of steps."""


def register_environments() -> None:
    """Register what is not registered yet; the environments themselves are imported when they are made."""
    for name, (entry_point, max_episode_steps) in _ENTRY_POINTS.items():
        id = f"top_erl/{name}"
        if id not in registry:
            register(id, entry_point=entry_point, max_episode_steps=max_episode_steps)
    for name in METAWORLD_TASKS:  # the package metaworld itself uses the namespace `Meta-World/`
        if task_id(name) not in registry:
            register(
                task_id(name),
                entry_point="top_erl.tasks.metaworld.env:MetaworldEnv",
                max_episode_steps=METAWORLD_HORIZON,
                kwargs={"name": name},
            )
