"""TCE as a method of the library."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

import tyro

from top_erl.algorithms.learner import Learner
from top_erl.algorithms.method import Method
from top_erl.algorithms.setup import Setup
from top_erl.algorithms.tce.config import TceConfig
from top_erl.algorithms.tce.preset import tce_preset
from top_erl.config.run import EpisodicRun


@dataclass(frozen=True)
class TceRun(EpisodicRun):
    """A run of TCE."""

    method: Literal["tce"] = "tce"
    """Learning method, see `top-erl methods`."""
    algorithm: Annotated[TceConfig, tyro.conf.arg(name="")] = field(default_factory=TceConfig)
    """Hyper-parameters of the method."""


def _build(config: TceRun, setup: Setup) -> Learner:
    from top_erl.algorithms.tce.learner import TceLearner

    return TceLearner(config.algorithm, setup)


TCE = Method(
    name="tce",
    description="TCE: on-policy episodic RL that credits segments of the movement, with a step-wise critic.",
    run=TceRun,
    build=_build,
    preset=tce_preset,
)
