"""Run folders made up for tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

FINGERPRINT: dict[str, Any] = {
    "task_version": "1",
    "success_rule": "at the goal",
    "horizon": 100,
    "packages": {"top-erl": "0.1.0", "torch": "2.13.0", "numpy": "2.4.6", "safetensors": "0.8.0"},
}


def write_run(
    folder: Path,
    scores: Sequence[float],
    *,
    method: str = "top_erl",
    task: str = "a/b",
    seed: int = 0,
    column: str = "evaluation_success",
    steps: int = 1000,
    fresh: Sequence[float] | None = None,
    config: dict[str, Any] | None = None,
    fingerprint: dict[str, Any] | None = None,
    status: str | None = None,
) -> Path:
    """A run of `steps` environment steps, ten episodes and half a minute an iteration, evaluated in every one."""
    folder.mkdir(parents=True)
    whole = {"method": method, "task": task, "seed": seed, "total_env_steps": steps * len(scores), **(config or {})}
    if method not in ("ppo", "sac", "pink", "t_sac"):
        whole["primitive"] = {"kind": "prodmp"}
    (folder / "config.yaml").write_text(yaml.safe_dump(whole))
    (folder / "fingerprint.json").write_text(json.dumps({**FINGERPRINT, **(fingerprint or {})}))
    lines = [f"iteration,episodes,env_steps,wall_time,{column},critic_loss"]
    lines += [f"{i},{10 * i},{steps * i},{30 * i},{score!r}," for i, score in enumerate(scores, start=1)]
    (folder / "metrics.csv").write_text("\r\n".join(lines) + "\r\n")
    if fresh is not None:
        name = column.removeprefix("evaluation_")
        (folder / "evaluation.json").write_text(json.dumps({name: list(fresh), "failed_episodes": 0}))
    if status is not None:
        (folder / "status.json").write_text(json.dumps({"state": status}))
    return folder
