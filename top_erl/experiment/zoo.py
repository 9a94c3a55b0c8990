"""Trained agents that come with the package: `zoo/NAME` wherever a run's folder is read.

Each is a saved agent of policy and primitive alone (`Agent.save(policy_only=True)`) in `top_erl/zoo/`.
"""

from __future__ import annotations

from pathlib import Path

from top_erl.errors import unknown_name

ZOO = Path(__file__).resolve().parents[1] / "zoo"


def zoo_names() -> list[str]:
    """Names of the agents."""
    return sorted(path.parent.name for path in ZOO.glob("*/config.yaml"))


def in_zoo(path: Path) -> Path:
    """The folder of an agent of the zoo for `zoo/NAME`, unless there is such a folder here; other paths as they are."""
    if path.is_absolute() or len(path.parts) != 2 or path.parts[0] != "zoo" or path.exists():
        return path
    if path.name not in zoo_names():
        raise unknown_name("agent of the zoo", path.name, zoo_names())
    return ZOO / path.name
