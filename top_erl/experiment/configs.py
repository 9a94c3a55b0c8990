"""Configurations of runs from files: the method that they name decides their type; a stranger's must not run code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from top_erl.algorithms.registry import find_method
from top_erl.config.run import RunConfig
from top_erl.config.serialize import from_dict, read_yaml
from top_erl.errors import UserError
from top_erl.tasks.catalogue import is_loaded_task

_MAY_CHANGE = ("total_env_steps", "evaluation", "checkpoint", "log", "hardware")
"""Entries that may differ between the sessions of a run: the others decide what is learned."""


def config_from_dict(data: Any) -> RunConfig:
    """Build from the result of `RunConfig.to_dict`; mistakes are named."""
    method = data.get("method", RunConfig.method) if isinstance(data, dict) else RunConfig.method
    return from_dict(find_method(str(method)).run, data)


def load_config(path: Path) -> RunConfig:
    """Build from a `config.yaml`."""
    return config_from_dict(read_yaml(path))


def check_settings(path: Path, saved: dict[str, Any]) -> None:
    """Refuse a run's `config.yaml` that lacks what a checkpoint was saved with, or says otherwise.

    A file that was cut short still reads as a configuration, with defaults for what is gone.

    Args:
        path: The file.
        saved: The configuration at the time of the checkpoint, as plain data; entries it does not know may be new.
    """
    data = read_yaml(path)
    written, there = dict(_leaves(data)), dict(_leaves(config_from_dict(data).to_dict()))
    for name, value in _leaves(saved):
        if name not in written:
            raise UserError(
                f"{path} lacks the entry {name} ({value!r} when the checkpoint was saved): it has been cut short or "
                "changed; put back a whole copy of it."
            )
        if there.get(name) != value and name.partition(".")[0] not in _MAY_CHANGE:
            raise UserError(
                f"{path} has changed since the checkpoint was saved ({name} is {there.get(name)!r}, it was {value!r}): "
                f"put the old value back, or train anew with it, top-erl train --config {path}."
            )


def _leaves(data: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    """Entries of nested mappings under their dotted names."""
    for key, value in data.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{where}{key}.")
        else:
            yield f"{where}{key}", value


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
