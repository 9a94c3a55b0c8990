"""Tables between markers in Markdown files.

A file says where a table goes; what stands between the two markers is replaced:

    <!-- results: NAME -->
    | ... |
    <!-- end -->
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from top_erl.errors import UserError

Tables = Mapping[str, Callable[[], str]]

MISSING = "\N{EN DASH}"
"""Stands where there is no raw number."""

TIMES = "\N{MULTIPLICATION SIGN}"

_BEGIN = re.compile(r"<!-- results: (\S+) -->\n")
_END = "<!-- end -->"


def pages(root: Path) -> list[Path]:
    """The Markdown files that may hold tables, relative to the repository."""
    found = [
        root / "README.md",
        *root.glob("docs/*.md"),
        *root.glob("results/*.md"),
        *root.glob("results/archive/*.md"),
    ]
    return sorted(path.relative_to(root) for path in found)


def names_in(text: str) -> list[str]:
    """Names of the tables that a page asks for."""
    return _BEGIN.findall(text)


def fill(text: str, tables: Tables, page: str) -> str:
    """Write each table a page asks for between its markers."""
    filled, position = [], 0
    while begin := _BEGIN.search(text, position):
        name = begin[1]
        if name not in tables:
            raise UserError(f"{page} asks for the table {name}, which there is not; there are {', '.join(tables)}.")
        end = text.find(_END, begin.end())
        following = _BEGIN.search(text, begin.end())
        if end < 0 or (following and following.start() < end):
            raise UserError(f"{page}: the table {name} has no end; put the line {_END} behind it.")
        filled += [text[position : begin.end()], tables[name](), "\n"]
        position = end
    return "".join([*filled, text[position:]])


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return (
        "\n".join("| " + " | ".join(line) + " |" for line in lines).replace("| --- ", "|---").replace("--- |", "---|")
    )


def number(value: float | None, decimals: int = 2) -> str:
    """A number with fixed decimals, or a dash where none was measured."""
    return MISSING if value is None else f"{value:.{decimals}f}"


def digits(value: float | None, count: int = 3) -> str:
    """A number with `count` significant digits (all of them before the point)."""
    if value is None:
        return MISSING
    decimals = count - 1 - math.floor(math.log10(abs(value))) if value else 0
    return f"{value:.{max(0, decimals)}f}"


def several(values: Iterable[float | None], decimals: int = 2) -> str:
    """Numbers of several seeds, one after the other."""
    return ", ".join(number(value, decimals) for value in values) or MISSING


def span(values: Iterable[float | None], decimals: int = 2) -> str:
    """From the smallest to the largest."""
    known = [value for value in values if value is not None]
    if not known:
        return MISSING
    least, most = number(min(known), decimals), number(max(known), decimals)
    return least if least == most else f"{least} to {most}"
