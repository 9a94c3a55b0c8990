"""`--import MODULE`: modules of the user's that register methods, targets, primitives or tasks."""

from __future__ import annotations

from collections.abc import Sequence

from top_erl.errors import UserError
from top_erl.tasks.catalogue import import_from_here, import_reason

IMPORTED: list[str] = []
"""Modules that were named so far, for the commands that are suggested at the end of a run."""


def import_extensions(words: Sequence[str]) -> list[str]:
    """Import the modules that `--import` names; returns the other words of the command line."""
    others, rest = [], iter(words)
    for word in rest:
        if word != "--import" and not word.startswith("--import="):
            others.append(word)
            continue
        name = word.partition("=")[2] or next(rest, "")
        try:
            import_from_here(name)
        except (Exception, SystemExit) as error:  # it is code of the user's, which may do anything
            raise UserError(
                f"Cannot import the module {name!r} that --import names: {import_reason(error)}."
            ) from error
        IMPORTED.append(name)
    return others
