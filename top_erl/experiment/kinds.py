"""The kinds of runs: each method's configuration, learner and preset."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import tyro

from top_erl.algorithms import CollectConfig, Learner, RunParts, TopErlConfig, TopErlLearner
from top_erl.algorithms.bbrl import BbrlLearner
from top_erl.algorithms.on_policy_config import BbrlConfig, TceConfig
from top_erl.algorithms.step_based.config import PpoConfig, SacConfig
from top_erl.algorithms.step_based.extra import require_sb3
from top_erl.algorithms.step_based.gtrxl_config import GtrxlConfig
from top_erl.algorithms.tce import TceLearner
from top_erl.errors import UserError, unknown_name
from top_erl.experiment.config import EpisodicRun, EvaluationConfig, RunConfig
from top_erl.experiment.methods import METHODS
from top_erl.experiment.preset_gtrxl import gtrxl_preset
from top_erl.experiment.preset_on_policy import bbrl_cov_preset, bbrl_std_preset, tce_preset
from top_erl.experiment.preset_step_based import gsde_preset, pink_preset, ppo_preset, sac_preset
from top_erl.experiment.preset_top_erl import top_erl_preset
from top_erl.tasks import PrimitiveSettings, TaskSpec

_NoName = tyro.conf.arg(name="")


@dataclass(frozen=True)
class TopErlRun(EpisodicRun):
    """A run of TOP-ERL."""

    method: Literal["top_erl"] = "top_erl"
    """Learning method, see `top-erl methods`."""
    algorithm: Annotated[TopErlConfig, _NoName] = field(default_factory=TopErlConfig)
    """Hyper-parameters of the method."""


@dataclass(frozen=True)
class TceRun(EpisodicRun):
    """A run of TCE."""

    method: Literal["tce"] = "tce"
    """Learning method, see `top-erl methods`."""
    algorithm: Annotated[TceConfig, _NoName] = field(default_factory=TceConfig)
    """Hyper-parameters of the method."""


@dataclass(frozen=True)
class BbrlRun(EpisodicRun):
    """A run of BBRL."""

    method: Literal["bbrl_cov", "bbrl_std"] = "bbrl_cov"
    """Learning method, see `top-erl methods`."""
    algorithm: Annotated[BbrlConfig, _NoName] = field(default_factory=BbrlConfig)
    """Hyper-parameters of the method."""

    def __post_init__(self) -> None:
        """Check that name and covariance agree."""
        super().__post_init__()
        _check_variant(
            self.method, "policy.covariance", self.algorithm.policy.covariance, bbrl_cov="full", bbrl_std="diagonal"
        )


@dataclass(frozen=True)
class PpoRun(RunConfig):
    """A run of PPO or gSDE."""

    method: Literal["ppo", "gsde"] = "ppo"
    """Learning method, see `top-erl methods`."""
    algorithm: Annotated[PpoConfig, _NoName] = field(default_factory=PpoConfig)
    """Hyper-parameters of the method."""

    def __post_init__(self) -> None:
        """Check that name and exploration agree."""
        super().__post_init__()
        _check_variant(self.method, "networks.use_sde", self.algorithm.networks.use_sde, ppo=False, gsde=True)


@dataclass(frozen=True)
class SacRun(RunConfig):
    """A run of SAC or PINK."""

    method: Literal["sac", "pink"] = "sac"
    """Learning method, see `top-erl methods`."""
    algorithm: Annotated[SacConfig, _NoName] = field(default_factory=SacConfig)
    """Hyper-parameters of the method."""

    def __post_init__(self) -> None:
        """Check that name and noise agree."""
        super().__post_init__()
        _check_variant(self.method, "networks.noise", self.algorithm.networks.noise, sac="white", pink="pink")


@dataclass(frozen=True)
class GtrxlRun(RunConfig):
    """A run of GTrXL."""

    method: Literal["gtrxl"] = "gtrxl"
    """Learning method, see `top-erl methods`."""
    algorithm: Annotated[GtrxlConfig, _NoName] = field(default_factory=GtrxlConfig)
    """Hyper-parameters of the method."""


def _check_variant(method: str, option: str, found: object, **wanted: object) -> None:
    """Refuse a method by whose name another value of an option is meant."""
    if found != wanted[method]:
        other = next((name for name, value in wanted.items() if value == found), None)
        hint = f", or use --method {other}" if other else ""
        raise UserError(f"The method {method} has {option} {wanted[method]}, not {found}: leave that option out{hint}.")


Preset = Callable[[TaskSpec, str], tuple[Any, PrimitiveSettings | None, int, EvaluationConfig]]
"""Hyper-parameters, primitive (None: step-based), control steps and evaluation, for a task and a scale."""


@dataclass(frozen=True)
class Kind:
    """What a method needs to become a run."""

    run: type[RunConfig]
    """Its configuration."""
    learner: Callable[[Any, RunParts], Learner]
    """Makes the learner from the run's configuration."""
    preset: Preset
    """Its settings."""


def kind_of(method: str) -> Kind:
    """Find a method by name."""
    if method not in METHODS:
        raise unknown_name("method", method, METHODS)
    return KINDS[method]


def stored_episodes(config: RunConfig) -> CollectConfig:
    """How a run brings its episodes into the learner's form; methods without a replay take them as they are."""
    return config.algorithm.collect if isinstance(config, TopErlRun) else CollectConfig()


def _top_erl(config: TopErlRun, parts: RunParts) -> Learner:
    assert parts.collector is not None
    assert parts.primitive is not None
    learner = TopErlLearner(
        config.algorithm,
        parts.primitive,
        parts.collector,
        seed=parts.seed,
        total_iterations=parts.total_iterations,
        device=parts.device,
    )
    if config.hardware.precision == "bf16":
        learner.use_low_precision()
    return learner


def _tce(config: TceRun, parts: RunParts) -> Learner:
    return TceLearner(config.algorithm, parts)


def _bbrl(config: BbrlRun, parts: RunParts) -> Learner:
    return BbrlLearner(config.algorithm, parts)


def _ppo(config: PpoRun, parts: RunParts) -> Learner:
    require_sb3(config.method)
    from top_erl.algorithms.step_based.ppo import PpoLearner

    return PpoLearner(config.algorithm, parts)


def _gtrxl(config: GtrxlRun, parts: RunParts) -> Learner:
    require_sb3(config.method)
    from top_erl.algorithms.step_based.gtrxl import GtrxlLearner

    return GtrxlLearner(config.algorithm, parts)


def _sac(config: SacRun, parts: RunParts) -> Learner:
    require_sb3(config.method)
    from top_erl.algorithms.step_based.sac import SacLearner

    return SacLearner(config.algorithm, parts)


KINDS: dict[str, Kind] = {
    "top_erl": Kind(TopErlRun, _top_erl, top_erl_preset),
    "tce": Kind(TceRun, _tce, tce_preset),
    "bbrl_cov": Kind(BbrlRun, _bbrl, bbrl_cov_preset),
    "bbrl_std": Kind(BbrlRun, _bbrl, bbrl_std_preset),
    "ppo": Kind(PpoRun, _ppo, ppo_preset),
    "gsde": Kind(PpoRun, _ppo, gsde_preset),
    "gtrxl": Kind(GtrxlRun, _gtrxl, gtrxl_preset),
    "sac": Kind(SacRun, _sac, sac_preset),
    "pink": Kind(SacRun, _sac, pink_preset),
}
assert list(KINDS) == list(METHODS), "every method needs a line"
