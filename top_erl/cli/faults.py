"""What is said when something goes wrong that is no mistake of the user's."""

from __future__ import annotations

import errno
import shlex
from pathlib import Path

FAULT = 70
"""Exit code of a fault of the program; what Unix programs answer to that."""
RUNS: list[Path] = []
"""Run folders that this command writes to."""
_SURROUNDINGS = (
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE, errno.EMFILE),
    *(errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENOMEM, errno.EAGAIN),
)
"""What a disk, a folder or the machine can be blamed for."""


def sentence_of_surroundings(error: Exception) -> str | None:
    """What is wrong with the disk or the memory; None if they are not to blame."""
    if isinstance(error, OSError) and error.errno in _SURROUNDINGS:
        where = "" if error.filename is None else f"{error.filename}: "
        return f"{where}{error.strerror}. Mend that, or use another place; what was saved before is intact."
    if isinstance(error, MemoryError) or _is_out_of_memory(error):
        return "There is not enough memory for this: use smaller batches, networks or numbers of episodes."
    return None


def _is_out_of_memory(error: Exception) -> bool:
    """Whether PyTorch was refused memory, by the processor's or by a GPU's allocator."""
    return isinstance(error, RuntimeError) and any(
        words in str(error) for words in ("can't allocate memory", "out of memory")
    )


def fault_sentence(error: Exception) -> str:
    """Say that the program is to blame, and that what was saved is still there."""
    kind = f"{type(error).__name__}: {error}".rstrip(". \n")
    runs = "".join(f" Its run is {path}: go on with `top-erl resume {shlex.quote(str(path))}`." for path in RUNS)
    return (
        f"This is a fault of the program, or of code of yours that it runs, not of what you typed ({kind}). "
        f"Nothing that was saved is lost.{runs} Please report it with the lines above."
    )
