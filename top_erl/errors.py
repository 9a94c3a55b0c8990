"""Errors meant for the person at the keyboard.

A `UserError` carries one sentence that says what is wrong and what to do. The command line prints that sentence
without a traceback and exits with the error's code: 2 for bad input, 1 for a run that had to stop, 75 for a folder
that is in use.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

EPISODE_ERRORS = (Exception, SystemExit)
"""What an environment may raise without ending more than its episode; `sys.exit()` is among it, Ctrl-C is not."""


class UserError(ValueError):
    """Something the user can mend: a wrong name, a wrong value, a missing extra."""

    exit_code = 2


class RunStopped(UserError):  # noqa: N818 - it names what happened, and is shown to users
    """A training run that cannot go on: a loss that exploded, NaN from a task, a full disk."""

    exit_code = 1


class RunDiverged(RunStopped):
    """A run whose numbers exploded; resuming would only repeat it."""


class FolderBusy(UserError):  # noqa: N818 - it names what happened, and is shown to users
    """A folder that another process is writing to; trying again later may work."""

    exit_code = 75  # what Unix programs answer to that


def unknown_name(kind: str, name: str, valid: Iterable[str]) -> UserError:
    """Build the error for a name that does not exist, with the nearest valid one."""
    choices = sorted(valid)
    near = difflib.get_close_matches(name, choices, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]!r}?" if near else f"valid: {', '.join(choices)}."
    return UserError(f"Unknown {kind} {name!r}; {hint}")


def install_command(extra: str) -> str:
    """What to type for an optional package, in a clone: there is no release yet."""
    return f"pip install -c constraints.txt -e '.[{extra}]'"


def missing_extra(package: str, extra: str, purpose: str) -> UserError:
    """Build the error for an optional package that is not installed."""
    return UserError(f"{purpose} needs the package {package!r}: {install_command(extra)}")
