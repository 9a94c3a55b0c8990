"""Which OpenGL platform draws MuJoCo's pictures. Imports no simulator: it is asked before one is imported."""

from __future__ import annotations

import ctypes
import os
import platform

from top_erl.errors import UserError

_OFF = ("disable", "disabled", "off", "false", "0")
_NO_CHOICE = ("", "enable", "enabled", "on", "true", "1")
MODULES = {
    "egl": "mujoco.egl",
    "osmesa": "mujoco.osmesa",
    "glfw": "mujoco.glfw",
    "glx": "mujoco.glfw",
    "wgl": "mujoco.glfw",
    "cgl": "mujoco.cgl",
}
"""Where MuJoCo keeps the OpenGL context of each platform."""
_EGL_PLATFORM_DEVICE = 0x313F
_OSMESA_LIBRARIES = ("libOSMesa.so.8", "libOSMesa.so.6", "libOSMesa.so")


def choose_for_environments() -> None:
    """Set `MUJOCO_GL` for environments that open OpenGL by themselves, where they would not find it.

    On Linux without a screen they try GLFW and fail. Whoever wants pictures calls this before the environment's module
    is imported, since MuJoCo looks at the variable at its import. What the user has set stays.
    """
    if "MUJOCO_GL" in os.environ or candidates() != ["egl", "osmesa"]:
        return
    if egl_works():
        os.environ["MUJOCO_GL"] = "egl"
    elif _osmesa_works():
        os.environ["MUJOCO_GL"] = "osmesa"


def candidates() -> list[str]:
    """Platforms to try, best first; `MUJOCO_GL` leaves no choice."""
    wish = os.environ.get("MUJOCO_GL", "").lower().strip()
    if wish in _OFF:
        raise UserError(f"MUJOCO_GL={wish} forbids pictures: unset it, or set it to egl, osmesa or glfw.")
    if wish not in _NO_CHOICE:
        if wish not in MODULES:
            raise UserError(f"MUJOCO_GL is {wish!r}: unset it, or set it to egl, osmesa or glfw.")
        return [wish]
    system = platform.system()
    if system != "Linux":
        return ["cgl" if system == "Darwin" else "glfw"]
    screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return ["glfw", "egl", "osmesa"] if screen else ["egl", "osmesa"]


def egl_works() -> bool:
    """Whether EGL finds a device to draw on.

    Asked before MuJoCo tries it: once EGL is loaded for all to see, MuJoCo cannot use OSMesa any more.
    """
    pointer, number = ctypes.c_void_p, ctypes.c_int
    try:
        egl = ctypes.CDLL("libEGL.so.1", mode=os.RTLD_LOCAL)
    except OSError:
        return False
    egl.eglGetProcAddress.argtypes, egl.eglGetProcAddress.restype = [ctypes.c_char_p], pointer
    egl.eglInitialize.argtypes = [pointer, pointer, pointer]
    query = egl.eglGetProcAddress(b"eglQueryDevicesEXT")
    find_display = egl.eglGetProcAddress(b"eglGetPlatformDisplayEXT")
    if not query or not find_display:
        return False
    devices, count = (pointer * 32)(), number()
    ctypes.CFUNCTYPE(number, number, pointer, pointer)(query)(32, devices, ctypes.addressof(count))
    display_of = ctypes.CFUNCTYPE(pointer, number, pointer, pointer)(find_display)
    displays = [display_of(_EGL_PLATFORM_DEVICE, device, None) for device in devices[: count.value]]
    chosen = os.environ.get("MUJOCO_EGL_DEVICE_ID")
    if chosen is not None:
        displays = displays[int(chosen) :][:1] if chosen.isdigit() else []
    return any(display and egl.eglInitialize(display, None, None) for display in displays)


def _osmesa_works() -> bool:
    """Whether the library for drawing without any device is there."""
    for name in _OSMESA_LIBRARIES:
        try:
            ctypes.CDLL(name, mode=os.RTLD_LOCAL)
        except OSError:
            continue
        return True
    return False
