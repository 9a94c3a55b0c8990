"""What a learning method is to the rest of the library: one record, exported by the method's folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from top_erl.algorithms.learner import Learner
from top_erl.algorithms.setup import Setup
from top_erl.config.primitive import PrimitiveConfig
from top_erl.config.run import AlgorithmConfig, EpisodicRun, EvaluationConfig, RunConfig, Scale
from top_erl.errors import UserError
from top_erl.tasks import TaskSpec


@dataclass(frozen=True)
class Preset:
    """What a run of a method starts from, for a task and a scale."""

    algorithm: AlgorithmConfig
    """Hyper-parameters of the method."""
    total_env_steps: int
    """Control steps of the run."""
    evaluation: EvaluationConfig
    """How the policy is evaluated."""
    primitive: PrimitiveConfig | None = None
    """The movement primitive; None: the task's own, or none at all for a step-based method."""


@dataclass(frozen=True)
class Method:
    """A learning method: how it is configured and built, and what it can do."""

    name: str
    """What `--method` calls it."""
    description: str
    """One line about it."""
    run: type[RunConfig]
    """Configuration of its runs; a subclass of `EpisodicRun` if it learns parameters of a movement primitive."""
    build: Callable[[Any, Setup], Learner]
    """Makes the learner from a configuration of type `run`; imports what only a learner needs."""
    preset: Callable[[TaskSpec, Scale], Preset]
    """The settings for a task and a scale."""
    stores_episodes: bool = False
    """Learns from a replay of whole episodes."""
    keeps_behaviour: bool = False
    """Can keep the policy that played each stored episode."""
    has_bf16: bool = False
    """Can multiply matrices in bfloat16."""
    packages: tuple[str, ...] = ()
    """Packages that decide its numbers, besides those of all methods."""

    @property
    def acts_by_steps(self) -> bool:
        """Whether it chooses an action every control step, without a movement primitive."""
        return not issubclass(self.run, EpisodicRun)


def check_variant(method: str, option: str, found: object, **wanted: object) -> None:
    """Refuse a method by whose name another value of an option is meant; one of another name may have any."""
    if method in wanted and found != wanted[method]:
        other = next((name for name, value in wanted.items() if value == found), None)
        hint = f", or use --method {other}" if other else ""
        raise UserError(f"The method {method} has {option} {wanted[method]}, not {found}: leave that option out{hint}.")
