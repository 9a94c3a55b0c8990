"""Fenced blocks of README and docs, and the marks before them.

A mark is a comment that readers do not see, on the line before a block:

- `not run: REASON`: the block is not run, and why
- `file: NAME`: the block is the content of a file that the page's commands use
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted(path for path in (ROOT / "docs").rglob("*.md") if path.is_relative_to(ROOT))]
PAGES = [path for path in PAGES if not {"_site", "hyperparameters"} & set(path.parts)]
"""What is read; pages that `make docs` writes have no blocks."""
SHELL = ("", "bash")
"""Languages of blocks that are commands."""
SHOWN = ("text", "yaml", "bibtex", "{eval-rst}", "{toctree}")
"""Languages of blocks that are no commands: nothing is to be run."""

_MARK = r"(?:^<!-- (?P<kind>not run|file): (?P<word>[^\n]+?) -->\n)?"
_BLOCK = re.compile(_MARK + r"^```(?P<language>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    page: Path
    line: int
    """Line of its first fence in the page."""
    language: str
    text: str
    not_run: str
    """Why it is not run; empty if it is."""
    file: str
    """The file that it is the content of; empty if none."""

    @property
    def where(self) -> str:
        """Page and line, to be found from a failing test."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    def commands(self) -> list[list[str]]:
        """Words of each command, without comments."""
        lines = (shlex.split(line, comments=True) for line in self.text.replace("\\\n", " ").splitlines())
        return [words for words in lines if words]


def blocks_of(page: Path, text: str | None = None) -> list[Block]:
    """All blocks of a page, in order; `text` instead of what the file has."""
    text = page.read_text(encoding="utf-8") if text is None else text
    found = []
    for match in _BLOCK.finditer(text):
        words = {match["kind"]: match["word"]}
        line = text[: match.start("language")].count("\n") + 1
        found.append(
            Block(page, line, match["language"].strip(), match["text"], words.get("not run", ""), words.get("file", ""))
        )
    return found
