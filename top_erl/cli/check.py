"""`top-erl check TASK`: plays a task and says in sentences what is wrong or unwise."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

from top_erl.check import Report, check_task
from top_erl.check.picture import check_can_draw
from top_erl.cli.outputs import check_output_file
from top_erl.cli.parsing import parse
from top_erl.cli.pictures import STILLS, check_picture_file
from top_erl.config.files import write_whole
from top_erl.errors import UserError

_STYLES = {"error": "bold red", "warning": "yellow", "hint": "cyan"}


@dataclass(frozen=True)
class CheckOptions:
    """Options of `top-erl check`."""

    task: Annotated[str | None, tyro.conf.Positional] = None
    """The task: `module:Class`, or the id of a built-in one."""
    episodes: int = 16
    """Seeds to play, at least 2; each is played standing still and with a random movement."""
    picture: Path | None = None
    """Draw references against what the robot did into this file (png)."""
    json: Path | None = None
    """Write the findings into this file as well."""


def check(words: list[str]) -> int:
    """Check a task; 1 if it breaks a rule of the contract, else 0."""
    options = parse(
        CheckOptions, words, prog="top-erl check", description="Play a task and say what is wrong or unwise."
    )
    if options.task is None:
        raise UserError("Name the task to check: top-erl check my_module:MyTask.")
    if options.picture is not None:
        check_can_draw()
        check_picture_file(options.picture, STILLS)
    if options.json is not None:
        check_output_file(options.json)
    report = check_task(options.task, options.episodes, options.picture)
    _print(Console(), report)
    if options.json is not None:
        try:
            write_whole(options.json, json.dumps(report.to_dict(), indent=2) + "\n")
        except OSError as error:
            raise UserError(f"Cannot write {options.json}: {error.strerror}.") from None
    return 1 if report.has_errors else 0


def _print(console: Console, report: Report) -> None:
    """One line a finding, never wrapped; a table of what was measured if the task can be played."""
    for finding in report.findings:
        line = Text.assemble((finding.level, _STYLES[finding.level]), f" {finding.about}: {finding.sentence}")
        console.print(line, soft_wrap=True)
    if not report.has_errors:
        table = Table(box=None, show_header=False, pad_edge=False)
        for name, value in report.numbers.items():
            table.add_row(name, Text(value))
        console.print(table)
    if not any(finding.level != "hint" for finding in report.findings):
        console.print(f"{report.task}: nothing is wrong that a check can see.", soft_wrap=True, highlight=False)
