"""The learning methods: a list. A new one of this library is its folder and a line here."""

from __future__ import annotations

from top_erl.algorithms.bbrl import BBRL_COV, BBRL_STD
from top_erl.algorithms.method import Method
from top_erl.algorithms.sb3 import GSDE, GTRXL, PINK, PPO, SAC
from top_erl.algorithms.t_sac import T_SAC
from top_erl.algorithms.tce import TCE
from top_erl.algorithms.top_erl import TOP_ERL
from top_erl.errors import UserError, unknown_name

METHODS: list[Method] = [TOP_ERL, TCE, BBRL_COV, BBRL_STD, PPO, GSDE, GTRXL, SAC, PINK, T_SAC]
"""All methods, in the order in which they are listed."""


def find_method(name: str) -> Method:
    """Find a method by name."""
    for method in METHODS:
        if method.name == name:
            return method
    raise unknown_name("method", name, [method.name for method in METHODS])


def register_method(method: Method) -> None:
    """Add a method of your own, in this process; `--method` and `Agent(task, method=...)` know its name then."""
    if any(known.name == method.name for known in METHODS):
        raise UserError(f"There is a method {method.name!r} already; give yours another name.")
    METHODS.append(method)
