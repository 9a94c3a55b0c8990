"""The folder that `top-erl inspect` writes: pictures, a page and `inspection.json`. Read back without torch.

A folder may be a stranger's: names of files are ours alone, nothing is read or written through links.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from top_erl.config.files import make_own_folder, refuse_link, write_whole
from top_erl.errors import UserError

FOLDER, PAGE, FILE = "inspection", "index.html", "inspection.json"
MARK = '<meta name="generator" content="top-erl inspect">'
"""What says that a page is one of ours and may be replaced."""
TITLES = {
    "spread": "Movements with their spread",
    "correlation": "How the positions of a movement vary together",
    "segments": "Segments re-generated from their own states",
    "values": "What the critic expects along an episode",
    "ranking": "Whether the critic ranks the movements of one context",
}
"""The kinds of pictures, in their order; each is a PNG and a PDF file of this name."""
_LARGEST = 1_000_000
"""Bytes of an `inspection.json` that is read; ours have a few thousand."""
_LONGEST = 2000
"""Characters of a sentence that is shown."""


@dataclass(frozen=True)
class Finding:
    """A picture and what it says."""

    kind: str
    sentence: str
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """What the picture is called."""
        return TITLES[self.kind]


def files_of(folder: Path, kind: str) -> list[Path]:
    """Where a picture is."""
    return [folder / f"{kind}.png", folder / f"{kind}.pdf"]


def check_folder(folder: Path) -> None:
    """Refuse a folder that holds what `top-erl inspect` did not write."""
    refuse_link(folder)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file: name a folder for the pictures with -o.")
    try:
        empty = not folder.exists() or not any(folder.iterdir())
    except OSError as error:
        raise UserError(f"Cannot read {folder}: {error.strerror}; name another folder with -o.") from None
    if not empty and not is_inspection(folder):
        raise UserError(f"{folder} holds files that top-erl inspect did not write: name another folder with -o.")


def is_inspection(folder: Path) -> bool:
    """Whether a folder holds a page that `top-erl inspect` has written."""
    page = folder / PAGE
    try:
        if page.is_symlink() or not page.is_file():
            return False
        with page.open(encoding="utf-8", errors="replace") as file:
            return MARK in file.read(2000)
    except OSError:
        return False


def claim_folder(folder: Path) -> None:
    """Make the folder, say that it is ours before there is more in it, and take away what an earlier call has left."""
    check_folder(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        make_own_folder(folder)
        write_whole(folder / PAGE, f"<!DOCTYPE html>\n{MARK}\n<p>These pictures are being made.</p>\n")
        for name in (FILE, *(file.name for kind in TITLES for file in files_of(folder, kind))):
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"Cannot write to {folder}: {error.strerror}; name another folder with -o.") from None


def write_findings(folder: Path, facts: Mapping[str, Any], findings: Sequence[Finding]) -> None:
    """Write `inspection.json`: what was looked at, and what was found."""
    found = [{"kind": each.kind, "sentence": each.sentence, "numbers": dict(each.numbers)} for each in findings]
    write_whole(folder / FILE, json.dumps({**facts, "findings": found}, indent=2, allow_nan=False) + "\n")


def read_findings(folder: Path) -> list[Finding]:
    """What was found when a run was inspected, and whose picture is there; nothing if it was not, or is damaged."""
    file = folder / FILE
    try:
        if folder.is_symlink() or file.is_symlink() or not is_inspection(folder) or file.stat().st_size > _LARGEST:
            return []
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return []
    found = data.get("findings") if isinstance(data, dict) else None
    sentences = {
        each["kind"]: each["sentence"][:_LONGEST]
        for each in (found if isinstance(found, list) else [])
        if isinstance(each, dict) and isinstance(each.get("kind"), str) and isinstance(each.get("sentence"), str)
    }
    return [Finding(kind, sentences[kind]) for kind in TITLES if kind in sentences and _is_picture(folder, kind)]


def _is_picture(folder: Path, kind: str) -> bool:
    picture = files_of(folder, kind)[0]
    return picture.is_file() and not picture.is_symlink()
