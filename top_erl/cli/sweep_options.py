"""Options of runs among those of a sweep: `--learn.target v,q --total-env-steps 100000`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from top_erl.config.option_names import option_name
from top_erl.errors import UserError

_INSTEAD = {
    "seed": "--seeds",
    "task": "--tasks",
    "method": "--methods",
    "run-dir": "--into",
    "config": "a sweep's file",
}


@dataclass(frozen=True)
class RunOptions:
    """Options of runs as they were typed."""

    single: Mapping[str, str]
    """With one value, for all runs."""
    several: Mapping[str, tuple[str, ...]]
    """With a list of values, a run for each."""


def split_words(words: Sequence[str], own: type[Any]) -> tuple[list[str], RunOptions]:
    """Tell the options of a command from those of the runs; the latter are checked against each method later."""
    known = {option_name(field.name) for field in dataclasses.fields(own)} | {"help"}
    single: dict[str, str] = {}
    several: dict[str, tuple[str, ...]] = {}
    rest: list[str] = []
    groups = _grouped(words)
    for option, values in groups:
        name = option_name(option)
        if not option.startswith("--") or name in known or name.removeprefix("no-") in known:
            rest += [option, *values]
            continue
        if name in _INSTEAD:
            raise UserError(f"A sweep takes {_INSTEAD[name]}, not --{name}.")
        name, text = _with_value(name, values)
        choices = tuple(text.split(","))
        if len(choices) == 1:
            single[name] = text
        else:
            several[name] = choices
    return rest, RunOptions(single, several)


def _with_value(name: str, values: Sequence[str]) -> tuple[str, str]:
    """An option and its value; one without is a switch, `--critic.layer-norm` or `--critic.no-layer-norm`."""
    if values:
        return name, " ".join(values)
    group, dot, last = name.rpartition(".")
    if last.startswith("no-"):
        return f"{group}{dot}{last.removeprefix('no-')}", "false"
    return name, "true"


def _grouped(words: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Options with the words that follow them; `--x=1` is `--x 1`. Words before the first option stand alone."""
    groups: list[tuple[str, list[str]]] = []
    for word in words:
        if word.startswith("--"):
            option, equals, value = word.partition("=")
            groups.append((option, [value] if equals else []))
        elif groups and groups[-1][0].startswith("--"):
            groups[-1][1].append(word)
        else:
            groups.append((word, []))
    return groups
