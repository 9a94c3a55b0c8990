"""The table of `docs/reliability.md`, from the file that `make faults` writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from results.make.markdown import MISSING, table

FILE = Path("claims/faults/faults.json")


def faults(results: Path) -> str:
    """A row per scenario, and their sum; a dash until there is a measurement."""
    header = ("family", "what happens, and what is promised", "tried", "survived", "lost", "note")
    if not (results / FILE).exists():
        return table(header, [(MISSING,) * len(header)])
    rows = json.loads((results / FILE).read_text(encoding="utf-8"))["scenarios"]
    lines = [
        (
            row["name"].replace("_", " ").replace(".", ": "),
            row["sentence"],
            *_counts(row),
            row["note"].replace("|", "/"),
        )
        for row in rows
    ]
    sums = {name: sum(row[name] for row in rows) for name in ("tried", "survived", "lost")}
    return table(header, [*lines, ("**sum**", "", *_counts(sums), "")])


def _counts(row: dict[str, Any]) -> tuple[str, str, str]:
    return str(row["tried"]), str(row["survived"]), str(row["lost"])


FAULTS: dict[str, Callable[[Path], str]] = {"faults": faults}
"""Tables by name."""
