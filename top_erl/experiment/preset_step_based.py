"""Presets of the step-based methods on Stable-Baselines3: PPO, gSDE, SAC and PINK.

`paper` carries the numbers of the paper's four tables (`step_based_tables.py`). What these do not say is chosen here:
how long a run is (as many control steps as TCE's, which its authors publish), and what the time limit means (an
interruption, as in Stable-Baselines3, but the end without discounting, since an endless episode has no value then).
`laptop` is for two CPU cores; its policies see the time, since episodes end by it.
"""

from __future__ import annotations

import math
from dataclasses import replace

from top_erl.algorithms.step_based.config import (
    NormalizeConfig,
    PpoConfig,
    PpoLearnConfig,
    PpoNetworksConfig,
    SacConfig,
    SacLearnConfig,
    SacNetworksConfig,
    StepCollectConfig,
)
from top_erl.experiment.config import EvaluationConfig
from top_erl.experiment.step_based_tables import PINK, PPO, SAC, SDE, TOTAL_STEPS, PpoNumbers, SacNumbers, family
from top_erl.tasks import PrimitiveSettings, TaskSpec

PpoPreset = tuple[PpoConfig, PrimitiveSettings | None, int, EvaluationConfig]
SacPreset = tuple[SacConfig, PrimitiveSettings | None, int, EvaluationConfig]
"""Hyper-parameters, no primitive, control steps of the run, evaluation."""

_EVALUATIONS = 100
"""Evaluations of a run at paper scale."""
_SAC_STEPS = 20_000
"""Control steps of an iteration of SAC at paper scale, about: it decides how often the large replay is saved."""
_PINK_CHUNK = 10_000
"""Steps of a chunk of pink noise and its longest period (the paper's text); an episode takes the first steps of one."""


def ppo_preset(spec: TaskSpec, scale: str) -> PpoPreset:
    """PPO."""
    return _laptop_ppo(spec) if scale == "laptop" else _paper_ppo(spec, PPO)


def gsde_preset(spec: TaskSpec, scale: str) -> PpoPreset:
    """PPO with state-dependent exploration."""
    return _laptop_sde(spec) if scale == "laptop" else _paper_ppo(spec, SDE)


def sac_preset(spec: TaskSpec, scale: str) -> SacPreset:
    """SAC."""
    return _laptop_sac(spec, SacNetworksConfig()) if scale == "laptop" else _paper_sac(spec, SAC, SacNetworksConfig())


def pink_preset(spec: TaskSpec, scale: str) -> SacPreset:
    """SAC with pink exploration noise."""
    if scale == "laptop":
        return _laptop_sac(spec, SacNetworksConfig(noise="pink"))
    return _paper_sac(spec, PINK, SacNetworksConfig(noise="pink", noise_length=max(_PINK_CHUNK, spec.horizon)))


# ---------------------------------------------------------------------- paper scale


def _paper_ppo(spec: TaskSpec, column: dict[str, PpoNumbers]) -> PpoPreset:
    """A column's numbers as a configuration."""
    numbers = column[family(spec.id)]
    # A task of no family may have longer episodes: then fewer environments play at least one each.
    environments = _environments(numbers.environments, numbers.samples, spec.horizon)
    config = PpoConfig(
        collect=StepCollectConfig(environments=environments, steps=numbers.samples, bootstrap=numbers.discount < 1.0),
        normalize=NormalizeConfig(observations=numbers.normalize, rewards=numbers.normalize),
        networks=PpoNetworksConfig(
            policy_hidden=numbers.hidden,
            critic_hidden=numbers.hidden,
            activation="tanh",
            orthogonal=not numbers.sde_every,
            initial_std=numbers.initial_std,
            use_sde=numbers.sde_every > 0,
            sde_sample_freq=numbers.sde_every or 4,
        ),
        learn=PpoLearnConfig(
            epochs=10,
            batch_size=numbers.batch,
            policy_rate=numbers.policy_rate,
            critic_rate=numbers.critic_rate,
            discount=numbers.discount,
            gae_lambda=numbers.gae_lambda,
            clip=numbers.clip,
            critic_clip=numbers.clip,
            final_clip=numbers.final_clip,
            clip_fall=numbers.clip_fall,
            entropy_weight=numbers.entropy,
        ),
    )
    return config, None, *_paper_run(spec, config)


def _paper_sac(spec: TaskSpec, column: dict[str, SacNumbers], networks: SacNetworksConfig) -> SacPreset:
    """A column's numbers as a configuration; an iteration is as many rounds of updates as whole episodes need."""
    numbers = column[family(spec.id)]
    whole = _whole_episodes(numbers.environments, _SAC_STEPS, spec.horizon)
    rounds = math.ceil(whole / numbers.samples)
    config = SacConfig(
        collect=StepCollectConfig(environments=numbers.environments, steps=rounds * numbers.samples),
        networks=replace(
            networks, policy_hidden=numbers.hidden, critic_hidden=numbers.hidden, activation=numbers.activation
        ),
        learn=SacLearnConfig(
            update_every=numbers.samples,
            gradient_steps=numbers.gradient_steps,
            learning_starts=numbers.learning_starts,
            batch_size=numbers.batch,
            buffer_size=numbers.buffer,
            policy_rate=numbers.rate,
            critic_rate=numbers.rate,
            target_rate=5e-3,
            discount=0.99,
            entropy="auto",
        ),
    )
    return config, None, *_paper_run(spec, config)


def _paper_run(spec: TaskSpec, config: PpoConfig | SacConfig) -> tuple[int, EvaluationConfig]:
    """Control steps and evaluation of a run."""
    steps = TOTAL_STEPS[family(spec.id)]
    interval = max(1, steps // config.collect.steps // _EVALUATIONS)
    return steps, EvaluationConfig(interval=interval, episodes=152)  # as many episodes as TOP-ERL's evaluations have


def _environments(wanted: int, steps: int, horizon: int) -> int:
    """The largest divisor of the steps, up to `wanted`, that gives each environment an episode at least."""
    fitting = [count for count in range(1, wanted + 1) if steps % count == 0 and steps // count >= horizon]
    return max(fitting, default=1)


def _whole_episodes(environments: int, steps: int, horizon: int) -> int:
    """About so many control steps, but whole episodes, the same number in each environment."""
    episodes = max(1, round(steps / (environments * horizon)))
    return environments * episodes * horizon


# ---------------------------------------------------------------------- laptop scale

_LAPTOP_STEPS = 4000
"""Control steps of an iteration, about."""


def _laptop_ppo(spec: TaskSpec) -> PpoPreset:
    """Small networks, about 4000 steps an iteration."""
    environments = 16 if spec.horizon <= 250 else 8
    collect = _laptop_collect(spec, environments)
    config = PpoConfig(
        collect=collect,
        networks=PpoNetworksConfig(policy_hidden=(64, 64), critic_hidden=(64, 64), initial_std=0.5),
        learn=PpoLearnConfig(
            batch_size=collect.steps_per_environment,  # as many minibatches as environments
            policy_rate=5e-4,
            critic_rate=1e-3,
            critic_clip=0.0,
            discount=1.0 if spec.horizon <= 250 else 0.99,  # as in the tables
        ),
    )
    return config, None, *_laptop_run(spec)


def _laptop_sde(spec: TaskSpec) -> PpoPreset:
    """PPO's settings with state-dependent exploration."""
    config, primitive, steps, evaluation = _laptop_ppo(spec)
    networks = replace(config.networks, initial_std=0.1, use_sde=True, sde_sample_freq=4)
    return replace(config, networks=networks), primitive, steps, evaluation


def _laptop_sac(spec: TaskSpec, networks: SacNetworksConfig) -> SacPreset:
    """A gradient step per 8 control steps, several at a time, which is quicker than one by one."""
    collect = _laptop_collect(spec, environments=8)
    several = max(count for count in range(1, 9) if collect.steps_per_environment % count == 0)
    config = SacConfig(
        collect=collect,
        normalize=NormalizeConfig(observations=True, rewards=False),  # more than anything else, this helps the reacher
        networks=replace(networks, policy_hidden=(128, 128), critic_hidden=(128, 128)),
        learn=SacLearnConfig(
            update_every=8 * several,
            gradient_steps=several,
            policy_rate=1e-3,
            critic_rate=1e-3,
            learning_starts=4000,
            batch_size=256,
            buffer_size=300_000,
        ),
    )
    return config, None, *_laptop_run(spec)


def _laptop_collect(spec: TaskSpec, environments: int) -> StepCollectConfig:
    """Whole episodes whose end, and the time until then, the learner knows of."""
    return StepCollectConfig(
        environments=environments,
        steps=_whole_episodes(environments, _LAPTOP_STEPS, spec.horizon),
        observe_time=True,
        bootstrap=False,
    )


def _laptop_run(spec: TaskSpec) -> tuple[int, EvaluationConfig]:
    """As many control steps as TOP-ERL's run on the same task, and evaluations about as often."""
    steps = 1000 * max(4, min(16, 800 // spec.horizon)) * spec.horizon
    return steps, EvaluationConfig(interval=5, episodes=100 if spec.horizon <= 50 else 20)
