"""Presets: the whole configuration for a method, a task and a scale.

Each family of methods has its own module with the numbers and where they come from; this one finds it.
"""

from __future__ import annotations

from typing import Any, get_args

from top_erl.errors import unknown_name
from top_erl.experiment.config import RunConfig, Scale
from top_erl.experiment.kinds import kind_of
from top_erl.tasks import make_task


def preset(method: str, task_id: str, scale: str, seed: int = 0) -> RunConfig:
    """The configuration that `top-erl train` starts from."""
    kind = kind_of(method)
    if scale not in get_args(Scale):
        raise unknown_name("scale", scale, get_args(Scale))
    task = make_task(task_id)
    try:
        algorithm, primitive, steps, evaluation = kind.preset(task.spec, scale)
    finally:
        task.close()
    values: dict[str, Any] = {
        "task": task_id,
        "method": method,
        "scale": scale,
        "seed": seed,
        "total_env_steps": steps,
        "algorithm": algorithm,
        "evaluation": evaluation,
    }
    if primitive is not None:
        values["primitive"] = primitive
    return kind.run(**values)
