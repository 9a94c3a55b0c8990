"""Films of trained policies and pictures of tasks, read back from their files."""

from __future__ import annotations

import io
import itertools
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import imageio_ffmpeg
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from rich.console import Console

from tests.rollout.toy_tasks import ToyTask
from top_erl import TopErl
from top_erl.cli import main
from top_erl.cli.pictures import captioned, scaled, side_by_side
from top_erl.cli.video import Countdown, picture_stride, thinned
from top_erl.seeding import episode_seeds
from top_erl.tasks import Task, catalogue, register_task
from top_erl.tasks.contract import Array

Output = pytest.CaptureFixture[str]
Picture = NDArray[np.uint8]
REACHER = "top_erl/ViaPointReacher-v0"


class Filmed(ToyTask):
    """Six steps of 0.1 s, each a picture of odd size in its own shade of grey."""

    def frames(self, seed: int, reference: Array, every: int = 1) -> list[Picture]:
        return [np.full((75, 101, 3), 40 * step, dtype=np.uint8) for step in [*range(every, 6, every), 6]]


class BurntFilm(ToyTask):
    """Its camera breaks down in the second episode."""

    films = 0

    def frames(self, seed: int, reference: Array, every: int = 1) -> list[Picture]:
        BurntFilm.films += 1
        if BurntFilm.films > 1:
            raise OSError("the camera is on fire")
        return [np.zeros((50, 50, 3), dtype=np.uint8)] * 6


class Film(NamedTuple):
    """What a film says about itself."""

    codec: str
    rate: float


def saved(tmp_path_factory: pytest.TempPathFactory, task: str) -> Path:
    """The folder of an untrained agent."""
    path = tmp_path_factory.mktemp("agent")
    agent = TopErl(task)
    agent.save(path, replay=False)
    agent.close()
    return path


@pytest.fixture(scope="module")
def reacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory, REACHER)


@pytest.fixture(scope="module")
def filmed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory, "tests.cli.test_video:Filmed")


@pytest.fixture
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what a test registers to itself."""
    monkeypatch.setattr(catalogue, "_TASKS", dict(catalogue._TASKS))


def read_mp4(path: Path) -> tuple[Film, Picture]:
    """What a film says about itself, and its pictures, [N, H, W, 3]."""
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-i", str(path), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    done = subprocess.run(command, capture_output=True, check=True)
    found = re.search(r"Video: (\w+) .*?, (\d+)x(\d+).*?, ([\d.]+) fps", done.stderr.decode())
    assert found is not None
    width, height = int(found[2]), int(found[3])
    pictures = np.frombuffer(done.stdout, np.uint8).reshape(-1, height, width, 3)
    return Film(found[1], float(found[4])), pictures


# ---------------------------------------------------------------------- films


def test_the_seconds_left_count_down_while_a_film_is_drawn() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    with console.status(Countdown("drawing 9 pictures", time.perf_counter() + 1.2)):
        time.sleep(2.6)
    shown = re.findall(r"about (\d) s left|longer than (expected)", console.file.getvalue())
    assert [key for key, _ in itertools.groupby(shown)] == [("2", ""), ("1", ""), ("", "expected")]


def test_a_film_shows_the_policys_episodes(reacher: Path, tmp_path: Path, capsys: Output) -> None:
    film = tmp_path / "film.mp4"
    words = ["evaluate", str(reacher), "--episodes=3", "--seed=5", "--video-episodes=2", "--video", str(film)]
    assert main(words) == 0
    seeds = episode_seeds(5, "fresh", 0, 3)[:2]
    out = capsys.readouterr().out
    assert "3 fresh episodes" in out
    assert all(f"filming {number} of 2: seed {seed}, return -" in out for number, seed in enumerate(seeds, start=1))
    assert out.endswith(f"wrote {film}: 2 episode(s), 3.4 s\n")  # a second and a rest, twice

    about, pictures = read_mp4(film)
    assert about.codec == "h264"
    assert about.rate == 25.0  # real time, every second step
    assert len(pictures) == 2 * (25 + 18)
    agent = TopErl.load(reacher)
    for number, seed in enumerate(seeds):
        starts = agent.training.task.begin([seed])
        reference = agent.predict(starts.observation[0]).stacked().numpy()
        for step, expected in ((0, 1), (24, 49), (40, 49)):  # the last picture stays for a while
            frame = agent.training.task.frames(seed, reference)[expected].astype(float)
            shown = pictures[43 * number + step].astype(float)
            assert shown.shape[0] > frame.shape[0]  # there is a caption
            assert shown[480:].std() > 10
            assert np.abs(shown[:480] - frame).mean() < 3.0  # compression loses a little
    agent.close()
    assert [file.name for file in tmp_path.iterdir()] == ["film.mp4"]


def test_a_film_of_odd_pictures_at_a_low_rate(filmed: Path, tmp_path: Path, capsys: Output) -> None:
    film = tmp_path / "film.mp4"
    assert (
        main(["evaluate", str(filmed), "--task=tests.cli.test_video:Filmed", "--episodes=1", "--video", str(film)]) == 0
    )
    about, pictures = read_mp4(film)
    assert about.rate == 10.0
    assert pictures.shape[2] == 102
    assert not pictures.shape[1] % 2
    shades = [round(float(picture[:70, :90].mean()) / 40) for picture in pictures]
    assert shades == [1, 2, 3, 4, 5, *[6] * 8]
    assert "filming 1 of 1" in capsys.readouterr().out  # one is filmed unless more are asked for


def test_a_film_alone_plays_and_shows_one_episode(
    filmed: Path, tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["evaluate", str(filmed), "--task=tests.cli.test_video:Filmed", "--video", str(tmp_path / "film.mp4")]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "1 fresh episode after" in out
    assert "filming 1 of 1" in out
    assert "\x1b" not in out
    monkeypatch.setenv("FORCE_COLOR", "1")  # as in a terminal
    assert main(words) == 0
    assert re.search(r"drawing 6 pictures, about \d+ s left", capsys.readouterr().out)


def test_a_gif_needs_no_extra(reacher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    film = tmp_path / "film.GIF"
    words = ["evaluate", str(reacher), "--episodes=1", "--video", str(film)]
    assert main(words) == 0
    with Image.open(film) as image:
        assert getattr(image, "n_frames") > 20  # noqa: B009 - identical pictures become one
        durations = []
        for number in range(getattr(image, "n_frames")):  # noqa: B009
            image.seek(number)
            durations.append(image.info["duration"])
    assert durations[0] == 40.0  # milliseconds: every second step
    assert sum(durations) == pytest.approx(1000 + 700, abs=50)

    words[-1] = str(tmp_path / "film.mp4")
    assert main(words) == 2
    assert capsys.readouterr().err.endswith("'imageio-ffmpeg': pip install -c constraints.txt -e '.[report]'\n")


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("/nowhere/ffmpeg", "An mp4 film needs the program ffmpeg (a gif does not): "),
        ("false", "ffmpeg could not write the film: exit code 1"),
        ("ls", "ffmpeg could not write the film: Try 'ls --help'"),
    ],
)
def test_without_a_working_ffmpeg(
    program: str, message: str, reacher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", program)
    assert main(["evaluate", str(reacher), "--episodes=1", "--video", str(tmp_path / "film.mp4")]) == 2
    err = capsys.readouterr().err
    assert f"top-erl: {message}" in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("dt", "rate", "stride"),
    [(0.02, 50.0, 1), (0.008, 50.0, 3), (0.0125, 50.0, 2), (0.1, 50.0, 1), (0.02, 25.0, 2), (0.008, 25.0, 5)],
)
def test_films_run_in_real_time(dt: float, rate: float, stride: int) -> None:
    assert picture_stride(dt, rate) == stride


@pytest.mark.parametrize(("every", "steps"), [(1, [0, 1, 2, 3, 4, 5]), (4, [3, 5]), (3, [2, 5]), (9, [5])])
def test_the_last_step_is_always_seen(every: int, steps: list[int]) -> None:
    shown = thinned(Filmed(), 0, np.zeros((6, 4)), every)
    assert [step for step, _ in shown] == steps
    assert [int(picture[0, 0, 0]) for _, picture in shown] == [40 * (step + 1) for step in steps]


def test_a_film_that_fails_leaves_nothing_behind(tmp_path: Path, capsys: Output) -> None:
    name = "tests.cli.test_video:BurntFilm"
    agent = TopErl(name)
    agent.save(tmp_path / "agent", replay=False)
    agent.close()
    film = tmp_path / "film.mp4"
    film.write_text("an earlier film")
    from tests.cli.test_video import BurntFilm as Imported  # the module that the command imports by its path

    Imported.films = 0
    words = ["evaluate", str(tmp_path / "agent"), f"--task={name}", "--video-episodes=2", "--video", str(film)]
    assert main(words) == 1
    told = capsys.readouterr().err
    assert told.startswith("top-erl: Task toy raised OSError in the episode with seed ")
    assert "Traceback" in told  # a fault of the task's, not a mistake of the user's
    assert film.read_text() == "an earlier film"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["agent", "film.mp4"]


# ---------------------------------------------------------------------- stills


def test_a_preview_is_a_strip_of_five(tmp_path: Path, capsys: Output) -> None:
    picture = tmp_path / "reacher.png"
    assert main(["tasks", REACHER, "--preview", str(picture)]) == 0
    assert capsys.readouterr().out == f"wrote {picture}\n"
    with Image.open(picture) as image:
        strip = np.asarray(image.convert("RGB")).astype(float)
    assert strip.shape[1] == 5 * 320 + 4 * 4
    parts = [strip[:320, 324 * number : 324 * number + 320] for number in range(5)]
    for one, other in itertools.pairwise(parts):
        assert np.abs(one - other).mean() > 0.5
    assert strip[330:].std() > 10  # captions


def test_a_preview_of_a_short_episode(tmp_path: Path, capsys: Output) -> None:
    assert main(["tasks", "tests.cli.test_video:Filmed", "--preview", str(tmp_path / "toy.jpg")]) == 0
    with Image.open(tmp_path / "toy.jpg") as image:
        assert image.format == "JPEG"


@pytest.mark.parametrize("name", ["top_erl/HopperJumpSparse-v0", "top_erl/BoxPushingDense-v0"])
def test_simulators_can_be_previewed(name: str, tmp_path: Path, capsys: Output) -> None:
    picture = tmp_path / "task.png"
    assert main(["tasks", name, "--preview", str(picture)]) == 0
    with Image.open(picture) as image:
        assert np.asarray(image.convert("RGB"))[:240].std() > 10


# ---------------------------------------------------------------------- mistakes


def one_sentence(words: Sequence[str], capsys: Output) -> str:
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert err.startswith("top-erl: ")
    assert err.count("\n") == 1
    assert "filming" not in out
    return err


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("film.avi", "its name must end in .mp4 or .gif"),
        ("film", "its name must end in .mp4 or .gif"),
        ("nowhere/film.mp4", "there is no folder"),
        ("folder.mp4", "it is a folder"),
        ("x" * 300 + ".gif", "is longer than 255 bytes"),
    ],
)
def test_a_film_that_cannot_be_written(file: str, message: str, reacher: Path, tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "folder.mp4").mkdir()
    assert message in one_sentence(["evaluate", str(reacher), "--video", str(tmp_path / file)], capsys)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--preview", "a.png"], "Name the task to draw"),
        ([REACHER, "--preview", "a.mp4"], "must end in .png or .jpg or .jpeg"),
        ([REACHER, "--preview", "nowhere/a.png"], "there is no folder nowhere"),
        (["top_erl/ViaPoint-v0", "--preview", "a.png"], "Unknown task 'top_erl/ViaPoint-v0'; did you mean"),
        (["tests.rollout.toy_tasks:ToyTask", "--preview", "a.png"], "toy has no rendering"),
        (["tests.rollout.toy_tasks:PointTask", "--preview", "a.png"], "render_mode='rgb_array'"),
    ],
)
def test_a_preview_that_cannot_be_drawn(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in one_sentence(["tasks", *words], capsys)
    assert not list(tmp_path.iterdir())


def test_nothing_to_film(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, capsys: Output) -> None:
    name = "tests.rollout.toy_tasks:ToyTask"
    words = ["evaluate", str(saved(tmp_path_factory, name)), f"--task={name}"]
    assert "toy has no rendering" in one_sentence([*words, "--video", str(tmp_path / "a.mp4")], capsys)
    assert "at least 1" in one_sentence([*words, "--video-episodes=0"], capsys)


# ---------------------------------------------------------------------- captions


def test_captions_keep_what_fits() -> None:
    picture = np.zeros((10, 200, 3), dtype=np.uint8)
    short = captioned(picture, ["first", "second"], ["third"])
    long = captioned(picture, ["first", "a very long second part that does not fit"], ["third"])
    only = captioned(picture, ["first"], ["third"])
    assert short.shape == long.shape == only.shape == (10 + 48, 200, 3)
    np.testing.assert_array_equal(long, only)
    assert (short != only).any()
    np.testing.assert_array_equal(short[:10], picture)


def test_scaling_and_rows() -> None:
    picture = np.full((50, 100, 3), 7, dtype=np.uint8)
    small = scaled(picture, 40)
    assert small.shape == (20, 40, 3)
    assert (small == 7).all()
    assert side_by_side([small, small, small]).shape == (20, 3 * 40 + 2 * 4, 3)
    np.testing.assert_array_equal(side_by_side([small]), small)


# ---------------------------------------------------------------------- the list of tasks


class Other(Task):
    """A task that only says what it is."""

    spec = ToyTask.spec

    def begin(self, seeds: Sequence[int]) -> Any:
        raise AssertionError("listing plays nothing")

    def play(self, reference: Array) -> Any:
        raise AssertionError("listing plays nothing")


@pytest.mark.usefixtures("_own_registry")
def test_large_families_are_listed_by_name(capsys: Output) -> None:
    for number in range(30):
        register_task(f"lab/Lift{number}-v0", Other)
    assert main(["tasks"]) == 0
    out = capsys.readouterr().out
    assert "lab: 30 tasks, 6 steps of 0.1 s, 2 DoF" in out
    assert all(f"Lift{number}-v0" in out for number in range(30))
    assert out.partition("lab: 30")[2].partition("\n\n")[0].count("\n") < 15  # in columns
    assert out.index("top_erl/ViaPointReacher-v0") < out.index("lab: 30 tasks")
    assert "planar arm" in out
    assert max(map(len, out.splitlines())) <= 80
    for name in ("lab", "lab/"):
        assert main(["tasks", name]) == 0
        assert capsys.readouterr().out.count("lab/Lift") == 30


@pytest.mark.usefixtures("_own_registry")
def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    monkeypatch.setitem(sys.modules, "metaworld", None)
    register_task("metaworld/reach-v3", Other)
    register_task("broken/Task-v0", "no_such_package:Task")
    for words in (["tasks"], ["tasks", "metaworld"]):
        assert main(words) == 0
        assert "pip install -c constraints.txt -e '.[metaworld]'" in capsys.readouterr().out
    assert main(["tasks", "broken"]) == 0
    out = capsys.readouterr().out
    assert "broken/Task-v0  cannot be made" in out
    assert "No module named 'no_such_package'" in " ".join(out.split())


def test_a_task_in_full_is_still_shown(capsys: Output) -> None:
    assert main(["tasks", REACHER]) == 0
    assert "success rule" in capsys.readouterr().out
