"""Frozen dataclasses to plain dictionaries and back, with checks that say what is wrong."""

from __future__ import annotations

import dataclasses
import os
import types
import typing
from pathlib import Path
from typing import Any, TypeVar

import yaml

from top_erl.errors import UserError, unknown_name

T = TypeVar("T")


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


def write_whole(path: Path, text: str) -> None:
    """Write a text file; one that exists is replaced as a whole or, on a full disk, not at all."""
    temporary = path.with_name(f".{path.name}.writing")
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def read_yaml(path: Path) -> Any:
    """Read plain data from YAML."""
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"There is no file {path}.") from None
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error}.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not valid YAML: {str(error).splitlines()[0]}.") from None


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
