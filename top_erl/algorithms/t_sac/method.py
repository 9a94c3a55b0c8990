"""T-SAC as a method of the library."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

import tyro

from top_erl.algorithms.learner import Learner
from top_erl.algorithms.method import Method
from top_erl.algorithms.setup import Setup
from top_erl.algorithms.t_sac.config import TSacConfig
from top_erl.algorithms.t_sac.preset import t_sac_preset
from top_erl.config.run import RunConfig


@dataclass(frozen=True)
class TSacRun(RunConfig):
    """A run of T-SAC."""

    method: Literal["t_sac"] = "t_sac"
    """Learning method, see `top-erl methods`."""
    algorithm: Annotated[TSacConfig, tyro.conf.arg(name="")] = field(default_factory=TSacConfig)
    """Hyper-parameters of the method."""


def _build(config: TSacRun, setup: Setup) -> Learner:
    from top_erl.algorithms.t_sac.learner import TSacLearner

    return TSacLearner(config.algorithm, setup)


T_SAC = Method(
    name="t_sac",
    description="T-SAC: off-policy, an action every step, transformer critics over segments of steps.",
    run=TSacRun,
    build=_build,
    preset=t_sac_preset,
    stores_episodes=True,
)
