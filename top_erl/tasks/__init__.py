"""Tasks: environments that play whole episodes from a seed and a reference trajectory.

`Task` is the contract, `GymnasiumTask` adapts a step environment of your own, `make_task` finds them by name.
Importing this package also makes the step environments known to `gymnasium.make`. It needs no PyTorch.
"""

from top_erl.tasks.contract import EpisodeOutcomes, EpisodeStarts, PrimitiveSettings, Task, TaskSpec
from top_erl.tasks.gymnasium_task import GymnasiumTask
from top_erl.tasks.registration import register_environments
from top_erl.tasks.registry import make_task, register_task, task_ids

register_environments()

__all__ = [
    "EpisodeOutcomes",
    "EpisodeStarts",
    "GymnasiumTask",
    "PrimitiveSettings",
    "Task",
    "TaskSpec",
    "make_task",
    "register_task",
    "task_ids",
]
