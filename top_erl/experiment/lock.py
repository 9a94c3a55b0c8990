"""A folder that one process at a time may write to: a lock that dies with its process, however that ends."""

from __future__ import annotations

import os
import platform
import sys
import time
from pathlib import Path

from top_erl.errors import FolderBusy, UserError

LOCK = ".lock"
"""The file in a folder that is locked."""
_FLAGS = getattr(os, "O_NOFOLLOW", 0)
_PATIENCE = 2.0
"""Seconds to try for: who only looks whether a folder is locked has it for a moment too."""


class FolderLock:
    """The right to write to a folder. The file stays when it is released: removing it would let two in."""

    def __init__(self, folder: Path) -> None:
        """Take the lock; the folder is made if there is none.

        Raises:
            FolderBusy: If another process has it.
            UserError: If this process may not write there.
        """
        try:
            self._open(folder)
            self._take(folder)
            while not self._is_there(folder):  # removed by who had it, with a folder that it did not need after all
                os.close(self._descriptor)
                self._open(folder)
                self._take(folder)
        except OSError as error:
            raise UserError(f"Cannot lock {folder}: {error}; mend its permissions, or use another folder.") from None
        try:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"process {os.getpid()} on {platform.node()}\n".encode(), 0)
        except OSError as error:  # no space
            os.close(self._descriptor)
            raise UserError(f"Cannot lock {folder}: {error}; use a folder on another disk.") from None

    def _open(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | _FLAGS, 0o644)

    def _is_there(self, folder: Path) -> bool:
        """Whether what was locked is the file that others would lock."""
        try:
            there = os.stat(folder / LOCK, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return os.path.samestat(there, os.fstat(self._descriptor))

    def _take(self, folder: Path) -> None:
        """Wait for the lock a little."""
        until = time.monotonic() + _PATIENCE
        try:
            while not _locked(self._descriptor, exclusive=True):
                if time.monotonic() > until:
                    owner = os.read(self._descriptor, 200).decode(errors="replace").strip() or "unknown"
                    raise FolderBusy(
                        f"{folder} is in use by another process ({owner}): wait until it ends, or stop it; two at once "
                        "would spoil each other's files."
                    )
                time.sleep(0.05)
        except (OSError, FolderBusy):
            os.close(self._descriptor)
            raise

    def release(self) -> None:
        """Let others write."""
        os.close(self._descriptor)


def is_locked(folder: Path) -> bool:
    """Whether some process has a folder's lock."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDONLY | _FLAGS)
    except OSError:
        return False
    try:
        return not _locked(descriptor, exclusive=False)
    except OSError:  # a disk without locks
        return False
    finally:
        os.close(descriptor)


def _locked(descriptor: int, *, exclusive: bool) -> bool:
    """Try once to take a lock."""
    if sys.platform == "win32":  # nothing locks there
        return True
    import fcntl

    try:
        fcntl.flock(descriptor, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
