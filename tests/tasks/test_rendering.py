"""Pictures with and without a screen."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.rollout.toy_tasks import PointEnv, PointTask
from top_erl.errors import RunStopped, UserError
from top_erl.tasks import opengl
from top_erl.tasks.rendering import SceneRenderer, mujoco

SCENE = """
<mujoco>
  <worldbody>
    <light pos="0 0 3"/>
    <camera name="above" pos="0 0 2"/>
    <geom type="plane" size="2 2 1" rgba="0.2 0.2 0.8 1"/>
    <body pos="0 0 0.2"><freejoint/><geom size="0.2" rgba="1 0.1 0.1 1"/></body>
  </worldbody>
</mujoco>
"""
SCRIPT = f"""
from top_erl.tasks.rendering import SceneRenderer, mujoco
model = mujoco.MjModel.from_xml_string('''{SCENE}''')
data = mujoco.MjData(model)
mujoco.mj_forward(model, data)
renderer = SceneRenderer(model, "above")
print(renderer.render(data).shape)
other = SceneRenderer(model, width=64, height=32)
other.render(data)
"""
NO_LIBRARIES = """
import ctypes
load = ctypes.CDLL.__init__
def refuse(self, name, *args, **kwargs):
    if name and ("EGL" in str(name) or "OSMesa" in str(name)):
        raise OSError(name)
    load(self, name, *args, **kwargs)
ctypes.CDLL.__init__ = refuse
"""


def run(code: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh process without a screen, warnings being errors."""
    kept = {key: value for key, value in os.environ.items() if key not in ("DISPLAY", "WAYLAND_DISPLAY", "MUJOCO_GL")}
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, env=kept | environment, cwd=cwd)


def middle_of_red(picture: NDArray[np.uint8]) -> tuple[float, float]:
    """Mean row and column of the ball."""
    rows, columns = np.nonzero((picture[..., 0] > 100) & (picture[..., 2] < 100))
    return float(rows.mean()), float(columns.mean())


def test_a_picture_shows_the_data() -> None:
    model = mujoco.MjModel.from_xml_string(SCENE)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    renderer = SceneRenderer(model, "above", width=200, height=100)
    picture = renderer.render(data)
    assert picture.shape == (100, 200, 3)
    assert picture.dtype == np.uint8
    row, column = middle_of_red(picture)
    assert row == pytest.approx(49.5, abs=1.5)
    assert column == pytest.approx(99.5, abs=1.5)
    data.qpos[1] = 0.3  # up in the picture
    mujoco.mj_forward(model, data)
    assert middle_of_red(renderer.render(data))[0] < row - 5
    renderer.close()
    renderer.close()
    assert renderer.render(data).shape == (100, 200, 3)
    renderer.close()


def test_pictures_larger_than_the_models_buffer_and_several_at_once() -> None:
    model = mujoco.MjModel.from_xml_string(SCENE)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    camera = mujoco.MjvCamera()
    camera.distance = 3.0
    renderers = [SceneRenderer(model, 0), SceneRenderer(model, width=800, height=600), SceneRenderer(model, camera)]
    shapes = [renderer.render(data).shape for _ in range(2) for renderer in renderers]
    assert shapes == [(480, 640, 3), (600, 800, 3), (480, 640, 3)] * 2
    first = renderers[0].render(data)
    renderers[1].close()
    assert (renderers[0].render(data) == first).all()
    del renderers


@pytest.mark.parametrize("environment", [{}, {"DISPLAY": ":77"}, {"MUJOCO_GL": "egl"}])
def test_without_a_screen_and_without_a_word_at_exit(environment: dict[str, str]) -> None:
    result = run(SCRIPT, **environment)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.strip() == "(480, 640, 3)"


OWN_TASK = """
import mujoco
import numpy as np
from tests.rollout.toy_tasks import PointEnv, PointTask

class Drawn(PointEnv):
    render_mode = "rgb_array"

    def render(self):
        model = mujoco.MjModel.from_xml_string("<mujoco><worldbody><geom size='1'/></worldbody></mujoco>")
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        with mujoco.Renderer(model) as renderer:
            renderer.update_scene(data)
            return renderer.render()

class OwnTask(PointTask):
    def make_env(self):
        return Drawn()
"""
PREVIEW = """
import sys
from top_erl.cli import main
sys.exit(main(["tasks", "own_task:OwnTask", "--preview", "own.png"]))
"""


def test_a_task_of_your_own_finds_opengl_too(tmp_path: Path) -> None:
    """MuJoCo's own renderer is told at the import of the task which platform to use."""
    (tmp_path / "own_task.py").write_text(OWN_TASK)
    result = run(PREVIEW, cwd=tmp_path, PYTHONPATH=str(Path(__file__).parents[2]))
    assert (result.returncode, result.stderr) == (0, "")
    assert (tmp_path / "own.png").stat().st_size > 1000


def test_an_environment_that_cannot_draw_gets_one_sentence() -> None:
    class Blind(PointEnv):
        render_mode = "rgb_array"

        def render(self) -> None:
            raise mujoco.FatalError("no OpenGL context.")

    class BlindTask(PointTask):
        def make_env(self) -> PointEnv:
            return Blind()

    sentence = r"^toy/Point cannot be filmed: its environment raised FatalError \(no OpenGL context\)\. .*libegl1"
    with pytest.raises(RunStopped, match=sentence):
        BlindTask().frames(0, np.zeros((8, 2)))


@pytest.mark.parametrize("environment", [{}, {"DISPLAY": ":77"}])
def test_a_machine_without_opengl_gets_one_sentence(environment: dict[str, str]) -> None:
    result = run(NO_LIBRARIES + SCRIPT, **environment)
    assert result.returncode == 1
    last = result.stderr.strip().splitlines()[-1]
    assert "UserError: This machine has no OpenGL for pictures" in last
    assert "apt install libegl1" in last
    assert "libosmesa6" in last


@pytest.mark.parametrize("device", ["99", "none"])
def test_a_device_that_is_not_there_gets_one_sentence(device: str) -> None:
    result = run(SCRIPT, MUJOCO_GL="egl", MUJOCO_EGL_DEVICE_ID=device)
    assert result.returncode == 1
    assert "UserError: This machine has no OpenGL for pictures" in result.stderr.strip().splitlines()[-1]


def test_a_setting_that_cannot_work_is_named() -> None:
    result = run("import top_erl.tasks.box_pushing.env", MUJOCO_GL="hologram")
    assert "UserError: MuJoCo cannot be imported with MUJOCO_GL=hologram" in result.stderr.strip().splitlines()[-1]
    result = run(NO_LIBRARIES + "import top_erl.tasks.rendering", MUJOCO_GL="osmesa")
    assert "libosmesa6 for osmesa" in result.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("environment", "system", "expected"),
    [
        ({}, "Linux", ["egl", "osmesa"]),
        ({"DISPLAY": ":0"}, "Linux", ["glfw", "egl", "osmesa"]),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "Linux", ["glfw", "egl", "osmesa"]),
        ({"MUJOCO_GL": " OSMesa "}, "Linux", ["osmesa"]),
        ({"MUJOCO_GL": "on"}, "Linux", ["egl", "osmesa"]),
        ({}, "Darwin", ["cgl"]),
        ({}, "Windows", ["glfw"]),
    ],
)
def test_order_of_platforms(
    environment: dict[str, str], system: str, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "MUJOCO_GL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(opengl.platform, "system", lambda: system)
    assert opengl.candidates() == expected


@pytest.mark.parametrize(("wish", "advice"), [("off", "forbids pictures"), ("hologram", "set it to egl")])
def test_wishes_that_give_no_picture(wish: str, advice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUJOCO_GL", wish)
    with pytest.raises(UserError, match=advice):
        opengl.candidates()
