"""Presets of the step-based methods: PPO, gSDE, SAC, PINK and GTrXL.

`paper` carries the numbers of the paper's four tables (`tables.py`). What these do not say is chosen here: how long a
run is (as many control steps as TCE's, which its authors publish), and what the time limit means (an interruption, as
in Stable-Baselines3, but the end without discounting, since an endless episode has no value then). `laptop` is for two
CPU cores; its policies see the time, since episodes end by it.
"""

from __future__ import annotations

import math
from typing import Any

from top_erl.algorithms.budget import laptop_budget, of_family
from top_erl.algorithms.method import Preset
from top_erl.algorithms.sb3.config import PpoConfig, SacConfig
from top_erl.algorithms.sb3.gtrxl_config import GtrxlConfig
from top_erl.algorithms.sb3.tables import GTRXL, PINK, PPO, SAC, SDE, TOTAL_STEPS, Column
from top_erl.algorithms.stepwise.config import StepConfig
from top_erl.config.changes import changed
from top_erl.config.run import EvaluationConfig, Scale
from top_erl.tasks import TaskSpec

_EVALUATIONS = 100
"""Evaluations of a run at paper scale."""
_SAC_STEPS = 20_000
"""Control steps of an iteration of SAC at paper scale, about: it decides how often the large replay is saved."""
_PINK_CHUNK = 10_000
"""Steps of a chunk of pink noise and its longest period (the paper's text); an episode takes the first steps of one."""
_GTRXL_ENVIRONMENTS = 20
"""Environments that GTrXL steps together, at most: enough for the network to work in batches."""


def ppo_preset(spec: TaskSpec, scale: Scale) -> Preset:
    """PPO."""
    return _laptop_ppo(spec) if scale == "laptop" else _paper_ppo(spec, PPO)


def gsde_preset(spec: TaskSpec, scale: Scale) -> Preset:
    """PPO with state-dependent exploration."""
    if scale == "paper":
        return _paper_ppo(spec, SDE)
    return _laptop_ppo(spec, {"networks.initial_std": 0.1, "networks.use_sde": True, "networks.sde_sample_freq": 4})


def sac_preset(spec: TaskSpec, scale: Scale) -> Preset:
    """SAC."""
    return _laptop_sac(spec, SacConfig()) if scale == "laptop" else _paper_sac(spec, SacConfig(), SAC)


def pink_preset(spec: TaskSpec, scale: Scale) -> Preset:
    """SAC with pink exploration noise."""
    config = changed(SacConfig(), {"networks.noise": "pink"})
    if scale == "laptop":
        return _laptop_sac(spec, config)
    length = max(_PINK_CHUNK, spec.horizon)
    return _paper_sac(spec, changed(config, {"networks.noise_length": length}), PINK)


def gtrxl_preset(spec: TaskSpec, scale: Scale) -> Preset:
    """GTrXL."""
    return _laptop_gtrxl(spec) if scale == "laptop" else _paper_gtrxl(spec)


# ---------------------------------------------------------------------- paper scale


def _paper_ppo(spec: TaskSpec, column: Column) -> Preset:
    """A column's numbers; a task of no family may have longer episodes: then fewer environments play one each."""
    numbers = of_family(column, spec)
    environments = _environments(numbers["collect.environments"], numbers["collect.steps"], spec.horizon)
    return _paper_run(spec, changed(PpoConfig(), {**_ends(numbers), "collect.environments": environments}))


def _paper_sac(spec: TaskSpec, config: SacConfig, column: Column) -> Preset:
    """A column's numbers; an iteration is as many rounds of updates as whole episodes need."""
    numbers = of_family(column, spec)
    whole = _whole_episodes(numbers["collect.environments"], _SAC_STEPS, spec.horizon)
    rounds = math.ceil(whole / numbers["learn.update_every"])
    return _paper_run(spec, changed(config, {**numbers, "collect.steps": rounds * numbers["learn.update_every"]}))


def _paper_gtrxl(spec: TaskSpec) -> Preset:
    """The column's numbers, in as many environments as share the samples evenly, whole episodes if possible."""
    numbers = of_family(GTRXL, spec)
    steps = max(numbers["collect.steps"], spec.horizon)
    environments = _environments(_GTRXL_ENVIRONMENTS, steps, spec.horizon, prefer_whole=True)
    collect = {"collect.steps": steps, "collect.environments": environments}
    return _paper_run(spec, changed(GtrxlConfig(), {**_ends(numbers), **collect}))


def _ends(numbers: dict[str, Any]) -> dict[str, Any]:
    """Without a discount the time limit is the end."""
    return {**numbers, "collect.bootstrap": numbers["learn.discount"] < 1.0}


def _paper_run(spec: TaskSpec, config: StepConfig) -> Preset:
    steps = of_family(TOTAL_STEPS, spec)
    interval = max(1, steps // config.collect.steps // _EVALUATIONS)
    return Preset(config, steps, EvaluationConfig(interval, episodes=152))  # as many as TOP-ERL's evaluations have


def _environments(most: int, steps: int, horizon: int, *, prefer_whole: bool = False) -> int:
    """The largest divisor of the steps, up to `most`, that gives each environment an episode at least."""
    fitting = [count for count in range(1, most + 1) if steps % count == 0 and steps // count >= horizon]
    whole = [count for count in fitting if prefer_whole and steps // count % horizon == 0]
    return max(whole or fitting, default=1)


def _whole_episodes(environments: int, steps: int, horizon: int) -> int:
    """About so many control steps, but whole episodes, the same number in each environment."""
    return environments * max(1, round(steps / (environments * horizon))) * horizon


# ---------------------------------------------------------------------- laptop scale

_LAPTOP_STEPS = 4000
"""Control steps of an iteration, about."""
_LAPTOP_PPO: dict[str, Any] = {
    "networks.policy_hidden": (64, 64),
    "networks.critic_hidden": (64, 64),
    "networks.initial_std": 0.5,
    "learn.policy_rate": 5e-4,
    "learn.critic_rate": 1e-3,
    "learn.critic_clip": 0.0,
}
_LAPTOP_SAC: dict[str, Any] = {
    "normalize.observations": True,  # more than anything else, this helps the reacher
    "networks.policy_hidden": (128, 128),
    "networks.critic_hidden": (128, 128),
    "learn.policy_rate": 1e-3,
    "learn.critic_rate": 1e-3,
    "learn.learning_starts": 4000,
    "learn.batch_size": 256,
    "learn.buffer_size": 300_000,
}
_LAPTOP_GTRXL: dict[str, Any] = {  # a small network with a short memory, normalised observations, larger steps
    "network.width": 32,
    "network.heads": 2,
    "network.head_width": 16,
    "network.layers": 2,
    "network.mlp_width": 32,
    "network.memory_length": 5,
    "learn.initial_std": 0.5,
    "learn.normalize_observations": True,
    "learn.epochs": 10,
    "learn.batch_size": 500,
    "learn.rate": 5e-4,
    "learn.clip": 0.2,
}
_LAPTOP_GTRXL_RETURN = 10.0
"""What returns are scaled to. Policy and critic share the network: values of 50 drown the policy's gradient, and values
of 3 teach it little; found by experiment on the via-point reacher and on Box Pushing."""
_LAPTOP_GTRXL_SIZES = {"box_pushing_dense": 1500.0, "box_pushing_sparse": 1500.0}
"""Size of Box Pushing's returns for a policy that starts with random torques, far below those of smooth movements."""


def _laptop_ppo(spec: TaskSpec, exploration: dict[str, Any] | None = None) -> Preset:
    """Small networks, as many minibatches as environments."""
    collect = _laptop_collect(spec, _laptop_environments(spec))
    learn = {
        "learn.batch_size": collect["collect.steps"] // collect["collect.environments"],
        "learn.discount": 1.0 if spec.horizon <= 250 else 0.99,  # as in the tables
    }
    return _laptop_run(spec, changed(PpoConfig(), {**_LAPTOP_PPO, **collect, **learn, **(exploration or {})}))


def _laptop_sac(spec: TaskSpec, config: SacConfig) -> Preset:
    """A gradient step per 8 control steps, several at a time, which is quicker than one by one."""
    collect = _laptop_collect(spec, environments=8)
    several = max(count for count in range(1, 9) if collect["collect.steps"] // 8 % count == 0)
    learn = {"learn.update_every": 8 * several, "learn.gradient_steps": several}
    return _laptop_run(spec, changed(config, {**_LAPTOP_SAC, **collect, **learn}))


def _laptop_gtrxl(spec: TaskSpec) -> Preset:
    """Scaled returns."""
    size = _LAPTOP_GTRXL_SIZES.get(spec.family, spec.return_size)
    scale = {"collect.reward_scale": _LAPTOP_GTRXL_RETURN / size}
    collect = _laptop_collect(spec, _laptop_environments(spec))
    return _laptop_run(spec, changed(GtrxlConfig(), {**_LAPTOP_GTRXL, **collect, **scale}))


def _laptop_environments(spec: TaskSpec) -> int:
    return 16 if spec.horizon <= 250 else 8


def _laptop_collect(spec: TaskSpec, environments: int) -> dict[str, Any]:
    """Whole episodes whose end, and the time until then, the learner knows of."""
    return {
        "collect.environments": environments,
        "collect.steps": _whole_episodes(environments, _LAPTOP_STEPS, spec.horizon),
        "collect.observe_time": True,
        "collect.bootstrap": False,
    }


def _laptop_run(spec: TaskSpec, config: StepConfig) -> Preset:
    budget = laptop_budget(spec)
    steps = budget.episodes * spec.horizon
    interval = max(1, steps // _LAPTOP_STEPS // budget.evaluations)  # about as many as other methods have
    return Preset(config, steps, EvaluationConfig(interval, budget.evaluation_episodes))
