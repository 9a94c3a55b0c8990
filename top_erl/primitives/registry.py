"""The kinds of movement primitives by name, open to others."""

from __future__ import annotations

from collections.abc import Callable

from top_erl.config.primitive import PrimitiveConfig
from top_erl.errors import UserError, unknown_name
from top_erl.primitives.bspline import BSpline
from top_erl.primitives.dmp import Dmp
from top_erl.primitives.interface import Primitive
from top_erl.primitives.prodmp import ProDmp
from top_erl.primitives.promp import ProMp

PrimitiveFactory = Callable[[PrimitiveConfig, int, float], Primitive]
"""Makes a primitive from settings, degrees of freedom and control step; a subclass of `Primitive` is one."""

_FACTORIES: dict[str, PrimitiveFactory] = {"prodmp": ProDmp, "promp": ProMp, "dmp": Dmp, "bspline": BSpline}


def register_primitive(name: str, factory: PrimitiveFactory) -> None:
    """Make a primitive of your own known as `--primitive.kind NAME`."""
    if _FACTORIES.get(name, factory) is not factory:
        raise UserError(f"There is a primitive {name!r} already; register yours under another name.")
    _FACTORIES[name] = factory


def make_primitive(config: PrimitiveConfig, num_dof: int, dt: float) -> Primitive:
    """Make the primitive that `config.kind` names, for `num_dof` degrees of freedom and control steps of `dt` s."""
    if config.kind not in _FACTORIES:
        raise unknown_name("primitive.kind", config.kind, _FACTORIES)
    return _FACTORIES[config.kind](config, num_dof, dt)
