"""What the command writes to: there may be no stdout, it may lack letters, and it may be full or gone."""

from __future__ import annotations

import io
import os
import sys
import unicodedata


def prepare_streams() -> None:
    """Make stdout and stderr take whatever is written to them."""
    for descriptor in (0, 1, 2):
        if not _is_open(descriptor):  # closed by `>&-`: the next file that is opened would be written to instead
            os.open(os.devnull, os.O_RDWR)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - lives as long as the process
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without UTF-8 must not end a training


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def flush_stdout() -> str:
    """Write out what is buffered; the reason if that fails, after which nothing is written any more."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _silence()
    except OSError as error:
        _silence()
        return str(error.strerror)
    return ""


def _silence() -> None:
    """Let stdout lead nowhere, or Python complains of it again when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def visible(line: str) -> str:
    """A line with what would move the cursor, or cannot be written, spelled out."""
    return "".join(ascii(each)[1:-1] if unicodedata.category(each) in ("Cc", "Cs") else each for each in line)
