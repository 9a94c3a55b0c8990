"""The packages that step-based methods stand on, which are an extra."""

from __future__ import annotations

import importlib.util

from top_erl.errors import missing_extra

_PINK = ("pink", "pink-noise-rl")
_SB3 = ("stable_baselines3", "stable-baselines3")


def require_sb3(method: str) -> None:
    """Say how to install what a step-based method needs, if it is not there; call this before importing a learner."""
    for module, package in (_SB3, _PINK) if method == "pink" else (_SB3,):
        if importlib.util.find_spec(module) is None:
            raise missing_extra(package, "baselines", f"The method {method!r}")
