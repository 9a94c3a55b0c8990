"""The step-based methods as methods of the library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import tyro

from top_erl.algorithms.learner import Learner
from top_erl.algorithms.method import Method, Preset, check_variant
from top_erl.algorithms.sb3.config import PpoConfig, SacConfig
from top_erl.algorithms.sb3.extra import require_sb3
from top_erl.algorithms.sb3.gtrxl_config import GtrxlConfig
from top_erl.algorithms.sb3.preset import gsde_preset, gtrxl_preset, pink_preset, ppo_preset, sac_preset
from top_erl.algorithms.setup import Setup
from top_erl.config.run import RunConfig, Scale
from top_erl.tasks import TaskSpec

_NO_NAME = tyro.conf.arg(name="")
Build = Callable[[Any, Setup], Learner]
PresetOf = Callable[[TaskSpec, Scale], Preset]


@dataclass(frozen=True)
class PpoRun(RunConfig):
    """A run of PPO or gSDE."""

    method: Literal["ppo", "gsde"] = "ppo"
    """Learning method, see `top-erl methods`."""
    algorithm: Annotated[PpoConfig, _NO_NAME] = field(default_factory=PpoConfig)
    """Hyper-parameters of the method."""

    def __post_init__(self) -> None:
        """Check that name and exploration agree."""
        super().__post_init__()
        check_variant(self.method, "networks.use_sde", self.algorithm.networks.use_sde, ppo=False, gsde=True)


@dataclass(frozen=True)
class SacRun(RunConfig):
    """A run of SAC or PINK."""

    method: Literal["sac", "pink"] = "sac"
    """Learning method, see `top-erl methods`."""
    algorithm: Annotated[SacConfig, _NO_NAME] = field(default_factory=SacConfig)
    """Hyper-parameters of the method."""

    def __post_init__(self) -> None:
        """Check that name and noise agree."""
        super().__post_init__()
        check_variant(self.method, "networks.noise", self.algorithm.networks.noise, sac="white", pink="pink")


@dataclass(frozen=True)
class GtrxlRun(RunConfig):
    """A run of GTrXL."""

    method: Literal["gtrxl"] = "gtrxl"
    """Learning method, see `top-erl methods`."""
    algorithm: Annotated[GtrxlConfig, _NO_NAME] = field(default_factory=GtrxlConfig)
    """Hyper-parameters of the method."""


def _ppo(config: PpoRun, setup: Setup) -> Learner:
    require_sb3(config.method)
    from top_erl.algorithms.sb3.ppo import PpoLearner

    return PpoLearner(config.algorithm, setup)


def _sac(config: SacRun, setup: Setup) -> Learner:
    require_sb3(config.method)
    from top_erl.algorithms.sb3.sac import SacLearner

    return SacLearner(config.algorithm, setup)


def _gtrxl(config: GtrxlRun, setup: Setup) -> Learner:
    require_sb3(config.method)
    from top_erl.algorithms.sb3.gtrxl import GtrxlLearner

    return GtrxlLearner(config.algorithm, setup)


_PACKAGES = ("stable-baselines3", "pink-noise-rl")


def _method(name: str, description: str, run: type[RunConfig], build: Build, preset: PresetOf) -> Method:
    return Method(name, description, run, build, preset, packages=_PACKAGES)


PPO = _method("ppo", "PPO: on-policy, an action every step (Stable-Baselines3).", PpoRun, _ppo, ppo_preset)
GSDE = _method("gsde", "PPO with exploration noise that depends on the state (gSDE).", PpoRun, _ppo, gsde_preset)
GTRXL = _method(
    "gtrxl", "PPO with a gated transformer-XL that remembers past steps (GTrXL).", GtrxlRun, _gtrxl, gtrxl_preset
)
SAC = _method("sac", "SAC: off-policy, an action every step (Stable-Baselines3).", SacRun, _sac, sac_preset)
PINK = _method("pink", "SAC with pink exploration noise (PINK).", SacRun, _sac, pink_preset)
