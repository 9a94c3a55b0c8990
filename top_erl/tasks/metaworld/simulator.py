"""Makes a class that simulates a Meta-World task: Meta-World's own, faster and without a memory.

Model, placing of objects, and reward are Meta-World's. `QuickSawyer` stands in front of its class, and the reward
functions run with the arithmetic of `arithmetic`: copies of them find quicker functions under the names that they use,
so that nothing inside the package `metaworld` is replaced.
"""

from __future__ import annotations

import functools
import importlib.metadata
import types
from typing import Any

from top_erl.errors import UserError, install_command, missing_extra
from top_erl.tasks.metaworld.arithmetic import QuickRotation, quick_tolerance
from top_erl.tasks.metaworld.facts import VERSION, task_id
from top_erl.tasks.metaworld.sawyer import QuickSawyer

_MOVED_LAST = frozenset({"window-close-v3"})
"""Tasks whose first observation would show the object where it was before a joint was moved (0.2 m away)."""


@functools.cache
def simulator(name: str) -> type[Any]:
    """Make the class that simulates a task, e.g. `reach-v3`."""
    _check_package(name)
    from metaworld.env_dict import ALL_V3_ENVIRONMENTS
    from metaworld.sawyer_xyz_env import SawyerXYZEnv

    original: type[Any] = ALL_V3_ENVIRONMENTS[name]
    quick = type(f"Quick{original.__name__}", (QuickSawyer, original), {"_moved_last": name in _MOVED_LAST})
    for origin in (SawyerXYZEnv, original):
        _use_quick_arithmetic(quick, origin)
    return quick


def _check_package(name: str) -> None:
    """Say what to install if the package `metaworld` is not there, or is another one."""
    try:
        found = importlib.metadata.version("metaworld")
    except importlib.metadata.PackageNotFoundError as error:
        raise missing_extra("metaworld", "metaworld", f"The task {task_id(name)}") from error
    if found != VERSION:
        raise UserError(
            f"The task {task_id(name)} needs metaworld {VERSION}, which it was checked with, and found {found}: "
            f"{install_command('metaworld')}"
        )


def _use_quick_arithmetic(quick: type[Any], origin: type[Any]) -> None:
    """Give `quick` copies of a class's methods that find quicker functions under the names that they use."""
    from metaworld.utils import reward_utils

    tolerance = quick_tolerance(reward_utils.tolerance)
    rewards = types.SimpleNamespace(**{**vars(reward_utils), "tolerance": tolerance})
    names: dict[str, Any] = {"reward_utils": rewards, "tolerance": tolerance, "Rotation": QuickRotation}
    names[origin.__name__] = quick  # static methods are called by the class's name
    for name, method in vars(origin).items():
        function = method.__func__ if isinstance(method, staticmethod) else method
        if not isinstance(function, types.FunctionType) or not names.keys() & set(function.__code__.co_names):
            continue
        if name in vars(QuickSawyer):
            continue
        copy = types.FunctionType(
            function.__code__,
            {**function.__globals__, **names},
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )
        copy.__kwdefaults__ = function.__kwdefaults__
        setattr(quick, name, staticmethod(copy) if isinstance(method, staticmethod) else copy)
