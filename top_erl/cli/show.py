"""The subcommands of `top-erl` that only look: quick to start, since they need no networks."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from top_erl.cli.listing import print_namespace, print_tasks
from top_erl.cli.outputs import check_output_file
from top_erl.cli.parsing import parse
from top_erl.errors import UserError
from top_erl.experiment.expected import expected_results
from top_erl.report.curves import plot_runs
from top_erl.tasks import make_task
from top_erl.tasks.opengl import choose_for_environments


@dataclass(frozen=True)
class PlotOptions:
    """Options of `top-erl plot`."""

    run_dirs: Annotated[tuple[Path, ...], tyro.conf.Positional] = field(default=())
    """Folders of the runs; several seeds of one setting are drawn as one curve with its spread, each task in a row."""
    output: Path = Path("learning_curves.png")
    """Picture to write (png, pdf or svg)."""


@dataclass(frozen=True)
class TasksOptions:
    """Options of `top-erl tasks`."""

    task: Annotated[str | None, tyro.conf.Positional] = None
    """A task to show in full, or the first part of some names (metaworld) to list those."""
    preview: Path | None = None
    """Draw pictures of a random movement into this file (png or jpg)."""


def plot(words: list[str]) -> int:
    """Draw learning curves."""
    options = parse(
        PlotOptions, words, prog="top-erl plot", description="Draw the learning curves of one or more runs."
    )
    if not options.run_dirs:
        raise UserError("Name at least one run folder: top-erl plot runs/NAME.")
    check_output_file(options.output)
    for folder, reason in plot_runs(options.run_dirs, options.output).items():
        print(f"left out: {folder} {reason}")
    print(f"wrote {options.output}")
    return 0


def tasks(words: list[str]) -> int:
    """List tasks, or show one."""
    options = parse(TasksOptions, words, prog="top-erl tasks", description="List the tasks, or show one in full.")
    console = Console()
    if options.preview is not None:
        return _preview(options.task, options.preview)
    if options.task is None:
        print_tasks(console)
        return 0
    if print_namespace(console, options.task):
        return 0
    spec = make_task(options.task).spec
    table = Table(show_header=False, box=None)
    for name in ("id", "description", "success_rule", "version", "horizon", "dt", "duration", "num_dof"):
        table.add_row(name.replace("_", " "), str(getattr(spec, name)))
        if name == "success_rule" and "success_any" in spec.metrics:
            table.add_row("success any", "The same rule after any step of the episode, be it the last or one before.")
    table.add_row("observation", f"{spec.observation_dim} entries")
    table.add_row("context mask", "all" if spec.context_mask is None else str(spec.context_mask))
    table.add_row("metrics", ", ".join(spec.metrics))
    table.add_row("stride", str(spec.stride))
    table.add_row("primitive", str(spec.primitive))
    known = expected_results().get(spec.id)
    table.add_row("laptop preset", "not trained to its end so far" if known is None else str(known))
    console.print(table)
    return 0


def _preview(name: str | None, path: Path) -> int:
    """Draw a task."""
    from top_erl.cli.pictures import STILLS, check_picture_file
    from top_erl.cli.video import check_renders, preview  # networks' library, slow to import

    if name is None:
        raise UserError("Name the task to draw: top-erl tasks TASK --preview task.png.")
    check_picture_file(path, STILLS)
    target = path.absolute()  # an environment may change the directory
    choose_for_environments()
    task = make_task(name)
    try:
        check_renders(task)
        preview(task, target)
    finally:
        task.close()
    print(f"wrote {path}")
    return 0


def methods(words: list[str]) -> int:
    """List learning methods."""
    if words and words[0] not in ("-h", "--help"):
        raise UserError("top-erl methods takes no options.")
    from top_erl.algorithms.registry import METHODS  # brings the networks' library, slow to import

    table = Table("method", "acts", "what it is", box=None, header_style="bold")
    for method in METHODS:
        table.add_row(method.name, "per step" if method.acts_by_steps else "per episode", method.description)
    Console().print(table)
    return 0
