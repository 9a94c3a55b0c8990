"""Frozen dataclasses to plain dictionaries and back, with checks that say what is wrong."""

from __future__ import annotations

import dataclasses
import errno
import math
import stat
import types
import typing
from pathlib import Path
from typing import Any, TypeVar

import yaml

from top_erl.config.files import write_whole
from top_erl.errors import UserError, unknown_name

T = TypeVar("T")
_LARGEST_FILE = 10_000_000
"""Bytes of a YAML file; more is a mistake, or an attempt on the memory."""
_MOST_ENTRIES = 1_000_000


def to_dict(config: Any) -> dict[str, Any]:
    """Turn a nested dataclass into dictionaries, lists and plain values."""
    return {field.name: _plain(getattr(config, field.name)) for field in dataclasses.fields(config)}


def from_dict(kind: type[T], data: Any, where: str = "") -> T:
    """Build a dataclass from `to_dict`'s result; unknown keys and wrong types are named."""
    if not isinstance(data, dict):
        raise UserError(f"The configuration's {where or 'top level'!s} should be a mapping, not {data!r}.")
    hints = typing.get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(typing.cast(Any, kind))]
    for key in data:
        if key not in names:
            raise unknown_name("configuration entry", f"{where}{key}", [f"{where}{name}" for name in names])
    values = {key: typed(hints[key], value, f"{where}{key}") for key, value in data.items()}
    return kind(**values)


def write_yaml(path: Path, data: dict[str, Any]) -> None:
    """Write plain data as YAML."""
    write_whole(path, yaml.safe_dump(data, sort_keys=False, allow_unicode=True))


def read_yaml(path: Path) -> Any:
    """Read plain data from a small YAML file."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe would be waited for, a device never ends
            raise OSError(errno.EINVAL, "it is not a file, but a folder or a device")
        text = path.read_text(encoding="utf-8") if path.stat().st_size <= _LARGEST_FILE else None
    except FileNotFoundError:
        raise UserError(f"There is no file {path}.") from None
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not valid YAML: {error}.") from None
    if text is None:
        raise UserError(f"{path} is too large to be a configuration.")
    try:
        data = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: dates that are none, endless numbers
        raise UserError(f"{path} is not valid YAML: {str(error).splitlines()[0]}.") from None
    if entries(data) > _MOST_ENTRIES:
        raise UserError(
            f"{path} holds more than {_MOST_ENTRIES} entries, with its aliases written out: that is too much."
        )
    return data


def entries(data: Any) -> float:
    """Entries of plain data with all aliases written out, without writing them out; infinite if it holds itself."""
    counted: dict[int, float] = {}

    def count(value: Any) -> float:
        if not isinstance(value, (dict, list, tuple, set)):
            return 1
        if id(value) not in counted:
            counted[id(value)] = math.inf  # until it is known; met again inside itself it has no end
            inner = value.values() if isinstance(value, dict) else value
            counted[id(value)] = 1 + sum(map(count, inner))
        return counted[id(value)]

    return count(data)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return to_dict(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def typed(hint: Any, value: Any, where: str) -> Any:
    """Check a plain value against a type hint and convert it where YAML has no such type."""
    if typing.get_origin(hint) is typing.Annotated:
        hint = typing.get_args(hint)[0]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint):
        return from_dict(typing.cast(type, hint), value, f"{where}.")
    if origin is typing.Literal:
        if value in arguments:
            return value
        raise unknown_name(where, str(value), [str(argument) for argument in arguments])
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        return typed(next(argument for argument in arguments if argument is not type(None)), value, where)
    if origin is tuple and isinstance(value, (list, tuple)):
        return tuple(typed(arguments[0], item, where) for item in value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(hint, type) and isinstance(value, hint) and not (hint is int and isinstance(value, bool)):
        return value
    raise UserError(f"{where} should be {getattr(hint, '__name__', hint)}, not {value!r}.")
