"""The paper's experiments by name.

Which tasks and settings: Fig. 4 (all methods), Fig. 5 and Table 1 (targets and components, Box Pushing with both
rewards), Fig. 6 (segment lengths, dense reward). Eight seeds each.
"""

from __future__ import annotations

from collections.abc import Mapping

from top_erl.errors import unknown_name
from top_erl.sweep.definition import Options, Sweep
from top_erl.tasks.metaworld.facts import TASKS as METAWORLD_TASKS
from top_erl.tasks.metaworld.facts import task_id

METHODS = ("top_erl", "tce", "bbrl_cov", "ppo", "gsde", "gtrxl", "sac", "pink")
"""The methods of Fig. 4."""
_BOX_DENSE, _BOX_SPARSE = "top_erl/BoxPushingDense-v0", "top_erl/BoxPushingSparse-v0"
_PUBLISHED: Options = {"plan.every": "0", "segments.kind": "random", "learn.hindsight": "0"}
"""What ablations are ablations of, also where a laptop preset does something else."""
_TARGETS: Mapping[str, Options] = {name: {"learn.target": name} for name in ("v", "q", "clipped", "ensemble")}
_COMPONENTS: Mapping[str, Options] = {
    "full": {},
    "no-trust-region": {"trust-region.projection": "none", "trust-region.entropy": "none"},
    "no-initial-condition": {"learn.critic-condition": "episode"},
    "no-layer-norm": {"critic.layer-norm": "false"},
    "fixed-segments": {"segments.kind": "fixed_count", "segments.count": "25"},
    "dropout": {"critic.dropout": "0.05"},
}
_SEGMENTS: Mapping[str, Options] = {
    "random": {},
    **{
        f"{percent}%": {"segments.kind": "fixed_length", "segments.fraction": str(percent / 100)}
        for percent in (100, 50, 20, 10, 5)
    },
}


def _compared(name: str, *tasks: str) -> Sweep:
    return Sweep(name, tasks, {method: {} for method in METHODS})


def _ablation(name: str, variants: Mapping[str, Options], *tasks: str) -> Sweep:
    return Sweep(name, tasks, variants={variant: {**_PUBLISHED, **options} for variant, options in variants.items()})


NAMED = {
    sweep.name: sweep
    for sweep in (
        _compared("metaworld50", *map(task_id, METAWORLD_TASKS)),
        _compared("hopper-jump", "top_erl/HopperJumpSparse-v0"),
        _compared("box-dense", _BOX_DENSE),
        _compared("box-sparse", _BOX_SPARSE),
        _ablation("ablation-targets", _TARGETS, _BOX_DENSE, _BOX_SPARSE),
        _ablation("ablation-components", _COMPONENTS, _BOX_DENSE, _BOX_SPARSE),
        _ablation("ablation-segments", _SEGMENTS, _BOX_DENSE),
    )
}
"""Sweeps that `top-erl sweep NAME` knows."""


def named_sweep(name: str) -> Sweep:
    """One of the paper's experiments."""
    if name not in NAMED:
        raise unknown_name("sweep", name, NAMED)
    return NAMED[name]
