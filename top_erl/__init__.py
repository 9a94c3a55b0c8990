"""Episodic reinforcement learning with movement primitives.

from top_erl import TopErl
agent = TopErl("top_erl/ViaPointReacher-v0", seed=0)
agent.learn(total_env_steps=200_000)
"""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING, Any

if importlib.util.find_spec("gymnasium"):  # not where only exported policies are played
    from top_erl import tasks as tasks  # registers the Gymnasium environments

if TYPE_CHECKING:
    from top_erl.agent import Agent, TopErl
    from top_erl.algorithms.registry import register_method
    from top_erl.algorithms.top_erl.targets import register_target
    from top_erl.config.run import RunConfig
    from top_erl.experiment.callbacks import BaseCallback, CallbackList, StopAtSuccess
    from top_erl.experiment.presets import preset
    from top_erl.limits import Limits
    from top_erl.primitives import register_primitive
    from top_erl.tasks import GymnasiumTask, Task, make_task, register_task

__version__ = "0.2.0"

# Threads of PyTorch that wait for each other spin; when another process needs the core, a step then takes fifty
# times as long. Sleeping after a short spin costs nothing measurable on an idle machine (docs/performance.md). The
# variable is read when PyTorch is first imported; one that is set already is respected.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")

_WHERE = {
    "Agent": "top_erl.agent",
    "TopErl": "top_erl.agent",
    "BaseCallback": "top_erl.experiment.callbacks",
    "CallbackList": "top_erl.experiment.callbacks",
    "StopAtSuccess": "top_erl.experiment.callbacks",
    "RunConfig": "top_erl.config.run",
    "Limits": "top_erl.limits",
    "preset": "top_erl.experiment.presets",
    "register_method": "top_erl.algorithms.registry",
    "register_primitive": "top_erl.primitives",
    "register_target": "top_erl.algorithms.top_erl.targets",
    "GymnasiumTask": "top_erl.tasks",
    "Task": "top_erl.tasks",
    "make_task": "top_erl.tasks",
    "register_task": "top_erl.tasks",
}

__all__ = [
    "Agent",
    "BaseCallback",
    "CallbackList",
    "GymnasiumTask",
    "Limits",
    "RunConfig",
    "StopAtSuccess",
    "Task",
    "TopErl",
    "make_task",
    "preset",
    "register_method",
    "register_primitive",
    "register_target",
    "register_task",
]


def __getattr__(name: str) -> Any:
    """Import public names when they are first used, so that worker processes stay small."""
    if name not in _WHERE:
        raise AttributeError(f"module 'top_erl' has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)
