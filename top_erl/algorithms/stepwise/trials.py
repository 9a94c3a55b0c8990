"""Step environments whose episodes may fail: such an episode is over, and the run goes on.

Axes: `S` observation entries, `A` action entries.
"""

from __future__ import annotations

import logging
from typing import Any

from numpy.typing import NDArray

from top_erl.errors import RunStopped, UserError
from top_erl.rollout.collector import MOST_FAILURES, TooManyFailures
from top_erl.tasks.checks import WrongShape
from top_erl.tasks.contract import Array, EpisodeFailure
from top_erl.tasks.stepping import Step, StepEnvironment

_LOG = logging.getLogger("top_erl")


class TrialEnvironment(StepEnvironment):
    """A step environment that says in `failure` why its episode failed, and raises nothing."""

    failure: EpisodeFailure | None = None
    """Why the episode failed; None: it did not."""

    def reset(self, seed: int) -> Array:
        """Start an episode; its first raw observation, [S], or an old one if it fails."""
        self.failure = None
        try:
            return super().reset(seed)
        except UserError as error:
            self._give_up(error)
            return self.observation

    def step(self, action: NDArray[Any]) -> Step:
        """Make one step; one that fails is none: the observation stays, there is no reward, and the time is over."""
        try:
            return super().step(action)
        except UserError as error:
            self._give_up(error)
            return Step(self.observation, 0.0, terminated=False, truncated=True)

    def metrics(self) -> dict[str, float]:
        """Measure what `spec.metrics` names; zeros if that fails, or the episode has."""
        try:
            if self.failure is None:
                return super().metrics()
        except UserError as error:
            self._give_up(error)
        return dict.fromkeys(self.spec.metrics, 0.0)

    def _give_up(self, error: UserError) -> None:
        """Note a failure and take a new simulator; what only the user can mend is raised."""
        if not isinstance(error, (RunStopped, WrongShape)):
            raise error
        self.failure = EpisodeFailure(str(error).rstrip("."), contradicts_spec=isinstance(error, WrongShape))
        self.renew()


class FailureLog:
    """Which episodes have failed; too many in a row, by their numbers, stop the run."""

    def __init__(self, name: str) -> None:
        """Call the episodes by a name, such as `Episode`."""
        self._name = name
        self._failed: set[int] = set()

    def note(self, number: int, failure: EpisodeFailure) -> None:
        """Note that an episode failed."""
        self._failed.add(number)
        first, last = number, number
        while first - 1 in self._failed:
            first -= 1
        while last + 1 in self._failed:
            last += 1
        if last - first + 1 >= MOST_FAILURES:
            raise TooManyFailures(failure)
        _LOG.warning("%s. %s %d is left out, and the run goes on.", failure.sentence, self._name, number)
