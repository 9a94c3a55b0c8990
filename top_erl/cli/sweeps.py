"""`top-erl sweep` and `top-erl status`: sets of runs."""

from __future__ import annotations

import dataclasses
import itertools
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.table import Table

from top_erl.cli.extensions import IMPORTED
from top_erl.cli.parsing import parse
from top_erl.cli.sweep_options import RunOptions, split_words
from top_erl.cli.sweep_status import print_status
from top_erl.errors import UserError
from top_erl.hardware.cores import available_cores
from top_erl.sweep.definition import Cell, Sweep, expand_tasks, read_sweep
from top_erl.sweep.engines.interface import Engine
from top_erl.sweep.engines.local import LocalEngine
from top_erl.sweep.engines.slurm import write_script
from top_erl.sweep.folder import SweepFolder, make_folder
from top_erl.sweep.named import NAMED, named_sweep
from top_erl.sweep.schedule import Schedule, SweepEnd
from top_erl.sweep.source import read_definition, seeds_from_text
from top_erl.tasks.catalogue import is_loaded_task

SWEEP_HELP = """\
Train a set of runs. Started again, it skips what is finished.

  top-erl sweep box-dense --scale laptop --seeds 3                one of the paper's experiments
  top-erl sweep --methods top_erl,sac --tasks metaworld/reach-v3  one of your own
  top-erl sweep ablation-targets --total-env-steps 100000         an option for all runs
  top-erl sweep --tasks my_module:MyTask --learn.target v,q       an option as a list: a run for each
  top-erl sweep my_sweep.yaml                                     a file (also .py) says what to run
  top-erl sweep sweeps/box-dense                                  go on with a sweep's folder
  top-erl sweep metaworld50 --dry-run                             only show the runs, and how long they would take

Options of `top-erl train` for these methods and tasks can be given as well.
"""
_SHOWN = 8
"""Runs that a dry run names."""


@dataclass(frozen=True)
class SweepOptions:
    """Options of `top-erl sweep`; any option of `top-erl train` works too, also with several values: v,q."""

    what: Annotated[str, tyro.conf.Positional] = ""
    """A sweep's name, its folder, or a file that defines it."""
    methods: str = ""
    """Methods, separated by commas."""
    tasks: str = ""
    """Tasks, separated by commas; patterns such as 'metaworld/button-*' work."""
    seeds: str = ""
    """How many seeds, counted from 0; or which: 2,3,4 or 2-9."""
    scale: Literal["", "laptop", "paper"] = ""
    """Preset that all runs start from."""
    name: str = ""
    """Name of the sweep."""
    into: Path | None = None
    """Folder of the sweep; default: its name, in sweeps/."""
    engine: Literal["local", "ray", "slurm"] = "local"
    """Who runs the runs: processes of this machine, a Ray cluster, or SLURM (writes a script)."""
    address: str | None = None
    """Address of an existing Ray cluster; default: one is started here."""
    jobs: int = 0
    """Runs at a time; 0: as many as there are cores for."""
    threads: int = 1
    """Threads of each run."""
    fresh_episodes: int | None = None
    """Episodes on fresh contexts that each finished run is scored on; 0: none."""
    retry: bool = False
    """Try runs again that failed."""
    dry_run: bool = False
    """Show the runs and an estimate of the hours from a short measurement; train nothing."""


@dataclass(frozen=True)
class StatusOptions:
    """Options of `top-erl status`."""

    folder: Annotated[Path, tyro.conf.Positional]
    """Folder of the sweep."""
    all: bool = False
    """List every run."""


def sweep(words: list[str]) -> int:
    """Train a set of runs."""
    own, run_options = split_words(words, SweepOptions)
    options = parse(SweepOptions, own, prog="top-erl sweep", description=SWEEP_HELP, default=SweepOptions())
    if min(options.jobs, options.threads - 1) < 0:
        raise UserError("--jobs must not be negative, and --threads must be at least 1.")
    definition = _definition(options, run_options)
    print(f"{definition.name}: checking the settings of {len(definition.cells())} runs …", flush=True)
    _check(definition, options)
    if options.dry_run:
        return _dry_run(definition, options)
    folder = make_folder(_into(options, definition), definition)
    tell = partial(Console().out, highlight=False)
    return _slurm(folder, options, tell) if options.engine == "slurm" else _run(folder, options, tell)


def status(words: list[str]) -> int:
    """Say how far a sweep is."""
    options = parse(StatusOptions, words, prog="top-erl status", description="Say how far a sweep is.")
    print_status(Console(), SweepFolder(options.folder, read_sweep(options.folder)), every_run=options.all)
    return 0


def _definition(options: SweepOptions, run_options: RunOptions) -> Sweep:
    """The sweep that is asked for: a named one, one from a file or folder, or a new one, with changes."""
    path = Path(options.what)
    if not options.what:
        if not options.tasks:
            raise UserError(f"Name a sweep ({', '.join(NAMED)}), a sweep's folder or file, or --tasks of your own.")
        found = Sweep("own", expand_tasks(options.tasks.split(",")))
    elif (path / "sweep.yaml").exists():
        found = read_sweep(path)
    elif path.suffix in (".yaml", ".yml", ".py"):
        found = read_definition(path)
    elif path.is_dir():
        raise UserError(f"{path} is not a sweep's folder (it has no sweep.yaml).")
    else:
        found = named_sweep(options.what)
    return _changed(found, options, run_options)


def _changed(found: Sweep, options: SweepOptions, run_options: RunOptions) -> Sweep:
    changes: dict[str, object] = {name: value for name in ("name", "scale") if (value := getattr(options, name))}
    if options.methods:
        changes["methods"] = {name: found.methods.get(name, {}) for name in options.methods.split(",")}
    if options.tasks:
        changes["tasks"] = expand_tasks(options.tasks.split(","))
    if options.seeds:
        changes["seeds"] = seeds_from_text(options.seeds)
    if options.fresh_episodes is not None:
        changes["fresh_episodes"] = options.fresh_episodes
    single, several = run_options.single, run_options.several
    changes["options"] = {name: text for name, text in found.options.items() if name not in several} | dict(single)
    changes["grid"] = {name: texts for name, texts in found.grid.items() if name not in single} | dict(several)
    made = dataclasses.replace(found, **changes)  # type: ignore[arg-type]  # checked by Sweep itself
    for name in itertools.chain(*made.methods.values(), *made.variants.values()):
        if name in single or name in several:
            raise UserError(f"The sweep {made.name} gives --{name} to some runs itself: change it in a file.")
    return made


def _check(definition: Sweep, options: SweepOptions) -> None:
    """Find mistakes before anything is started: one cell of every method, task and setting is put together."""
    _refuse_unnamed_code(definition, options.tasks.split(","))
    from top_erl.sweep.cell import cell_config  # brings the networks' library, slow to import

    for cell in definition.cells():
        if cell.seed == definition.seeds[0]:
            cell_config(cell, options.threads)


def _refuse_unnamed_code(definition: Sweep, named: list[str]) -> None:
    """Refuse tasks that are code which a file or folder names, but not the user."""
    for task in definition.tasks:
        if ":" in task and task not in named and not is_loaded_task(task):
            raise UserError(
                f"This sweep's task is Python code, {task}, which would be imported. If you trust it, add "
                f"--import {task.partition(':')[0]}."
            )


def _into(options: SweepOptions, definition: Sweep) -> Path:
    if options.into is not None:
        return options.into
    if options.what and (Path(options.what) / "sweep.yaml").exists():
        return Path(options.what)
    return Path("sweeps") / definition.name


def _run(folder: SweepFolder, options: SweepOptions, tell: Callable[[str], None]) -> int:
    """Bring the sweep to its end on an engine, and say how it went."""
    with folder.held():
        engine = _engine(options)
        try:
            modules = _modules(folder.sweep)
            schedule = Schedule(
                folder, engine, threads=options.threads, modules=modules, retry=options.retry, tell=tell
            )
            end = schedule.run()
        finally:
            engine.close()
    return _say_end(folder, end, tell)


def _say_end(folder: SweepFolder, end: SweepEnd, tell: Callable[[str], None]) -> int:
    named = (f" --import {shlex.quote(name)}" for name in _modules(folder.sweep))
    again = f"top-erl sweep {shlex.quote(str(folder.path))}{''.join(named)}"
    tell(f"{end.finished} of {len(folder.cells)} runs are finished, {len(end.failed)} failed.")
    for name, sentence in list(end.failed.items())[:10]:
        tell(f"  {name}: {sentence}")
    if end.stopped:
        tell(f"Go on with: {again}")
        return 130
    if end.failed:
        tell(f"Try the failed ones again with: {again} --retry")
        return 1
    tell(f"Look at it with: top-erl report {shlex.quote(str(folder.path))}")
    return 0


def _engine(options: SweepOptions) -> Engine:
    if options.engine == "ray":
        from top_erl.sweep.engines.ray import RayEngine

        return RayEngine(options.address, options.jobs, options.threads)
    if options.address is not None:
        raise UserError("--address is of --engine ray.")
    return LocalEngine(options.jobs, options.threads)


def _modules(definition: Sweep) -> tuple[str, ...]:
    """Modules that runs import: those of `--import`, and those of tasks that are code; the user has named them."""
    tasks = (task.partition(":")[0] for task in definition.tasks if ":" in task)
    return tuple(dict.fromkeys((*IMPORTED, *tasks)))


def _slurm(folder: SweepFolder, options: SweepOptions, tell: Callable[[str], None]) -> int:
    """Write the script for the runs that are not finished."""
    states = {name: folder.look(cell).state for name, cell in folder.cells.items()}
    left = [cell for name, cell in folder.cells.items() if states[name] != "finished"]
    left = [cell for cell in left if options.retry or states[cell.name] != "failed"]
    if not left:
        tell("Nothing is left to run.")
        return 0
    script = write_script(folder, left, options.threads, _modules(folder.sweep))
    tell(f"wrote {script}: {len(left)} runs. Submit it with: sbatch {shlex.quote(str(script))}")
    return 0


def _dry_run(definition: Sweep, options: SweepOptions) -> int:
    """Show what would be run, and how long it would take."""
    console, into = Console(), _into(options, definition)
    folder = SweepFolder(into, definition)
    cells = [cell for cell in folder.cells.values() if folder.look(cell).state != "finished"]
    done = len(folder.cells) - len(cells)
    counts = {"methods": definition.methods, "tasks": definition.tasks, "seeds": definition.seeds}
    words = [f"{len(values)} {name}" for name, values in {**counts, "settings": definition.settings()}.items()]
    console.out(
        f"{definition.name}: {len(folder.cells)} runs ({', '.join(words)}), scale {definition.scale}"
        f"{f'; {done} are finished' if done else ''}",
        highlight=False,
    )
    for cell in cells[:_SHOWN]:
        console.out(f"  {into / cell.name}", highlight=False)
    if len(cells) > _SHOWN:
        console.out(f"  … and {len(cells) - _SHOWN} more", highlight=False)
    _print_hours(console, cells, options)
    return 0


def _print_hours(console: Console, cells: Sequence[Cell], options: SweepOptions) -> None:
    """Measure one run of each kind, and say how long all of them take."""
    from top_erl.sweep.estimate import estimate

    found = estimate(cells, options.threads, partial(console.out, highlight=False))
    table = Table("run", "runs", "hours each", "hours", box=None, header_style="bold")
    for each in found:
        table.add_row(each.label, str(each.runs), f"{each.hours:.2f}", f"{each.hours * each.runs:.1f}")
    console.print(table)
    total = sum(each.hours * each.runs for each in found)
    jobs = options.jobs or max(1, available_cores() // options.threads)
    console.out(
        f"{total:.1f} hours of runs; with {jobs} at a time about {total / jobs:.1f} hours. (Tasks of one family count "
        "as equally fast; evaluations on fresh contexts are not counted.)",
        highlight=False,
    )
