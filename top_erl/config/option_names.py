"""What the options of a nested dataclass are called on the command line, and where they stand in it."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator
from typing import Any


def option_name(word: str) -> str:
    """An option as it is spelled on the command line, without the leading dashes."""
    return word.removeprefix("--").replace("_", "-")


def options_of(kind: Any, name: str = "", path: str = "") -> Iterator[tuple[str, str, Any]]:
    """Names of all options of a nested dataclass, where they stand in it, and their types.

    `name` and `path` are put before them.
    """
    hints = typing.get_type_hints(kind, include_extras=True)
    for field in dataclasses.fields(kind):
        hint, hidden = hints[field.name], False
        if typing.get_origin(hint) is typing.Annotated:
            hidden = any(getattr(extra, "name", None) == "" for extra in hint.__metadata__)
            hint = typing.get_args(hint)[0]
        here = name if hidden else f"{name}{option_name(field.name)}"
        if dataclasses.is_dataclass(hint):
            yield from options_of(hint, here if hidden else f"{here}.", f"{path}{field.name}.")
        else:
            yield here, f"{path}{field.name}", hint
