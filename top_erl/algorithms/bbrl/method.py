"""BBRL as two methods of the library: with a full and with a diagonal covariance."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Literal

import tyro

from top_erl.algorithms.bbrl.config import BbrlConfig
from top_erl.algorithms.bbrl.preset import bbrl_preset
from top_erl.algorithms.learner import Learner
from top_erl.algorithms.method import Method, check_variant
from top_erl.algorithms.setup import Setup
from top_erl.config.run import EpisodicRun


@dataclass(frozen=True)
class BbrlRun(EpisodicRun):
    """A run of BBRL."""

    method: Literal["bbrl_cov", "bbrl_std"] = "bbrl_cov"
    """Learning method, see `top-erl methods`."""
    algorithm: Annotated[BbrlConfig, tyro.conf.arg(name="")] = field(default_factory=BbrlConfig)
    """Hyper-parameters of the method."""

    def __post_init__(self) -> None:
        """Check that name and covariance agree."""
        super().__post_init__()
        found = self.algorithm.policy.covariance
        check_variant(self.method, "policy.covariance", found, bbrl_cov="full", bbrl_std="diagonal")


def _build(config: BbrlRun, setup: Setup) -> Learner:
    from top_erl.algorithms.bbrl.learner import BbrlLearner

    return BbrlLearner(config.algorithm, setup)


BBRL_COV = Method(
    name="bbrl_cov",
    description="BBRL: black-box policy search over whole movements, full covariance.",
    run=BbrlRun,
    build=_build,
    preset=partial(bbrl_preset, covariance="full"),
)
BBRL_STD = Method(
    name="bbrl_std",
    description="BBRL with a diagonal covariance.",
    run=BbrlRun,
    build=_build,
    preset=partial(bbrl_preset, covariance="diagonal"),
)
