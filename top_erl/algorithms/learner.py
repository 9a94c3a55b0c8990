"""What every method offers to a run: collect and learn an iteration, play the policy, save and restore itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from top_erl.algorithms.ranking import CriticRanking
from top_erl.errors import UserError
from top_erl.rollout.collector import Scores


@dataclass(frozen=True)
class IterationStats:
    """One iteration."""

    exploration: Scores
    """How the collected episodes went."""
    numbers: Mapping[str, float]
    """Statistics of the updates under the names of `Learner.columns`; what was not computed is missing."""


class Learner(ABC):
    """A method at work on one task. Knows nothing of files, signals or the screen.

    All randomness derives from the run's seed and the counters, so that a restored learner goes on bit for bit.
    """

    columns: ClassVar[tuple[str, ...]]
    """Names of all statistics an iteration may report, in the order of `metrics.csv`."""
    ranks_movements: ClassVar[bool] = False
    """Whether its critic values whole movements, so that one may ask how well it ranks them."""
    total_iterations: int
    """Iterations of the whole run; schedules refer to it."""
    episodes_collected: int
    """Training episodes played so far."""
    env_steps: int
    """Control steps of the training episodes so far."""

    bf16_route: str = ""
    """How matrices are multiplied in bfloat16; empty in float32."""

    def use_bf16(self) -> None:
        """Multiply matrices in bfloat16 from now on; asked of methods only whose record says that they can."""
        raise UserError("This method has no matrix products in bf16: use --precision float32.")

    def prefill(self) -> None:
        """Collect what is wanted before the first iteration, if it is not there yet."""
        return

    @abstractmethod
    def iterate(self, iteration: int) -> IterationStats:
        """Collect and learn. Iterations count from 1."""

    @abstractmethod
    def evaluate(self, seeds: Sequence[int]) -> Scores:
        """Play the policy without exploration, one episode per seed."""

    def rank_movements(self, contexts: int, *, seed: int, stream: str) -> CriticRanking:
        """Sample movements in contexts of a random stream, play them, and see how the critic ranks them."""
        raise UserError("The critic of this method values no whole movements, so that there is no ranking of them.")

    @abstractmethod
    def film(self, seed: int, every: int) -> list[NDArray[np.uint8]]:
        """Play one episode without exploration; pictures, [H, W, 3], after each `every`-th step and the last."""

    @abstractmethod
    def state_dict(self) -> dict[str, Tensor]:
        """Everything that training has changed, but the replay and the counters, as plain tensors."""

    def check_state(self, state: dict[str, Tensor], replay: dict[str, Tensor]) -> None:
        """Refuse saved tensors that are not of a learner like this one; asked before any of them is taken over."""
        return

    @abstractmethod
    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take over a saved state."""

    def policy_state(self) -> dict[str, Tensor]:
        """The part of the state that playing needs, under names that begin with `policy.`."""
        raise UserError("Only episodic methods have a policy that can be saved alone: save the whole agent.")

    def load_policy(self, state: dict[str, Tensor]) -> None:
        """Take over a policy that was saved alone, to play it; one that does not fit is refused."""
        self.policy_state()  # says why not

    def replay_state(self) -> dict[str, Tensor]:
        """What is kept of past episodes, as plain tensors; methods without a replay have none."""
        return {}

    def load_replay_state(self, state: dict[str, Tensor]) -> None:
        """Take over a saved replay."""
        return

    def close(self) -> None:
        """Release simulators and processes."""
        return


class StepwiseLearner(Learner):
    """A learner whose policy chooses an action at every control step."""

    @abstractmethod
    def act(self, observation: NDArray[np.float64], step: int) -> NDArray[Any]:
        """Choose actions without exploration, [B, A], for raw observations, [B, S], at a step of their episodes.

        Steps count from 0. A policy with a memory remembers the steps before: 0 starts anew, and any other step must
        follow the one before it.
        """
