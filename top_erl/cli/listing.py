"""How `top-erl tasks` shows the tasks: in families, the part of a name before its slash."""

from __future__ import annotations

import importlib.util
from itertools import groupby

from rich.columns import Columns
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from top_erl.errors import UserError, install_command
from top_erl.tasks import TaskSpec, make_task, task_ids

_MANY = 12
"""A namespace of more tasks than this, with the same facts, is listed by name only."""
_PACKAGES = {"metaworld": ("metaworld", "metaworld")}
"""Families that need an optional package: its name, and the extra that brings it."""


def print_tasks(console: Console) -> None:
    """List all tasks, namespace by namespace."""
    for name, members in groupby(sorted(task_ids(), key=_order), key=_namespace):
        tasks = {id: _spec(id) for id in members}
        if _is_uniform(tasks):
            _print_heading(console, name, tasks)
            names = [Text(id.rpartition("/")[2], style="cyan") for id in tasks]
            columns = Columns(names, padding=(0, 2), equal=True, column_first=True)
            console.print(Padding(columns, (0, 0, 0, 2), expand=False))
            console.print(f"  What each is: top-erl tasks {name}", highlight=False)
        else:
            _print_each(console, tasks)
        _print_need(console, name)
        console.print()
    console.print("One in full: top-erl tasks TASK, with pictures: --preview task.png", highlight=False)


def print_namespace(console: Console, name: str) -> bool:
    """List the tasks of one namespace with what each is; False if there is no such one."""
    tasks = {id: _spec(id) for id in task_ids() if _namespace(id) == name.rstrip("/")}
    if _is_uniform(tasks):
        _print_heading(console, name, tasks)
        table = Table(box=None, show_header=False, pad_edge=False)
        for id, spec in tasks.items():
            table.add_row(Text(id, style="cyan"), Text(spec if isinstance(spec, str) else spec.description))
        console.print(table)
    else:
        _print_each(console, tasks)
    _print_need(console, name)
    return bool(tasks)


def _namespace(id: str) -> str:
    """The part of a task's name before the last slash; empty if there is none."""
    return id.rpartition("/")[0]


def _order(id: str) -> tuple[bool, str, str]:
    """Sort by namespace, ours first, then by name."""
    return _namespace(id) != "top_erl", _namespace(id), id


def _spec(id: str) -> TaskSpec | str:
    """The facts about a task, or the sentence that says why it cannot be made."""
    try:
        return make_task(id).spec
    except UserError as error:
        return str(error)


def _facts(spec: TaskSpec | str) -> str:
    """A task's size in a few words."""
    return "cannot be made" if isinstance(spec, str) else f"{spec.horizon} steps of {spec.dt:g} s, {spec.num_dof} DoF"


def _is_uniform(tasks: dict[str, TaskSpec | str]) -> bool:
    """Whether a namespace is large, and its tasks are alike."""
    return len(tasks) > _MANY and len({_facts(spec) for spec in tasks.values()}) == 1


def _print_heading(console: Console, name: str, tasks: dict[str, TaskSpec | str]) -> None:
    """Say what the tasks of a large namespace have in common."""
    facts = _facts(next(iter(tasks.values())))
    console.print(Text.assemble((name, "bold"), f": {len(tasks)} tasks, {facts}"))


def _print_each(console: Console, tasks: dict[str, TaskSpec | str]) -> None:
    """Two lines a task, which stay readable in a narrow window."""
    for id, spec in tasks.items():
        console.print(Text.assemble((id, "cyan"), "  ", (_facts(spec), "dim")))
        about = spec if isinstance(spec, str) else spec.description
        console.print(Padding(Text(about), (0, 0, 0, 4), expand=False))


def _print_need(console: Console, name: str) -> None:
    """Say what a namespace needs that is not installed."""
    package, extra = _PACKAGES.get(name.rstrip("/"), ("", ""))
    if package and importlib.util.find_spec(package) is None:
        console.print(Text(f"  To play them: {install_command(extra)}", style="yellow"))
