"""Tasks by name.

A name is an id, such as `top_erl/ViaPointReacher-v0`, or the import path of a task of your own, such as
`my_package.my_module:MyTask`. The latter needs no registration, so worker processes find it too.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable

from top_erl.errors import UserError, unknown_name
from top_erl.tasks.contract import Task
from top_erl.tasks.metaworld.facts import TASKS as METAWORLD_TASKS
from top_erl.tasks.metaworld.facts import task_id

TaskFactory = Callable[[], Task]

_FACTORIES: dict[str, TaskFactory | str] = {
    "top_erl/BoxPushingDense-v0": "top_erl.tasks.box_pushing.task:BoxPushingDense",
    "top_erl/BoxPushingSparse-v0": "top_erl.tasks.box_pushing.task:BoxPushingSparse",
    "top_erl/BoxPushingFixedStartDense-v0": "top_erl.tasks.box_pushing.task:BoxPushingFixedStartDense",
    "top_erl/BoxPushingFixedStartSparse-v0": "top_erl.tasks.box_pushing.task:BoxPushingFixedStartSparse",
    "top_erl/HopperJump-v0": "top_erl.tasks.hopper_jump.task:HopperJump",
    "top_erl/HopperJumpSparse-v0": "top_erl.tasks.hopper_jump.task:HopperJumpSparse",
    "top_erl/ViaPointReacher-v0": "top_erl.tasks.via_point_reacher:ViaPointReacher",
    **{task_id(name): f"top_erl.tasks.metaworld.task:{name}" for name in METAWORLD_TASKS},
}


def register_task(id: str, factory: TaskFactory | str) -> None:
    """Give a task a name, in this process.

    Args:
        id: The name, for example `my_lab/Pouring-v0`. A name that exists already gets the new factory.
        factory: A class or function that makes the task without arguments, or its import path as
            `"module:name"`, which is imported when the task is first made.
    """
    if ":" in id or not id.strip():
        raise UserError(f"A task's id is a name without a colon, such as 'my_lab/Pouring-v0', not {id!r}.")
    _FACTORIES[id] = factory


def make_task(id: str) -> Task:
    """Make a task from its id, or from the import path `"module:name"` of its class or factory."""
    factory = _FACTORIES.get(id)
    if factory is None and ":" not in id:
        raise unknown_name("task", id, _FACTORIES)
    if factory is None or isinstance(factory, str):
        factory = _import_factory(factory or id)
    task: object = factory()
    if not isinstance(task, Task):
        raise UserError(
            f"The task {id!r} makes a {type(task).__name__}, which is not a top_erl.tasks.Task: "
            "subclass Task or GymnasiumTask."
        )
    return task


def task_ids() -> list[str]:
    """Names of all registered tasks, sorted."""
    return sorted(_FACTORIES)


def registered(id: str) -> TaskFactory | str | None:
    """What is registered under an id, for handing on to another process; None for an import path."""
    return _FACTORIES.get(id)


def is_loaded_task(path: str) -> bool:
    """Whether `"module:name"` is a task class that has been imported already, so that making it is no surprise."""
    module_name, _, name = path.partition(":")
    found = getattr(sys.modules.get(module_name), name, None)
    return isinstance(found, type) and issubclass(found, Task)


def _import_factory(path: str) -> TaskFactory:
    """Import what `"module:name"` names; modules in the current directory are found as well."""
    module_name, _, name = path.partition(":")
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.append(os.getcwd())  # last, so that it hides no installed package
    try:
        module = importlib.import_module(module_name)
    except (ImportError, ValueError, TypeError) as error:  # ValueError: no name; TypeError: a relative one
        raise UserError(f"Cannot import the task {path!r} from module {module_name!r}: {error}.") from error
    factory = getattr(module, name, None) if name else None
    if not callable(factory):
        raise UserError(f"Cannot import the task {path!r}: module {module_name!r} has no class or function {name!r}.")
    made: TaskFactory = factory
    return made
