"""Names for runs of one method whose settings differ, and sentences about how they differ. Plain data only."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from top_erl.report.settings import flat

_NO_SETTING = ("task", "method", "seed", "total_env_steps")
_NO_SETTINGS = ("checkpoint.", "log.", "hardware.", "evaluation.")
"""Entries and parts of a configuration that do not make it another setting."""
_A_SETTING = ("hardware.precision",)
_SCALE = "scale"
_LISTED = 5
"""Settings that a sentence names."""


def flat_settings(config: Mapping[str, Any]) -> dict[str, str]:
    """The settings of a configuration by their names on the command line, as text."""
    return {
        name: value if isinstance(value, str) else json.dumps(value, default=str)
        for name, value in flat(config).items()
        if name in _A_SETTING or not (name in _NO_SETTING or name.startswith(_NO_SETTINGS))
    }


def name_variants(tasks: Sequence[str], settings: Sequence[Mapping[str, str]]) -> tuple[list[str], list[str]]:
    """A name per run that tells apart runs of the same task with different settings.

    Settings that differ between tasks only are the presets of these tasks and make no variant, unless these are presets
    of another scale: a method must not be pooled from runs of both.

    Args:
        tasks: Task of each run.
        settings: Settings of each run, as `flat_settings` gives them.

    Returns:
        A name per run, empty if nothing tells it apart; and the settings that differ within a task.
    """
    groups: dict[str, list[Mapping[str, str]]] = {}
    for task, each in zip(tasks, settings, strict=True):
        groups.setdefault(task, []).append(each)
    groups[""] = [{_SCALE: each.get(_SCALE, "unset")} for each in settings]  # compared over all tasks
    differing = [name for name in _names(settings) if any(_distinct(group, [name]) > 1 for group in groups.values())]
    chosen: list[str] = []
    for name in differing:  # as few as tell all apart
        if any(_distinct(group, [*chosen, name]) > _distinct(group, chosen) for group in groups.values()):
            chosen.append(name)
    short = [name.rpartition(".")[2] for name in chosen]
    shown = [last if short.count(last) == 1 else name for name, last in zip(chosen, short, strict=True)]
    return [
        ",".join(f"{show}={each.get(name, 'unset')}" for name, show in zip(chosen, shown, strict=True))
        for each in settings
    ], differing


def difference_note(label: str, differing: Sequence[str]) -> str:
    """A sentence on how the settings of a method's runs differ."""
    more = f" and {len(differing) - _LISTED} more" if len(differing) > _LISTED else ""
    return f"Runs of {label} have different settings and are kept apart; they differ in {_list(differing)}{more}."


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:_LISTED])


def _names(settings: Sequence[Mapping[str, str]]) -> list[str]:
    """All settings, in the order of the configurations."""
    return list(dict.fromkeys(name for each in settings for name in each))


def _distinct(settings: Sequence[Mapping[str, str]], names: Sequence[str]) -> int:
    return len({tuple(each.get(name) for name in names) for each in settings})
