"""Meta-World tasks whose goal jumps in the middle of an episode, reach and push, as episodic tasks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from top_erl.tasks.metaworld.facts import jumping_id
from top_erl.tasks.metaworld.task import MetaworldTask

if TYPE_CHECKING:
    from top_erl.tasks.metaworld.env import MetaworldEnv


class JumpingMetaworldTask(MetaworldTask):
    """Reach or push, with a goal that jumps."""

    def __init__(self, name: str) -> None:
        """Take a task by its Meta-World name, `reach-v3` or `push-v3`."""
        super().__init__(name)
        self.spec = replace(
            self.spec,
            id=jumping_id(name),
            version=f"{self.spec.version}-jump-1",
            success_rule=f"{self.spec.success_rule.rstrip('.')}, as it is then.",
            description=f"{self.spec.description.rstrip('.')}, which jumps to another place after 100 to 250 steps.",
        )

    def make_env(self) -> MetaworldEnv:
        """Build the simulator."""
        from top_erl.tasks.metaworld.jumping_env import JumpingMetaworldEnv

        return JumpingMetaworldEnv(self.name, render_mode="rgb_array")


def reach() -> JumpingMetaworldTask:
    """Reach a goal that jumps."""
    return JumpingMetaworldTask("reach-v3")


def push() -> JumpingMetaworldTask:
    """Push a puck to a goal that jumps."""
    return JumpingMetaworldTask("push-v3")
