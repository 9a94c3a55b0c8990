"""Tasks: environments that play whole episodes from a seed and a reference trajectory.

`Task` is the contract, `GymnasiumTask` adapts a step environment of your own, `make_task` finds them by name.
Importing this package also makes the step environments known to `gymnasium.make`. It needs no PyTorch.
"""

from top_erl.config.primitive import PrimitiveConfig
from top_erl.tasks.catalogue import make_task, register_environments, register_task, task_ids
from top_erl.tasks.contract import EpisodeOutcomes, EpisodeStarts, Task, TaskSpec
from top_erl.tasks.goals import GoalRule
from top_erl.tasks.gymnasium_task import Array, Env, GymnasiumTask
from top_erl.tasks.observations import observation_slices

register_environments()

__all__ = [
    "Array",
    "Env",
    "EpisodeOutcomes",
    "EpisodeStarts",
    "GoalRule",
    "GymnasiumTask",
    "PrimitiveConfig",
    "Task",
    "TaskSpec",
    "make_task",
    "observation_slices",
    "register_task",
    "task_ids",
]
