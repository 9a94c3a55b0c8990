"""Presets of T-SAC.

`paper` has the numbers of T-SAC's published configurations (github.com/DongTian95/T-SAC-Official, folder mprl/config,
the files shared.yaml of transformer_sac_multiprocessing; MIT). Control steps per iteration, calls and starts give the
published numbers of critic and policy steps per control step. Trajectories are whole episodes here; on Meta-World and
Gymnasium the published ones are pieces of 125 and 20 steps, and the capacity is what holds as many steps, or all of the
run (`docs/deviations.md`). Tasks of no family, and Hopper Jump, have the numbers of the Gymnasium tasks. `laptop` is
for two CPU cores.
"""

from __future__ import annotations

import math
from typing import Any

from top_erl.algorithms.budget import laptop_budget
from top_erl.algorithms.method import Preset
from top_erl.algorithms.t_sac.config import TSacConfig
from top_erl.config.changes import changed
from top_erl.config.run import EvaluationConfig, Scale
from top_erl.tasks import TaskSpec

_EVALUATIONS = 100
"""Evaluations of a run at paper scale."""
_PAPER: dict[str, Any] = {"learn.critic_decay": 1e-5, "learn.policy_decay": 1e-5, "learn.longest": 16}
_BOX: dict[str, Any] = {
    **_PAPER,
    "collect.bootstrap": False,
    "replay.capacity": 20_000,
    "critic.width": 256,
    "critic.action_time": True,
    "learn.batch_size": 256,
    "learn.policy_rate": 2.5e-4,
    "learn.entropy": "fixed",
    "learn.entropy_coefficient": 0.0,
}
_FAMILIES: dict[str, dict[str, Any]] = {
    "box_pushing_dense": {
        **_BOX,
        "policy.hidden": (512, 512, 512, 512),
        "policy.layer_norm": False,
        "learn.critic_rate": 3e-5,
        "learn.discount": 0.98,
        "learn.combine": "random",
        "learn.policy_start": 5000,
    },
    "box_pushing_sparse": {
        **_BOX,
        "collect.observe_time": True,
        "policy.activation": "leaky_relu",
        "learn.critic_rate": 3e-4,
        "learn.discount": 1.0,
        "learn.combine": "min",
        "learn.target_rate": 1.0,
        "learn.max_gradient": 1.0,
        "learn.policy_start": 3000,
    },
    "metaworld": {
        **_PAPER,
        "replay.capacity": 1250,  # 5000 pieces of 125 steps
        "policy.hidden": (128, 128),
        "policy.std_hidden": (128, 128),
        "policy.activation": "leaky_relu",
        "learn.batch_size": 512,
        "learn.critic_rate": 2.5e-5,
        "learn.policy_rate": 2.5e-4,
        "learn.critic_betas": (0.85, 0.95),
        "learn.combine": "mean",
        "learn.policy_start": 200,
    },
}
_OTHERS: dict[str, Any] = {
    **_PAPER,
    "critic.width": 256,
    "learn.batch_size": 256,
    "learn.critic_rate": 3e-4,
    "learn.policy_rate": 3e-4,
    "learn.critic_betas": (0.5, 0.95),
    "learn.combine": "min",
    "learn.target_rate": 1.0,
    "learn.max_gradient": 1.0,
}
_GYMNASIUM = {"steps": 80, "critic": 60, "policy": 12, "policy_start": 250 * 80, "total": 2_000_000}
"""Per iteration of the published Gymnasium runs: control, critic and policy steps; the warm-up in control steps."""
_TOTAL = {"box_pushing_dense": 20_000_000, "box_pushing_sparse": 20_000_000, "metaworld": 5_000_000}
_EPISODES = {"box_pushing_dense": 4, "box_pushing_sparse": 4, "metaworld": 1}
"""Episodes of an iteration: 400 control steps, or 500 on Meta-World."""
_CALLS = {"metaworld": 5}
"""Updates of an iteration, of 100 critic and 20 policy steps each; elsewhere one."""


def t_sac_preset(spec: TaskSpec, scale: Scale) -> Preset:
    """T-SAC."""
    if scale == "laptop":
        return _laptop(spec)
    return _published(spec) if spec.family in _FAMILIES else _gymnasium(spec)


def _published(spec: TaskSpec) -> Preset:
    """A family's numbers."""
    episodes, total = _EPISODES[spec.family], _TOTAL[spec.family]
    changes = {
        "collect.environments": episodes,
        "collect.steps": episodes * spec.horizon,
        "learn.calls": _CALLS.get(spec.family, 1),
    }
    return _paper_run(changed(TSacConfig(), {**_FAMILIES[spec.family], **changes}), total)


def _gymnasium(spec: TaskSpec) -> Preset:
    """The Gymnasium numbers for episodes of any length: as many gradient steps per control step."""
    numbers, horizon = _GYMNASIUM, spec.horizon
    steps = horizon * max(1, round(numbers["steps"] / horizon))
    critic, policy = (math.ceil(numbers[name] * steps / numbers["steps"]) for name in ("critic", "policy"))
    calls = math.ceil(critic / min(100, horizon))
    total = max(numbers["total"], steps)
    changes = {
        "collect.environments": steps // horizon,
        "collect.steps": steps,
        "replay.capacity": math.ceil(total / horizon),
        "learn.calls": calls,
        "learn.critic_starts": math.ceil(critic / calls),
        "learn.policy_starts": math.ceil(policy / calls),
        "learn.policy_start": math.ceil(numbers["policy_start"] / steps),
    }
    return _paper_run(changed(TSacConfig(), {**_OTHERS, **changes}), total)


def _paper_run(config: TSacConfig, total: int) -> Preset:
    interval = max(1, total // config.collect.steps // _EVALUATIONS)
    return Preset(config, total, EvaluationConfig(interval, episodes=152))  # as many as TOP-ERL's evaluations have


# ---------------------------------------------------------------------- laptop scale

_LAPTOP: dict[str, Any] = {
    "collect.observe_time": True,
    "collect.bootstrap": False,
    "policy.hidden": (128, 128),
    "policy.std_hidden": (128, 128),
    "critic.width": 64,
    "critic.layers": 1,
    # With the published kind of critic, and batches of 64, the return on the via-point arm stayed below -9.7.
    "critic.layer_norm": False,
    "critic.bias": True,
    "critic.initial": "fan_in",
    "learn.batch_size": 128,
    "learn.longest": 4,  # the policy asks for the value of one action
    "learn.starts": "own",  # with a common one the critic's loss stayed twice as large
    "learn.critic_rate": 1e-3,
    "learn.policy_rate": 1e-3,
    "learn.entropy_coefficient": 0.2,  # with the published 0.007 the return fell from the first updates on
    "learn.combine": "min",
    "learn.target_rate": 0.02,
    "learn.final_rate": 0.1,  # the return swung between -7.1 and -9.5 until they had fallen to half
    "learn.standardize": True,
    "learn.policy_start": 5,
    "learn.entropy_start": 0,
}
_LAPTOP_RETURN = 10.0
"""What returns are scaled to."""


def _laptop(spec: TaskSpec) -> Preset:
    """Small networks; the episodes of an iteration are those of TOP-ERL's."""
    budget = laptop_budget(spec)
    episodes = max(1, budget.episodes // (500 if spec.family == "metaworld" else 1000))
    steps = episodes * spec.horizon
    starts = min(50, spec.horizon)
    changes = {
        "collect.environments": episodes,
        "collect.steps": steps,
        "collect.reward_scale": _LAPTOP_RETURN / spec.return_size,
        "replay.capacity": min(budget.episodes, max(1, 1_000_000 // spec.horizon)),
        "learn.calls": max(1, round(steps / 8 / starts)),  # a critic step per 8 control steps, as SAC
        "learn.critic_starts": starts,
        "learn.policy_starts": starts,
    }
    evaluation = EvaluationConfig(max(1, budget.episodes // episodes // budget.evaluations), budget.evaluation_episodes)
    return Preset(changed(TSacConfig(), {**_LAPTOP, **changes}), budget.episodes * spec.horizon, evaluation)
