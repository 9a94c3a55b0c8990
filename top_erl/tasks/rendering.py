"""Pictures of MuJoCo simulations, with or without a screen.

MuJoCo decides at its import which OpenGL platform `mujoco.Renderer` uses, and without a screen it decides wrongly.
`SceneRenderer` chooses when the first picture is drawn instead, so an environment can be made, and trained on, long
before anybody wants to see it. Import `mujoco` from here to get one clear sentence for a bad `MUJOCO_GL`:

- `MUJOCO_GL` decides if it is set (`egl`, `osmesa`, `glfw`; `off` forbids pictures).
- Linux without a screen: EGL, then OSMesa. Linux with a screen: GLFW first.
- Windows: GLFW. macOS: its own CGL.

Axes: `H` rows and `W` columns of a picture.
"""

from __future__ import annotations

import atexit
import importlib
import os
import warnings
import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray

from top_erl.errors import UserError
from top_erl.tasks.opengl import MODULES, candidates, egl_works

try:
    import mujoco  # type: ignore[import-untyped]
except (ImportError, AttributeError, RuntimeError) as error:
    if "MUJOCO_GL" not in os.environ:
        raise
    raise UserError(
        f"MuJoCo cannot be imported with MUJOCO_GL={os.environ['MUJOCO_GL']} ({error}): unset it, or install what it "
        "asks for (Debian, Ubuntu: apt install libegl1 for egl, libosmesa6 for osmesa)."
    ) from error

__all__ = ["HEIGHT", "WIDTH", "SceneRenderer", "mujoco"]

WIDTH, HEIGHT = 640, 480
"""Size of a picture unless somebody asks for another."""
_MAX_GEOMS = 2000
_living: weakref.WeakSet[SceneRenderer] = weakref.WeakSet()
_chosen: str | None = None


class SceneRenderer:
    """Draws a MuJoCo model from one of its cameras; one OpenGL context each, made with the first picture."""

    def __init__(self, model: Any, camera: str | int | Any = -1, width: int = WIDTH, height: int = HEIGHT) -> None:
        """Say what to draw; nothing is opened yet.

        Args:
            model: The `MjModel`.
            camera: Name or number of one of its cameras, -1 for the free one, or an `MjvCamera` of your own.
            width: W, columns of a picture.
            height: H, rows of a picture.
        """
        self._model = model
        self._width, self._height = width, height
        self._camera = _find_camera(model, camera)
        self._options = mujoco.MjvOption()
        self._scene: Any = None
        self._window: Any = None
        self._context: Any = None

    def render(self, data: Any) -> NDArray[np.uint8]:
        """Draw the poses that an `MjData` holds, [H, W, 3]. The data is only read."""
        if self._context is None:
            self._open()
        self._window.make_current()
        everything = mujoco.mjtCatBit.mjCAT_ALL.value
        mujoco.mjv_updateScene(self._model, data, self._options, None, self._camera, everything, self._scene)
        frame = mujoco.MjrRect(0, 0, self._width, self._height)
        mujoco.mjr_render(frame, self._scene, self._context)
        picture = np.empty((self._height, self._width, 3), dtype=np.uint8)
        mujoco.mjr_readPixels(picture, None, frame, self._context)
        return np.ascontiguousarray(picture[::-1])  # OpenGL counts rows from below

    def close(self) -> None:
        """Give the OpenGL context back. A later picture opens a new one."""
        context, self._context = self._context, None
        window, self._window = self._window, None
        self._scene = None
        _living.discard(self)
        if window is not None:
            window.make_current()  # what the context holds can only be freed while it is the current one
            context.free()
            window.free()

    def _open(self) -> None:
        """Make the OpenGL context and the picture memory."""
        sizes = self._model.vis.global_
        sizes.offwidth = max(sizes.offwidth, self._width)
        sizes.offheight = max(sizes.offheight, self._height)
        self._scene = mujoco.MjvScene(self._model, _MAX_GEOMS)
        self._window, self._context = _open_context(self._model, self._width, self._height)
        if not _living:
            # After the platform's own exit handler in time, so before it at exit: contexts go before their platform.
            atexit.unregister(_close_all)
            atexit.register(_close_all)
        _living.add(self)

    def __del__(self) -> None:
        """Close, if anything is open."""
        if self.__dict__.get("_window") is not None:
            self.close()


def _find_camera(model: Any, camera: str | int | Any) -> Any:
    """Make the `MjvCamera` for a camera's name or number."""
    if isinstance(camera, mujoco.MjvCamera):
        return camera
    number = model.camera(camera).id if isinstance(camera, str) else int(camera)
    found = mujoco.MjvCamera()
    if number < 0:
        mujoco.mjv_defaultFreeCamera(model, found)
    else:
        found.type, found.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, number
    return found


def _open_context(model: Any, width: int, height: int) -> tuple[Any, Any]:
    """Open an OpenGL context on the first platform that gives one; the platform's and MuJoCo's side of it."""
    global _chosen
    failures = []
    for name in [_chosen] if _chosen else candidates():
        window = _open_window(name, width, height)
        if isinstance(window, str):
            failures.append(f"{name} ({window})")
            continue
        _chosen = name
        context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_150.value)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, context)
        return window, context
    raise UserError(
        "This machine has no OpenGL for pictures: install a library for drawing without a screen "
        f"(Debian, Ubuntu: apt install libegl1, or libosmesa6). Tried {', '.join(failures)}."
    )


def _open_window(name: str, width: int, height: int) -> Any:
    """Open one platform's current OpenGL context, or say in words why there is none."""
    if name == "egl" and not egl_works():
        return "no library, or no device that it could use"
    try:
        module = importlib.import_module(MODULES[name])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # GLFW only warns when it fails
            window = module.GLContext(width, height)
            window.make_current()
            if MODULES[name] == "mujoco.glfw" and not module.glfw.get_current_context():
                return "no screen"
    except AttributeError:  # PyOpenGL's way to say that it finds no library
        return "no library"
    except (ImportError, OSError, RuntimeError) as error:
        return str(error).rstrip(".")
    return window


def _close_all() -> None:
    """Close what is still open when Python ends."""
    for renderer in list(_living):
        renderer.close()
