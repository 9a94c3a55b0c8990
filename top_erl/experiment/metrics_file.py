"""`metrics.csv`: writing it row by row, reading it back. Needs no torch, so figures are quick to make."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from top_erl.config.files import open_to_append, reading, refuse_link, write_whole
from top_erl.errors import RunStopped, UserError

Row = dict[str, float]


class Sink(ABC):
    """Somewhere rows go."""

    @abstractmethod
    def write(self, row: Row) -> None:
        """Take one row."""

    def close(self) -> None:
        """Flush and release."""
        return


class CsvSink(Sink):
    """`metrics.csv`: one line per iteration, flushed at once; empty where a number was not measured."""

    def __init__(self, path: Path, columns: list[str], keep_until: int) -> None:
        """Open the file; rows after iteration `keep_until` belong to work that was lost and are dropped."""
        self.path, self.columns = path, columns
        refuse_link(path)
        kept = [row for row in read_metrics(path) if row["iteration"] <= keep_until] if path.exists() else []
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        writer.writerow(columns)
        writer.writerows([_cell(row.get(column)) for column in columns] for row in kept)
        try:
            write_whole(path, text.getvalue())
            self._file = io.TextIOWrapper(open_to_append(path), encoding="utf-8", newline="")
        except OSError as error:
            raise self._cannot_write(error) from error

    def write(self, row: Row) -> None:
        """Append a line."""
        try:
            csv.writer(self._file).writerow([_cell(row.get(column)) for column in self.columns])
            self._file.flush()
        except OSError as error:
            raise self._cannot_write(error) from error

    def close(self) -> None:
        """Close the file; what could not be written has been complained about already."""
        with contextlib.suppress(OSError):
            self._file.close()

    def _cannot_write(self, error: OSError) -> RunStopped:
        return RunStopped(f"Could not write {self.path}: {error}. Free some space, then resume the run.")


def read_metrics(path: Path) -> list[Row]:
    """Read a `metrics.csv`; numbers that were not measured are missing from a row. A torn last line is ignored."""
    with reading(path):
        text = path.read_text(encoding="utf-8", errors="replace")
    header, *lines = list(csv.reader(text[: text.rfind("\n") + 1].splitlines())) or [[]]
    rows: list[Row] = []
    for line in lines:
        try:
            row = {name: float(cell) for name, cell in zip(header, line, strict=True) if cell}
        except ValueError:
            row = {}
        if not {"iteration", "env_steps"} <= row.keys():
            raise UserError(f"{path} is damaged in line {len(rows) + 2}: mend that line or delete the file.")
        rows.append(row)
    return rows


def rows_digest(rows: Sequence[Row]) -> str:
    """A hash of what rows say, whatever columns their file has beside."""
    return hashlib.sha256("\n".join(str(sorted(row.items())) for row in rows).encode()).hexdigest()


def _cell(value: float | None) -> str:
    if value is None:
        return ""
    return str(int(value)) if math.isfinite(value) and value == int(value) and abs(value) < 1e15 else repr(value)
