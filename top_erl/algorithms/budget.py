"""How long a run on a laptop is: the same for every method, so that their curves can be compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from top_erl.tasks import TaskSpec

T = TypeVar("T")


@dataclass(frozen=True)
class LaptopBudget:
    """Episodes of a run at laptop scale. Methods that collect in larger pieces take as many whole ones as fit."""

    episodes: int
    """Episodes of training."""
    evaluations: int
    """Evaluations of the run, about."""
    evaluation_episodes: int
    """Episodes of each."""


def laptop_budget(spec: TaskSpec) -> LaptopBudget:
    """800 000 control steps, if that is between 4000 and 16 000 episodes.

    On Meta-World a million, in long episodes; on Box Pushing four million.
    """
    evaluation_episodes = 100 if spec.horizon <= 50 else 20
    if spec.family == "metaworld":
        return LaptopBudget(2000, 25, evaluation_episodes)
    if spec.family.startswith("box_pushing"):
        return LaptopBudget(40_000, 50, evaluation_episodes)
    return LaptopBudget(1000 * max(4, min(16, 800 // spec.horizon)), 50, evaluation_episodes)


def of_family(table: Mapping[str, T], spec: TaskSpec) -> T:
    """A task's entry in a table of the paper's families; Meta-World's, the broadest, for a task of no family."""
    return table.get(spec.family, table["metaworld"])
