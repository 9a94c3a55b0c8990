"""Compiles the scene: once to simulate, once to draw."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import Any

from top_erl.tasks.rendering import mujoco


@lru_cache(maxsize=2)
def simulation_model(native_ccd: bool) -> Any:
    """Compile the `MjModel` that is simulated, without what is only seen. Environments share it; nobody changes it.

    Args:
        native_ccd: Whether the rod meets the box by MuJoCo 3's own convex collision routine. Off, it is the older
            routine of MuJoCo 2, which the paper's results were made with.
    """
    spec = _scene()
    spec.compiler.discardvisual = True
    model = spec.compile()
    if not native_ccd:
        model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_NATIVECCD.value
    return model


@lru_cache(maxsize=1)
def drawing_model() -> Any:
    """Compile the `MjModel` that is drawn; its joints are those of the simulated one."""
    return _scene().compile()


def _scene() -> Any:
    """Read the scene, an `MjSpec`."""
    return mujoco.MjSpec.from_string(files(__package__).joinpath("scene.xml").read_text(encoding="utf-8"))
