"""Help that fits the terminal: sentences are wrapped, and a command's meaning moves below it where lines get short."""

from __future__ import annotations

import re
import shutil
import textwrap
from itertools import groupby

EXAMPLE = re.compile(r"  (?P<command>\S.*?)(?:  +(?P<meaning>\S.*))?$")
"""A line of an example: two spaces, the command and, after at least two more, what it does."""
NARROWEST = 30
"""Columns that meanings need beside their commands; with fewer they go below them."""


def fitted(text: str, width: int | None = None) -> str:
    """A help text laid out anew for a terminal, by default this one.

    Args:
        text: Paragraphs, and blocks of examples, whose lines begin with two spaces.
        width: Columns of the terminal.
    """
    width = width or shutil.get_terminal_size().columns
    lines: list[str] = []
    for is_example, block in groupby(text.splitlines(), key=lambda line: line.startswith("  ")):
        if is_example:
            lines += _examples(list(block), width)
        else:
            lines += [part for line in block for part in textwrap.wrap(line, width, break_on_hyphens=False) or [""]]
    return "\n".join(lines) + "\n" * text.endswith("\n")


def _examples(lines: list[str], width: int) -> list[str]:
    """Examples with what they do: beside them if there is room for it, else below."""
    pairs = [(found["command"], found["meaning"] or "") for line in lines if (found := EXAMPLE.match(line))]
    column = max(len(command) for command, _ in pairs) + 4
    if width - column < NARROWEST:
        return [line for command, meaning in pairs for line in (f"  {command}", *_indented(meaning, 8, width))]
    laid: list[str] = []
    for command, meaning in pairs:
        first, *rest = _indented(meaning, column, width) or [""]
        laid += [f"  {command}".ljust(column) + first[column:], *rest]
    return laid


def _indented(text: str, spaces: int, width: int) -> list[str]:
    indent = " " * spaces
    return textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )
