"""Presets: the whole configuration for a method, a task and a scale. The numbers stand in the methods' folders."""

from __future__ import annotations

from typing import Any, cast, get_args

from top_erl.algorithms.registry import find_method
from top_erl.config.run import RunConfig, Scale
from top_erl.errors import unknown_name
from top_erl.tasks import make_task


def preset(method: str, task_id: str, scale: str, seed: int = 0) -> RunConfig:
    """The configuration that `top-erl train` starts from."""
    found = find_method(method)
    if scale not in get_args(Scale):
        raise unknown_name("scale", scale, get_args(Scale))
    task = make_task(task_id)
    try:
        spec, chosen = task.spec, found.preset(task.spec, cast(Scale, scale))
    finally:
        task.close()
    values: dict[str, Any] = {"algorithm": chosen.algorithm}
    if not found.acts_by_steps:
        values["primitive"] = chosen.primitive or spec.primitive
    return found.run(
        task=task_id,
        method=method,
        scale=cast(Scale, scale),
        seed=seed,
        total_env_steps=chosen.total_env_steps,
        evaluation=chosen.evaluation,
        **values,
    )
