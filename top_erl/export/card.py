"""The card of an exported policy: what it is, in plain words and numbers."""

from __future__ import annotations

import hashlib
from importlib import metadata
from typing import Any

import top_erl
from top_erl.agent import Agent
from top_erl.config.run import EpisodicRun
from top_erl.config.serialize import to_dict
from top_erl.limits import Limits
from top_erl.runtime.backends import INDEX, INPUTS, ORIGIN, OUTPUTS
from top_erl.runtime.policy import FORMAT, PLANS_FORMAT

_INPUTS = {
    INPUTS[0]: "raw first observation of the task, [batch, observation_dim], float32",
    INPUTS[1]: "measured position, [batch, num_dof], float32",
    INPUTS[2]: "measured velocity, per second, [batch, num_dof], float32",
}
_PLANS_INPUTS = {
    INPUTS[0]: "raw observation of the task now, [batch, observation_dim], float32",
    INPUTS[1]: "position of the reference now, at the start the measured one, [batch, num_dof], float32",
    INPUTS[2]: "velocity of the reference now, at the start the measured one, per second, likewise",
    ORIGIN: "measured position at the episode's start, likewise",
    INDEX: "which plan of the episode it is, from 0: control steps made / plan_every, [batch], int64",
}


def policy_card(agent: Agent, model: bytes, limits: Limits | None, plan_every: int = 0) -> dict[str, Any]:
    """Describe the graph `model` of an agent's policy, which may plan anew every so many control steps."""
    spec, config, progress = agent.training.spec, agent.config, agent.training.progress
    assert isinstance(config, EpisodicRun)
    from_now = " from now, standing still after the episode's end" if plan_every else ""
    return {
        "format": PLANS_FORMAT if plan_every else FORMAT,
        "sha256": hashlib.sha256(model).hexdigest(),
        "task": spec.id,
        "task_version": spec.version,
        "success_rule": spec.success_rule,
        "method": config.method,
        "seed": config.seed,
        "training_steps": progress.env_steps,
        "checkpoint_iteration": progress.iteration,
        "observation_dim": spec.observation_dim,
        "num_dof": spec.num_dof,
        "dof_names": list(spec.dof_names) or [f"dof{number}" for number in range(spec.num_dof)],
        "dof_units": list(spec.dof_units) or None,
        "dt": spec.dt,
        "horizon": spec.horizon,
        "duration": spec.duration,
        **({"plan_every": plan_every} if plan_every else {}),
        "limits": None if limits is None else limits.to_dict(),
        "primitive": to_dict(config.primitive),
        "inputs": _PLANS_INPUTS if plan_every else _INPUTS,
        "outputs": {
            OUTPUTS[0]: f"positions at dt, 2 dt, …, horizon dt{from_now}, [batch, horizon, num_dof], float32",
            OUTPUTS[1]: "velocities at the same times, per second, likewise",
        },
        "versions": {
            "top-erl": top_erl.__version__,
            **{name: metadata.version(name) for name in ("torch", "numpy", "onnx")},
        },
    }
