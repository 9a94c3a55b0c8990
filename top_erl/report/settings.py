"""How configurations and fingerprints differ: nested mappings laid flat, and the entries that are not the same."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeVar

MISSING = "\N{EN DASH}"
"""What is shown where an entry does not exist."""
Key = TypeVar("Key", bound=Hashable)


def flat(mapping: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """`{"learn": {"target": "v"}}` as `{"learn.target": "v"}`; the part `algorithm` has no name, as in options."""
    found: dict[str, Any] = {}
    for name, value in mapping.items():
        if isinstance(value, Mapping):
            found |= flat(value, prefix if name == "algorithm" and not prefix else f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = value
    return found


def shown(value: Any) -> str:
    """A value as it stands in a table."""
    if isinstance(value, bool) or value is None:
        return str(value).lower() if value is not None else "none"
    if isinstance(value, (list, tuple)):
        return " ".join(map(shown, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def differing(mappings: Mapping[Key, Mapping[str, Any]]) -> dict[str, dict[Key, str]]:
    """Entries that are not the same in all mappings, each with its value per mapping.

    Args:
        mappings: Nested mappings, by what they are called.
    """
    tables = {
        name: {entry: shown(value) for entry, value in flat(mapping).items()} for name, mapping in mappings.items()
    }
    entries: Sequence[str] = list(dict.fromkeys(entry for table in tables.values() for entry in table))
    values = {entry: {name: table.get(entry, MISSING) for name, table in tables.items()} for entry in entries}
    return {entry: row for entry, row in values.items() if len(set(row.values())) > 1}
