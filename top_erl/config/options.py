"""Options as text, named as on the command line, applied to a configuration: `{"learn.target": "q"}`."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

from top_erl.config.changes import changed
from top_erl.config.option_names import option_name, options_of
from top_erl.config.run import RunConfig
from top_erl.errors import UserError, unknown_name

R = TypeVar("R", bound=RunConfig)


def with_options(config: R, options: Mapping[str, str]) -> R:
    """Apply options to a configuration, and what follows from them; unknown ones and wrong values are refused."""
    known = _known(typing.cast(Any, type(config)))
    changes: dict[str, Any] = {}
    for option, text in options.items():
        name = option_name(option)
        if name not in known:
            raise unknown_name("option", f"--{name}", [f"--{each}" for each in known])
        path, hint = known[name]
        changes[path] = _value(hint, text, name)
    return changed(start_for(config, changed(config, changes)), changes)


def start_for(start: R, chosen: R) -> R:
    """What options start from, given what they have led to: some settings follow from others unless chosen as well.

    So the preset of a run without a trust region has no entropy bound either, and an option may ask for one.
    """
    follows = chosen.hyper_parameters.follows(start.hyper_parameters)
    return changed(start, {f"algorithm.{name}": value for name, value in follows.items()})


@cache
def _known(kind: Any) -> dict[str, tuple[str, Any]]:
    return {name: (path, hint) for name, path, hint in options_of(kind)}


def _value(hint: Any, text: str, name: str) -> Any:
    """Read a text as a value of a type."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        found = [choice for choice in arguments if str(choice) == text]
        if not found:
            raise unknown_name(f"value of --{name}", text, map(str, arguments))
        return found[0]
    if origin in (typing.Union, types.UnionType):
        if text.lower() == "none":
            return None
        return _value(next(argument for argument in arguments if argument is not type(None)), text, name)
    if origin is tuple:
        return tuple(_value(arguments[0], word, name) for word in text.split())
    if hint is bool and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if hint is str:
        return text
    try:
        return {int: int, float: float}[hint](text)
    except (KeyError, ValueError):
        raise UserError(f"--{name} should be {getattr(hint, '__name__', hint)}, not {text!r}.") from None
