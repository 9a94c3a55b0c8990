"""Tasks by name, and their step environments: one table.

A name is an id, such as `top_erl/ViaPointReacher-v0`, or the import path of a task of your own, such as
`my_package.my_module:MyTask`. The latter needs no registration, so worker processes find it too.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from gymnasium.envs.registration import register
from gymnasium.envs.registration import registry as gymnasium_registry

from top_erl.errors import UserError, unknown_name
from top_erl.tasks.contract import Task, TaskSpec
from top_erl.tasks.metaworld.facts import HORIZON as METAWORLD_HORIZON
from top_erl.tasks.metaworld.facts import TASKS as METAWORLD_TASKS
from top_erl.tasks.metaworld.facts import jumping_id, task_id

TaskFactory = Callable[[], Task]


@dataclass(frozen=True)
class _Entry:
    """Where a task is, and its step environment; both are imported when they are first made."""

    task: TaskFactory | str
    """Makes the task, or the import path of what does."""
    environment: str = ""
    """Import path of its Gymnasium environment; empty: it has none under this name."""
    steps: int = 0
    """Steps of the environment's episodes."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the environment."""


def _box_pushing(name: str, environment: str) -> _Entry:
    return _Entry(f"top_erl.tasks.box_pushing.task:{name}", f"top_erl.tasks.box_pushing.env:{environment}", 100)


def _hopper_jump(name: str) -> _Entry:
    return _Entry(f"top_erl.tasks.hopper_jump.task:{name}", f"top_erl.tasks.hopper_jump.env:{name}Env", 250)


def _metaworld(name: str) -> _Entry:
    environment = "top_erl.tasks.metaworld.env:MetaworldEnv"
    return _Entry(f"top_erl.tasks.metaworld.task:{name}", environment, METAWORLD_HORIZON, {"name": name})


def _metaworld_jumping(name: str) -> _Entry:
    task = f"top_erl.tasks.metaworld.jumping:{name.removesuffix('-v3')}"
    environment = "top_erl.tasks.metaworld.jumping_env:JumpingMetaworldEnv"
    return _Entry(task, environment, METAWORLD_HORIZON, {"name": name})


_REACHER = "top_erl.tasks.via_point_reacher"
_TASKS: dict[str, _Entry] = {
    "top_erl/BoxPushingDense-v0": _box_pushing("BoxPushingDense", "BoxPushingEnv"),
    "top_erl/BoxPushingSparse-v0": _box_pushing("BoxPushingSparse", "BoxPushingSparseEnv"),
    "top_erl/BoxPushingDense-v1": _box_pushing("BoxPushingRelativeDense", "BoxPushingRelativeEnv"),
    "top_erl/BoxPushingSparse-v1": _box_pushing("BoxPushingRelativeSparse", "BoxPushingRelativeSparseEnv"),
    "top_erl/BoxPushingFixedStartDense-v0": _box_pushing("BoxPushingFixedStartDense", "BoxPushingFixedStartEnv"),
    "top_erl/BoxPushingFixedStartSparse-v0": _box_pushing(
        "BoxPushingFixedStartSparse", "BoxPushingFixedStartSparseEnv"
    ),
    "top_erl/HopperJump-v0": _hopper_jump("HopperJump"),
    "top_erl/HopperJumpSparse-v0": _hopper_jump("HopperJumpSparse"),
    "top_erl/ViaPointReacher-v0": _Entry(f"{_REACHER}.task:ViaPointReacher", f"{_REACHER}.env:ViaPointReacherEnv", 50),
    "top_erl/ViaPointReacherJump-v0": _Entry(
        f"{_REACHER}.task:ViaPointReacherJump", f"{_REACHER}.env:ViaPointReacherJumpEnv", 50
    ),
    "top_erl/BoxPushingJumpDense-v0": _box_pushing("BoxPushingJumpDense", "BoxPushingJumpEnv"),
    **{jumping_id(name): _metaworld_jumping(name) for name in ("reach-v3", "push-v3")},
    **{task_id(name): _metaworld(name) for name in METAWORLD_TASKS},  # the package's own namespace is `Meta-World/`
}


def register_environments() -> None:
    """Make the step environments known to `gymnasium.make`.

    Gymnasium 1.x loads no plugins by itself any more: `import top_erl.tasks` comes first, or the module stands in the
    id, as in `gymnasium.make("top_erl.tasks:top_erl/ViaPointReacher-v0")`.
    """
    for id, entry in _TASKS.items():
        if entry.environment and id not in gymnasium_registry:
            register(id, entry.environment, max_episode_steps=entry.steps, kwargs=dict(entry.arguments))


def register_task(id: str, factory: TaskFactory | str) -> None:
    """Give a task a name, in this process.

    Args:
        id: The name, for example `my_lab/Pouring-v0`. A name that exists already gets the new factory.
        factory: A class or function that makes the task without arguments, or its import path as
            `"module:name"`, which is imported when the task is first made.
    """
    if ":" in id or not id.strip():
        raise UserError(f"A task's id is a name without a colon, such as 'my_lab/Pouring-v0', not {id!r}.")
    _TASKS[id] = _Entry(factory)


def make_task(id: str) -> Task:
    """Make a task from its id, or from the import path `"module:name"` of its class or factory."""
    factory = registered(id)
    if factory is None and ":" not in id:
        raise unknown_name("task", id, _TASKS)
    if factory is None or isinstance(factory, str):
        factory = _import_factory(factory or id)
    task = _made(id, factory) if ":" in id else factory()
    if not isinstance(task, Task):
        raise UserError(
            f"The task {id!r} makes a {type(task).__name__}, which is not a top_erl.tasks.Task: "
            "subclass Task or GymnasiumTask."
        )
    if not isinstance(getattr(task, "spec", None), TaskSpec):
        raise UserError(f"The task {id!r} has no spec: give its class `spec = TaskSpec(...)`, the facts about it.")
    return task


def _made(path: str, factory: TaskFactory) -> object:
    """Make a task that is code of the user's: what goes wrong there is theirs to mend."""
    try:
        return factory()
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        lacks = ", ".join(sorted(getattr(factory, "__abstractmethods__", ())))
        reason = f"it does not say {lacks}" if lacks else import_reason(error)
        raise UserError(f"The task {path!r} cannot be made: {reason}.") from error


def task_ids() -> list[str]:
    """Names of all registered tasks, sorted."""
    return sorted(_TASKS)


def registered(id: str) -> TaskFactory | str | None:
    """What is registered under an id, for handing on to another process; None for an import path."""
    return _TASKS[id].task if id in _TASKS else None


def is_loaded_task(path: str) -> bool:
    """Whether `"module:name"` is a task class that has been imported already, so that making it is no surprise."""
    module_name, _, name = path.partition(":")
    found = getattr(sys.modules.get(module_name), name, None)
    return isinstance(found, type) and issubclass(found, Task)


def _import_factory(path: str) -> TaskFactory:
    """Import what `"module:name"` names."""
    module_name, _, name = path.partition(":")
    try:
        module = import_from_here(module_name)
    except (Exception, SystemExit) as error:  # it is code of the user's, which may do anything
        reason = import_reason(error)
        raise UserError(f"Cannot import the task {path!r} from module {module_name!r}: {reason}.") from error
    factory = getattr(module, name, None) if name else None
    if not callable(factory):
        raise UserError(f"Cannot import the task {path!r}: module {module_name!r} has no class or function {name!r}.")
    if not _may_make_a_task(factory):
        raise UserError(
            f"{path!r} is not a task, nor a function without arguments that makes one: subclass "
            "top_erl.tasks.Task or GymnasiumTask, and name that class."
        )
    made: TaskFactory = factory
    return made


def _may_make_a_task(factory: Callable[..., Any]) -> bool:
    """Whether calling it is no surprise: a task's class, or what is written in Python and needs no arguments."""
    if isinstance(factory, type) and not issubclass(factory, Task):
        return False
    if inspect.isbuiltin(factory):  # such as os.abort
        return False
    try:
        inspect.signature(factory).bind()
    except (TypeError, ValueError):
        return False
    return True


def import_reason(error: BaseException) -> str:
    """Why a module cannot be imported, with the kind of error where that says more."""
    said = str(error).rstrip(".")
    return said if isinstance(error, (ImportError, ValueError)) and said else f"{type(error).__name__}: {said}"


def import_from_here(module_name: str) -> ModuleType:
    """Import a module; those in the current directory are found as well."""
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.append(os.getcwd())  # last, so that it hides no installed package
    return importlib.import_module(module_name)
