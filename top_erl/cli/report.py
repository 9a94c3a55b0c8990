"""`top-erl report` and `top-erl compare`: they read run folders; only figures of policies need more than that."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

from top_erl.cli.outputs import check_output_file
from top_erl.cli.parsing import parse
from top_erl.config.files import refuse_link, write_whole
from top_erl.errors import UserError
from top_erl.experiment.lock import is_locked
from top_erl.inspection.record import FOLDER, files_of, is_inspection, read_findings
from top_erl.report.compare import Comparison, compare_runs
from top_erl.report.page.build import FIGURES, Page, check_output, claim_output, is_report, write_page
from top_erl.report.page.html import size_text
from top_erl.report.page.pictures import Figure, numbers_figures
from top_erl.report.records import Collection, RunRecord, collect, refuse_mixed
from top_erl.report.settings import MISSING
from top_erl.sweep.folder import read_failure

IDLE_PAGES = 3
"""Pages in a row during which nothing is trained, after which --live ends: a queue may be between two runs."""
FEW_POLICIES = 6
"""Methods and tasks whose policies are drawn without being asked for."""


@dataclass(frozen=True)
class ReportOptions:
    """Options of `top-erl report`."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional] = field(default=())
    """A sweep's folder, folders of runs, or folders with runs inside."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """Folder to write; default: report in the (first) folder that is named."""
    title: str = ""
    """Heading of the page; default: the sweep's name, or the folder's."""
    figures: bool = True
    """Draw the figures as well, as PNG and PDF beside the page."""
    policies: Literal["few", "all", "none"] = "few"
    """Whose policies and critics to draw, of runs that have checkpoints: of a few methods and tasks, all, or none. Runs
    that `top-erl inspect` has looked into show its pictures instead."""
    task: tuple[str, ...] = ()
    """Tasks of your own, as module:Class, that may be imported to draw policies."""
    live: bool = False
    """Write the page anew while runs go on; it ends with them, or by Ctrl-C."""
    every: float = 20.0
    """Seconds from one page to the next with --live."""


@dataclass(frozen=True)
class CompareOptions:
    """Options of `top-erl compare`."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional] = field(default=())
    """Folders of two runs."""
    json: Path | None = None
    """Write what differs into this file as well."""


def report(words: list[str]) -> int:
    """Write the report page."""
    options = parse(
        ReportOptions,
        words,
        prog="top-erl report",
        description="Write one page with curves, tables and figures of a sweep or of some runs.",
    )
    if not options.runs:
        raise UserError("Name a sweep or some runs: top-erl report sweeps/NAME.")
    if not 1.0 <= options.every <= 86_400.0:
        raise UserError(f"--every is a number of seconds from 1 to 86400, not {options.every:g}.")
    output = options.output or options.runs[0] / "report"
    if options.output is None:
        refuse_link(output)  # the folder may be a stranger's
    check_output(output)
    path = _follow(options, output) if options.live else _write(options, output)
    print(f"wrote {path} ({size_text(path.stat().st_size)}): open it in a browser")
    return 0


def _write(options: ReportOptions, output: Path) -> Path:
    """One page with everything."""
    collection = _collect(options, output)
    if not collection.runs:
        raise UserError(f"There is no run to report. {_why_none(options, collection)}.")
    refuse_mixed(collection.runs)  # before anything is drawn
    claim_output(output)
    print(f"read {len(collection.runs)} runs{'; drawing their figures …' if options.figures else ''}", flush=True)
    figures = _draw(options, collection, output / FIGURES)
    return write_page(collection, output, Page(_title(options, collection), options.runs[0], figures))


def _why_none(options: ReportOptions, collection: Collection) -> str:
    if not collection.excluded:
        return f"No run of {options.runs[0]} has begun"
    first = collection.excluded[0]
    return f"{first.folder}: {first.reason}".rstrip(".")


def _follow(options: ReportOptions, output: Path) -> Path:
    """Pages without figures while runs go on, then one with everything."""
    idle = 0
    try:
        while not _is_over(collection := _collect(options, output), options.runs) and idle < IDLE_PAGES:
            path = write_page(
                collection, output, Page(_title(options, collection), options.runs[0], live=options.every)
            )
            print(f"wrote {path}: {len(collection.runs)} runs so far; Ctrl-C ends this, not the runs", flush=True)
            idle = 0 if _goes_on(collection, options.runs) else idle + 1
            time.sleep(options.every)
        if idle == IDLE_PAGES:
            print("no process trains these runs any more, though not all have finished; a last page")
    except KeyboardInterrupt:
        print("ended; a last page with what there is")
    return _write(options, output)


def _is_over(collection: Collection, paths: Sequence[Path]) -> bool:
    """Whether no run goes on any more and, of a sweep, every one has finished or failed."""
    if _goes_on(collection, paths) or not (collection.runs or collection.sweep):
        return False
    if collection.sweep is None:
        return True
    failed = {
        each.folder.name
        for each in collection.excluded
        if read_failure(each.folder.parent, each.folder.name) is not None
    }
    done = failed | {run.folder.name for run in collection.runs if run.finished}
    return all(cell.name in done for cell in collection.sweep.cells())


def _goes_on(collection: Collection, paths: Sequence[Path]) -> bool:
    """Whether a process holds a run's folder or, between two runs, a sweep's; a lock dies with its process."""
    folders = [*(run.folder for run in collection.runs), *(each.folder for each in collection.excluded)]
    sweeps = {*paths, *(folder.parent for folder in folders)}
    held = [place for path in sweeps for place in path.glob("logs/on-*")]
    return any(is_locked(folder) for folder in (*folders, *held))


def _collect(options: ReportOptions, output: Path) -> Collection:
    """Runs below the named folders; reports and inspections are none, neither this nor others."""
    found = collect(options.runs)
    own = os.path.realpath(output)
    kept = [
        each
        for each in found.excluded
        if os.path.realpath(each.folder) != own and not (is_report(each.folder) or is_inspection(each.folder))
    ]
    return replace(found, excluded=kept)


def _title(options: ReportOptions, collection: Collection) -> str:
    if options.title:
        return options.title
    return collection.sweep.name if collection.sweep is not None else options.runs[0].resolve().name


def _draw(options: ReportOptions, collection: Collection, folder: Path) -> list[Figure]:
    """Figures from numbers and, if asked for or possible, from checkpoints."""
    if not options.figures:
        return []
    from top_erl.report.figures import draw_all  # brings matplotlib

    inspected = {run.folder: inspected_figures(run) for run in collection.runs}
    others = [run for run in collection.runs if not inspected[run.folder]]
    drawn = [*numbers_figures(draw_all(collection, folder)), *_draw_policies(options, others, folder)]
    return [*drawn, *itertools.chain(*inspected.values())]


def inspected_figures(run: RunRecord) -> list[Figure]:
    """Pictures of a run that `top-erl inspect` has made in its folder, each with what it says."""
    place = run.folder / FOLDER
    return [
        Figure(f"{run.folder.name}: {found.title[0].lower()}{found.title[1:]}. {found.sentence}", files)
        for found in read_findings(place)
        if (files := [file for file in files_of(place, found.kind) if file.is_file() and not file.is_symlink()])
    ]


def _draw_policies(options: ReportOptions, runs: Sequence[RunRecord], folder: Path) -> list[Figure]:
    """Figures of trained policies; without being asked, of a few methods and tasks only, since that takes its time."""
    trained = [run for run in runs if any(run.folder.glob("checkpoints/*"))]
    if options.policies == "none" or not trained:
        return []
    from top_erl.inspection.policies import CAPTIONS, draw_policies  # brings the networks' library

    kinds = list(dict.fromkeys((run.label, run.task) for run in trained))
    few = kinds if options.policies == "all" else kinds[:FEW_POLICIES]
    if len(few) < len(kinds):
        print(f"policies of {len(few)} of {len(kinds)} methods and tasks are drawn; --policies all draws all")
    variants = {run.folder: run.variant for run in trained if (run.label, run.task) in few}
    print(f"drawing policies of {len(few)} methods and tasks; --policies none leaves them out …", flush=True)
    drawn = draw_policies(
        list(variants), folder, variants=variants, named=options.task, say=lambda sentence: print(f"note: {sentence}")
    )
    return [
        Figure(f"{CAPTIONS[name.partition('-')[0]]} {name.partition('-')[2]}", files) for name, files in drawn.items()
    ]


def compare(words: list[str]) -> int:
    """Say what differs between two runs."""
    options = parse(
        CompareOptions,
        words,
        prog="top-erl compare",
        description="What differs between two runs: settings, versions, machine and numbers.",
    )
    if len(options.runs) != 2:
        raise UserError("Name two run folders: top-erl compare runs/A runs/B.")
    if options.json is not None:
        check_output_file(options.json)
    comparison = compare_runs(*options.runs)
    _print_comparison(Console(), comparison)
    if options.json is not None:
        try:
            write_whole(options.json, json.dumps(comparison.to_dict(), indent=2) + "\n")
        except OSError as error:
            raise UserError(f"Cannot write {options.json}: {error.strerror}.") from None
    return 0


def _print_comparison(console: Console, comparison: Comparison) -> None:
    for letter, folder in zip("AB", comparison.folders, strict=True):
        console.print(Text.assemble((letter, "bold cyan"), f"  {folder}"), soft_wrap=True)
    for title, pairs in {"Configuration": comparison.settings, "Versions and machine": comparison.origins}.items():
        if pairs:
            _print_pairs(console, title, pairs)
        else:
            console.print(Text.assemble("\n", (title, "bold"), ": the same."))
    scores = {name: (_number(a), _number(b)) for name, (a, b) in comparison.scores.items()}
    _print_pairs(console, "Scores", scores, justify="right")
    console.print(Text.assemble("\n", ("Numbers", "bold"), f": {comparison.difference.sentence}"))


def _print_pairs(
    console: Console, title: str, pairs: dict[str, tuple[str, str]], justify: Literal["left", "right"] = "left"
) -> None:
    """A table of two columns; long values are folded, never cut."""
    console.print(Text.assemble("\n", (title, "bold")))
    table = Table(box=None, header_style="bold cyan", pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("")
    table.add_column("A", overflow="fold", justify=justify)
    table.add_column("B", overflow="fold", justify=justify)
    for name, (a, b) in pairs.items():
        table.add_row(Text(name), Text(a), Text(b))
    console.print(table)


def _number(value: float | None) -> str:
    if value is None:
        return MISSING
    return f"{value:,.0f}" if value == int(value) and abs(value) >= 1000 else f"{value:.4g}"
