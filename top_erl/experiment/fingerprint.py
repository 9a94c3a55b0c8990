"""What a run is made of: versions, seed, machine, task."""

from __future__ import annotations

import platform
from dataclasses import asdict
from datetime import datetime, timezone
from importlib import metadata
from typing import Any

from top_erl.algorithms.registry import find_method
from top_erl.experiment.training import Training
from top_erl.hardware.cores import available_cores

_PACKAGES = ("top-erl", "torch", "numpy", "gymnasium", "mujoco", "metaworld", "safetensors")


def fingerprint(training: Training) -> dict[str, Any]:
    """What this run is made of: versions, seed, machine, task."""
    installed = {package.name.replace("_", "-"): package.version for package in metadata.distributions()}
    wanted = (*_PACKAGES, *find_method(training.config.method).packages)
    versions = {name: installed[name] for name in wanted if name in installed}
    return {
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "seed": training.config.seed,
        "task": training.spec.id,
        "task_version": training.spec.version,
        "success_rule": training.spec.success_rule,
        "horizon": training.spec.horizon,
        "python": platform.python_version(),
        "packages": versions,
        "machine": {"system": platform.platform(), "processor": platform.machine(), "cores": available_cores()},
        "hardware": asdict(training.hardware),
        "bf16_route": training.learner.bf16_route,
    }
