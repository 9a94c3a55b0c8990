"""A stranger's run must not run code: a task given as `module:Class` is imported only if the user names it."""

from __future__ import annotations

from top_erl.errors import UserError
from top_erl.experiment.config import RunConfig
from top_erl.tasks.registry import is_loaded_task


def check_trusted(config: RunConfig, named: str | None) -> None:
    """Refuse a configuration from a file whose task is code that the user has neither named nor imported."""
    if ":" not in config.task or config.task == named or is_loaded_task(config.task):
        return
    raise UserError(
        f"This run's task is Python code, {config.task}, which would be imported. If you trust it, name it: "
        f"--task {config.task} (in Python: task={config.task!r})."
    )
