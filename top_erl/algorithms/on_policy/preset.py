"""What the presets of BBRL and TCE share.

`paper` carries the numbers of the authors' configurations, which made the published curves; a remark says where the
paper's table differs, and where neither says anything and the number is borrowed. What all families have and the
configuration has by itself is not repeated. `laptop` is for two CPU cores and was found by experiment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from top_erl.algorithms.budget import laptop_budget, of_family
from top_erl.algorithms.method import Preset
from top_erl.algorithms.on_policy.config import OnPolicyConfig
from top_erl.config.changes import changed
from top_erl.config.run import EvaluationConfig
from top_erl.tasks import TaskSpec

LAPTOP: dict[str, Any] = {
    "policy.hidden": (64, 64),
    "critic.hidden": (64, 64),
    "learn.critic_rate": 1e-3,
    "learn.policy_rate": 1e-3,
    "learn.critic_epochs": 30,
    "learn.standardize": 64,
}
"""Settings of both methods at laptop scale."""
_LAPTOP_RETURN = 10.0
"""What returns are scaled to: a value head that starts near zero wastes many epochs on large ones."""


@dataclass(frozen=True)
class PaperRun:
    """A method's run on a family of tasks, as published."""

    iterations: int
    evaluation: EvaluationConfig
    changes: Mapping[str, Any]
    """Settings of the method."""
    primitive: Mapping[str, Any] = field(default_factory=dict)
    """Where the primitive differs from the task's own."""


def paper_preset(config: OnPolicyConfig, table: Mapping[str, PaperRun], spec: TaskSpec) -> Preset:
    """A published run; any task of no family has Meta-World's numbers and its own primitive."""
    run = of_family(table, spec)
    algorithm = changed(config, run.changes)
    steps = run.iterations * algorithm.collect.episodes * spec.horizon
    primitive = changed(spec.primitive, run.primitive) if spec.family in table else spec.primitive
    return Preset(algorithm, steps, run.evaluation, primitive)


def laptop_preset(config: OnPolicyConfig, changes: Mapping[str, Any], spec: TaskSpec) -> Preset:
    """Few episodes an iteration, wide bounds, standardised contexts, scaled returns."""
    budget, episodes = laptop_budget(spec), 32 if spec.horizon <= 50 else 16
    of_task = {"collect.episodes": episodes, "collect.reward_scale": _LAPTOP_RETURN / spec.return_size}
    interval = budget.episodes // budget.evaluations // episodes
    return Preset(
        changed(config, {**LAPTOP, **of_task, **changes}),
        budget.episodes // episodes * episodes * spec.horizon,
        EvaluationConfig(interval, budget.evaluation_episodes),
    )
