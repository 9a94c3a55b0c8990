"""Command-line parsing: tyro over typed dataclasses, with one-sentence errors and nearest names."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import re
import typing
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import tyro

from top_erl.cli.layout import fitted
from top_erl.config.limits import check_values
from top_erl.config.option_names import options_of
from top_erl.errors import UserError, unknown_name

T = TypeVar("T")


def parse(kind: type[T], arguments: Sequence[str], *, prog: str, description: str, default: T | None = None) -> T:
    """Parse arguments into a dataclass; mistakes become a `UserError` of one sentence."""
    _check_options(kind, arguments)
    keywords: dict[str, Any] = {} if default is None else {"default": default}
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            options = tyro.cli(kind, args=list(arguments), prog=prog, description=fitted(description), **keywords)
    except SystemExit as stop:
        if not stop.code:
            raise  # --help
        sentence = _with_choices(_without_python(_first_sentence(complaint.getvalue())), kind)
        raise UserError(f"{sentence} See {prog} --help.") from None
    check_values(options)
    return options


def _with_choices(sentence: str, kind: type[Any]) -> str:
    """A sentence about a value that is missing, with the values that the option takes if they are few."""
    found = re.match(r"Missing value for argument '--([\w.-]+)'", sentence)
    hints = {name: hint for name, _, hint in options_of(kind)} if found else {}
    hint = hints.get(found[1]) if found else None
    if typing.get_origin(hint) is not typing.Literal:
        return sentence
    return f"{sentence} It is one of {', '.join(map(str, typing.get_args(hint)))}."


def _without_python(sentence: str) -> str:
    """A sentence about a value of the wrong type, in words that need no knowledge of Python."""
    option = re.match(r"Error parsing (--[\w.-]+): ", sentence)
    value = re.search(r"(?:invalid literal for int\(\) .*|could not convert string to float): '(.*)'", sentence)
    if option is None or value is None:
        return sentence
    return f"{option[1]} takes a {'whole ' if 'int()' in sentence else ''}number, not {value[1]!r}."


def option_value(arguments: Sequence[str], name: str, default: str) -> str:
    """The (last) value of an option before the whole line is parsed, e.g. the task that decides the defaults."""
    value = default
    for position, argument in enumerate(arguments):
        if argument.startswith(f"--{name}="):
            value = argument.partition("=")[2]
        elif argument == f"--{name}" and position + 1 < len(arguments):
            value = arguments[position + 1]
    return value


def _check_options(kind: type[Any], arguments: Sequence[str]) -> None:
    """Refuse options that do not exist, with the nearest that does."""
    known = {f"--{name}" for name in _option_names(kind, "")} | {"--help", "-h"}
    for argument in arguments:
        if not argument.startswith("--"):
            continue
        option = argument.partition("=")[0].replace("_", "-")
        if option not in known:
            raise unknown_name("option", option, known)


def _option_names(kind: Any, prefix: str) -> Iterator[str]:
    """Names of all options of a nested dataclass, as tyro spells them."""
    hints = typing.get_type_hints(kind, include_extras=True)
    for field in dataclasses.fields(kind):
        hint = hints[field.name]
        name = field.name.replace("_", "-")
        extras = typing.get_args(hint)[1:] if typing.get_origin(hint) is typing.Annotated else ()
        bare = typing.get_args(hint)[0] if extras else hint
        if any(extra is tyro.conf.Positional or getattr(extra, "name", None) == "" for extra in extras):
            if dataclasses.is_dataclass(bare):
                yield from _option_names(bare, prefix)
        elif dataclasses.is_dataclass(bare):
            yield from _option_names(bare, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"
            if bare is bool:
                yield f"{prefix}no-{name}"


def _first_sentence(box: str) -> str:
    """The message inside tyro's error box, on one line."""
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).strip("│ ").strip() for line in box.splitlines()]
    rules = [number for number, line in enumerate(lines) if re.match(r"[╭╰─]|-{5,}$", line)]  # dashes: without UTF-8
    begin = rules[0] + 1 if rules else 0
    end = next((number for number in rules if number >= begin), len(lines))
    sentence = " ".join(lines[begin:end]).strip() or "The command line could not be understood."
    sentence = re.sub(r"^Error parsing run[\w.]*: ", "", sentence)  # a check of ours, which names its options itself
    return sentence if sentence.endswith((".", "?")) else f"{sentence}."
