"""Registers the step environments with Gymnasium, so that `gymnasium.make` finds them.

Gymnasium 1.x loads no plugins by itself any more: `import top_erl.tasks` comes first, or the module stands in
the id, as in `gymnasium.make("top_erl.tasks:top_erl/ViaPointReacher-v0")`.
"""

from __future__ import annotations

from gymnasium.envs.registration import register, registry

_ENTRY_POINTS = {
    "ViaPointReacher-v0": ("top_erl.tasks.via_point_reacher_env:ViaPointReacherEnv", 50),
}
"""Name of each environment, with where it is and its number of steps."""


def register_environments() -> None:
    """Register what is not registered yet; the environments themselves are imported when they are made."""
    for name, (entry_point, max_episode_steps) in _ENTRY_POINTS.items():
        id = f"top_erl/{name}"
        if id not in registry:
            register(id, entry_point=entry_point, max_episode_steps=max_episode_steps)
