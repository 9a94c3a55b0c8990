"""TOP-ERL as a method of the library."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

import tyro

from top_erl.algorithms.learner import Learner
from top_erl.algorithms.method import Method
from top_erl.algorithms.setup import Setup
from top_erl.algorithms.top_erl.config import TopErlConfig
from top_erl.algorithms.top_erl.preset import top_erl_preset
from top_erl.config.run import EpisodicRun


@dataclass(frozen=True)
class TopErlRun(EpisodicRun):
    """A run of TOP-ERL."""

    method: Literal["top_erl"] = "top_erl"
    """Learning method, see `top-erl methods`."""
    algorithm: Annotated[TopErlConfig, tyro.conf.arg(name="")] = field(default_factory=TopErlConfig)
    """Hyper-parameters of the method."""


def _build(config: TopErlRun, setup: Setup) -> Learner:
    from top_erl.algorithms.top_erl.learner import TopErlLearner
    from top_erl.algorithms.top_erl.planning import PlanningLearner

    several = config.algorithm.plan.replans(setup.spec.horizon)
    return (PlanningLearner if several else TopErlLearner)(config.algorithm, setup)


TOP_ERL = Method(
    name="top_erl",
    description="TOP-ERL: off-policy episodic RL, a transformer critic over action segments (the paper's method).",
    run=TopErlRun,
    build=_build,
    preset=top_erl_preset,
    stores_episodes=True,
    keeps_behaviour=True,
    has_bf16=True,
)
