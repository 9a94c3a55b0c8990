"""Files that a command is asked to write, looked at before the work is done."""

from __future__ import annotations

from pathlib import Path

from top_erl.errors import UserError


def check_output_file(path: Path) -> None:
    """Refuse a file that cannot be written: its folder is missing or closed, or something else has its name."""
    try:
        if path.is_dir():
            raise UserError(f"Cannot write {path}: it is a folder.")
        if path.exists() and not path.is_file():  # a device or a pipe, which would be replaced by the file
            raise UserError(f"Cannot write {path}: it is not a file.")
        trial = path.with_name(f".{path.stem[:100]}.trial")
        trial.touch()
        trial.unlink()
    except FileNotFoundError:
        raise UserError(f"Cannot write {path}: there is no folder {path.parent}.") from None
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror}.") from None
