"""Files that are written whole or not at all, and never through a link: a stranger's folder must not lead us elsewhere.

A run folder may come from anybody. A link in it, named like a file of ours, would let it write to any file of the user.
So links are refused where we write, and temporary files are made anew, never opened.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from top_erl.errors import UserError

_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file; one that exists is replaced as a whole or, on a full disk, not at all."""
    refuse_link(path)
    if path.exists() and not (path.is_file() or path.is_dir()):  # a device would be replaced; a folder cannot be
        raise UserError(f"{path} is not a file, and is not replaced by one: give another name.")
    temporary = temporary_path(path)
    try:
        with open_new(temporary) as file:
            file.write(content.encode("utf-8") if isinstance(content, str) else content)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def temporary_path(path: Path) -> Path:
    """Where something is written before it gets its name: always the same place, so that the next try clears it."""
    return path.with_name(f".{path.name}.writing")


def open_new(path: Path) -> BinaryIO:
    """Make a file; what had its name, a part left by a killed process or a link, goes first."""
    path.unlink(missing_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o666), "wb")


def open_to_append(path: Path) -> BinaryIO:
    """Open a file for writing at its end; it is made if there is none."""
    refuse_link(path)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | _FLAGS, 0o666), "ab")


def make_own_folder(path: Path) -> None:
    """Make a folder to write into, inside one that is there; one that exists will do, a link to one will not."""
    refuse_link(path)
    path.mkdir(exist_ok=True)


def refuse_link(path: Path) -> None:
    """Refuse to write to what is a link."""
    if path.is_symlink():
        raise UserError(f"{path} is a link, and nothing is written through links: put the thing itself in its place.")


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Say in one sentence that a file or folder cannot be read; who expects it to be missing asks first."""
    try:
        yield
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error}; mend its permissions, or use a copy of your own.") from None
