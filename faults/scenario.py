"""What is tried: scenarios by name, each a row of attempts, and how they are counted.

An attempt is a function that returns if all went as promised and raises `Lost` if not. A scenario yields attempts for
as long as it has some; the clock decides how many are made.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from faults.bench import Bench


class Lost(Exception):  # noqa: N818 - it names what happened
    """A promise was not kept: something is gone, changed, wrong, stuck, left over, or shown as a traceback."""


class Skipped(Exception):  # noqa: N818 - it names what happened
    """This machine does not allow the attempt."""


@dataclass(frozen=True)
class Attempt:
    """One try."""

    label: str
    """Says what is done, for the note if it is lost."""
    make: Callable[[], None]
    """Does it; raises `Lost`, or `Skipped`."""


@dataclass(frozen=True)
class Outcome:
    """What came of a scenario."""

    tried: int
    survived: int
    lost: int
    note: str = ""
    """What was lost, or why less was tried."""
    seconds: float = 0.0


@dataclass(frozen=True)
class Scenario:
    """Attempts of one kind."""

    name: str
    """`family.what`."""
    sentence: str
    """What happens, and what is promised."""
    attempts: Callable[[Bench], Iterator[Attempt]]
    quick: int
    """Attempts of the short version; 0: it is not part of it."""
    share: float
    """Weight in the time there is."""
    endless: bool
    """Random: it goes on for as long as there is time."""

    @property
    def family(self) -> str:
        """The part of the name before the dot."""
        return self.name.partition(".")[0]


SCENARIOS: dict[str, Scenario] = {}
"""All scenarios by name, in the order of the families."""

_Attempts = Callable[["Bench"], Iterator[Attempt]]


def scenario(
    name: str, sentence: str, *, quick: int = 0, share: float = 1.0, endless: bool = False
) -> Callable[[_Attempts], _Attempts]:
    """Enter a generator of attempts into the list of scenarios."""

    def enter(attempts: _Attempts) -> _Attempts:
        assert name not in SCENARIOS
        SCENARIOS[name] = Scenario(name, sentence, attempts, quick, share, endless)
        return attempts

    return enter


def run(chosen: Scenario, bench: Bench, seconds: float, most: int | None = None) -> Outcome:
    """Make a scenario's attempts until its time is over, at least one and at most `most`."""
    began = time.monotonic()
    tried = survived = 0
    notes: list[str] = []
    for attempt in chosen.attempts(bench):
        if tried and time.monotonic() - began > seconds:
            notes += [] if chosen.endless else ["the clock ended it"]
            break
        try:
            tried += 1
            attempt.make()
            survived += 1
        except Skipped as why:
            tried -= 1
            notes.append(f"skipped: {why}")
        except Lost as loss:
            notes.append(f"{attempt.label}: {loss}")
        finally:
            bench.tidy()
        if most is not None and tried >= most:
            break
    return Outcome(tried, survived, tried - survived, "; ".join(dict.fromkeys(notes)), time.monotonic() - began)
