"""A configuration with some settings changed, named as on the command line."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from top_erl.config.serialize import typed
from top_erl.errors import unknown_name

T = TypeVar("T")


def changed(config: T, changes: Mapping[str, Any], where: str = "") -> T:
    """Change settings of a nested configuration, e.g. `changed(config, {"learn.batch_size": 512})`.

    All changes are made before the configuration checks itself. Names that do not exist and values of a wrong type are
    refused; `where` is put before names in these errors.
    """
    hints, own = (
        typing.get_type_hints(type(config)),
        {field.name for field in dataclasses.fields(typing.cast(Any, config))},
    )
    values: dict[str, Any] = {}
    inner: dict[str, dict[str, Any]] = {}
    for name, value in changes.items():
        first, _, rest = name.partition(".")
        if first not in own or (rest and not dataclasses.is_dataclass(getattr(config, first))):
            raise unknown_name("setting", where + name, _names(config, where))
        if rest:
            inner.setdefault(first, {})[rest] = value
        else:
            values[first] = value if dataclasses.is_dataclass(value) else typed(hints[first], value, where + name)
    for first, deeper in inner.items():
        values[first] = changed(values.get(first, getattr(config, first)), deeper, f"{where}{first}.")
    return typing.cast(T, dataclasses.replace(typing.cast(Any, config), **values))


def _names(config: Any, prefix: str) -> Iterator[str]:
    """Names of all settings."""
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            yield from _names(value, f"{prefix}{field.name}.")
        else:
            yield f"{prefix}{field.name}"
