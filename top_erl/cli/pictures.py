"""Captions on pictures, and picture files: mp4 and gif films, png and jpg stills.

Axes: `H` rows and `W` columns of a picture.
"""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from top_erl.cli.outputs import check_output_file
from top_erl.errors import UserError, missing_extra

Picture = NDArray[np.uint8]

FILMS = (".mp4", ".gif")
STILLS = (".png", ".jpg", ".jpeg")
_FONT_SIZE = 14
_LINE = 20
"""Height of a line of text, in pixels."""
_MARGIN = 8
_PAPER, _INK, _FAINT = (250, 251, 252), (32, 41, 57), (110, 120, 136)


def check_picture_file(path: Path, kinds: Sequence[str]) -> None:
    """Refuse a file that cannot be written, before the work is done."""
    kind = path.suffix.lower()
    if kind not in kinds:
        raise UserError(f"Cannot write {path}: its name must end in {' or '.join(kinds)}.")
    check_output_file(path)
    if kind == ".mp4" and importlib.util.find_spec("imageio_ffmpeg") is None:
        raise missing_extra("imageio-ffmpeg", "report", "An mp4 film")


def write_still(path: Path, picture: Picture) -> None:
    """Write one picture, [H, W, 3]."""
    with _in_place_of(path) as part, _explained(path):
        Image.fromarray(picture).save(part)


def write_film(path: Path, pictures: Iterable[Picture], rate: float) -> int:
    """Write pictures of one size, [H, W, 3] each, as they come; the number of them.

    Args:
        path: A file that `check_picture_file` has found good.
        pictures: At least one.
        rate: Pictures per second.
    """
    with _in_place_of(path) as part:
        return (_write_gif if path.suffix.lower() == ".gif" else _write_mp4)(part, pictures, rate)


def captioned(picture: Picture, *lines: Sequence[str]) -> Picture:
    """Put lines of text below a picture, [H, W, 3]: the words of each line as far as they fit.

    The first line is dark, others are lighter. The result has an even number of rows and columns, as films need.
    """
    height, width = picture.shape[:2]
    below = _LINE * len(lines) + _MARGIN
    size = width + width % 2, height + below + (height + below) % 2
    page = Image.new("RGB", size, _PAPER)
    page.paste(Image.fromarray(picture), (0, 0))
    draw, font = ImageDraw.Draw(page), ImageFont.load_default(_FONT_SIZE)
    for number, words in enumerate(lines):
        text = _fitting(words, width - 2 * _MARGIN, font)
        draw.text((_MARGIN, height + _MARGIN / 2 + _LINE * number), text, font=font, fill=_FAINT if number else _INK)
    return np.asarray(page)


def scaled(picture: Picture, width: int) -> Picture:
    """Scale a picture, [H, W, 3], to a width."""
    height = max(1, round(picture.shape[0] * width / picture.shape[1]))
    return np.asarray(Image.fromarray(picture).resize((width, height), Image.Resampling.LANCZOS))


def side_by_side(pictures: Sequence[Picture], gap: int = 4) -> Picture:
    """Lay pictures of one height in a row, [H, W, 3]."""
    height = pictures[0].shape[0]
    blank = np.full((height, gap, 3), _PAPER, dtype=np.uint8)
    return np.concatenate([pictures[0], *chain.from_iterable((blank, picture) for picture in pictures[1:])], axis=1)


def _fitting(words: Sequence[str], width: int, font: ImageFont.FreeTypeFont | ImageFont.ImageFont) -> str:
    """Join as many words as fit into a width in pixels, at least the first."""
    text = words[0]
    for word in words[1:]:
        longer = f"{text}  ·  {word}"
        if font.getlength(longer) > width:
            break
        text = longer
    return text


@contextmanager
def _in_place_of(path: Path) -> Iterator[Path]:
    """A file to write instead, which takes the place of the wanted one when it is complete."""
    part = _part(path)
    try:
        yield part
        with _explained(path):
            part.replace(path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Let a disk's complaint reach the user as one sentence."""
    try:
        yield
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror or error}.") from None


def _part(path: Path) -> Path:
    """The name of a file that is being written."""
    return path.with_name(f".{path.stem}.part{path.suffix}")


def _write_gif(path: Path, pictures: Iterable[Picture], rate: float) -> int:
    """Write an animated picture that repeats."""
    # One palette for all would be smaller, but colours would drift; each picture has its own.
    images = [Image.fromarray(picture).quantize(128, dither=Image.Dither.NONE) for picture in pictures]
    with _explained(path):
        images[0].save(path, save_all=True, append_images=images[1:], duration=round(1000 / rate), loop=0)
    return len(images)


def _write_mp4(path: Path, pictures: Iterable[Picture], rate: float) -> int:
    """Write a film that any browser plays, through the program ffmpeg."""
    stream = iter(pictures)
    first = next(stream)
    count = 0
    with _ffmpeg(path, first.shape[1], first.shape[0], rate) as ffmpeg:
        assert ffmpeg.stdin is not None
        assert ffmpeg.stderr is not None
        with suppress(BrokenPipeError):  # if it gives up, it says why
            for picture in chain([first], stream):
                ffmpeg.stdin.write(np.ascontiguousarray(picture).data)
                count += 1
        with suppress(BrokenPipeError):
            ffmpeg.stdin.close()
        complaint = ffmpeg.stderr.read().decode(errors="replace").strip()
    if ffmpeg.returncode:
        reason = complaint.splitlines()[-1] if complaint else f"exit code {ffmpeg.returncode}"
        raise UserError(f"ffmpeg could not write the film: {reason}")
    return count


def _ffmpeg(path: Path, width: int, height: int, rate: float) -> subprocess.Popen[bytes]:
    """Start the program that makes raw pictures on its input a film."""
    import imageio_ffmpeg

    pictures = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", f"{rate:.6f}", "-i", "-"]
    film = ["-c:v", "libx264", "-crf", "20", "-pix_fmt", "yuv420p", "-movflags", "+faststart"]
    try:
        command = [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-loglevel", "error", *pictures, *film, f"file:{path}"]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    except (OSError, RuntimeError) as error:  # there is no such program, or it cannot be run
        raise UserError(f"An mp4 film needs the program ffmpeg (a gif does not): {error}") from None
