"""Configurations of runs from files: the method that they name decides their type; a stranger's must not run code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from top_erl.algorithms.registry import find_method
from top_erl.config.run import RunConfig
from top_erl.config.serialize import from_dict, read_yaml
from top_erl.errors import UserError
from top_erl.tasks.catalogue import is_loaded_task


def config_from_dict(data: Any) -> RunConfig:
    """Build from the result of `RunConfig.to_dict`; mistakes are named."""
    method = data.get("method", RunConfig.method) if isinstance(data, dict) else RunConfig.method
    return from_dict(find_method(str(method)).run, data)


def load_config(path: Path) -> RunConfig:
    """Build from a `config.yaml`."""
    return config_from_dict(read_yaml(path))


def refuse_unnamed_code(config: RunConfig, named: str | None) -> None:
    """Refuse a configuration from a file whose task is code that the user has neither named nor imported.

    What the user names must be the file's task, whether that is code or not.
    """
    if named and named != config.task:
        raise UserError(f"This run's task is {config.task}, not {named}: leave --task out, or name that one.")
    if ":" not in config.task or config.task == named or is_loaded_task(config.task):
        return
    raise UserError(
        f"This run's task is Python code, {config.task}, which would be imported. If you trust it, name it: "
        f"--task {config.task} (in Python: task={config.task!r})."
    )
