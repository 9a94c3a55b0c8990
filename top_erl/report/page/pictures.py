"""Figures and films of the page: pictures inside it, films beside it."""

from __future__ import annotations

import base64
import io
import os
import urllib.parse
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from top_erl.report.page.html import size_text
from top_erl.report.records import RunRecord

WIDEST = 1600
"""Pixels of a picture inside the page: sharp on a screen, and not larger than needed."""
MOST_BYTES = 3_000_000
"""Of all pictures inside the page together; what is beyond is linked."""
_MOST_PIXELS = 50_000_000
"""Of a picture that is opened; ours have a few million, and a stranger's must not fill the memory."""
LARGE_FILM = 40_000_000
"""Bytes of a film that is linked only, not shown."""
_TITLES = {
    "overview": "Learning curves: interquartile mean and 95 % interval",
    "per_task": "Each task alone",
    "ablations": "Ablations: targets of the critic (solid), components (dashed)",
    "segment_lengths": "Lengths of segments",
    "profiles": "Performance profiles: share of runs above a score",
    "table1": "Critics: time per iteration and success",
}


@dataclass(frozen=True)
class Figure:
    """A figure in files of the same picture, or of several."""

    title: str
    files: Sequence[Path]


def numbers_figures(drawn: Mapping[str, Sequence[Path]]) -> list[Figure]:
    """Figures of numbers with what they are called; `drawn` is what `draw_all` has drawn."""
    return [Figure(_TITLES.get(name, name.replace("_", " ").capitalize()), files) for name, files in drawn.items()]


def figure_data(figures: Sequence[Figure], output: Path) -> list[dict[str, Any]]:
    """Pictures as data, with links to the files beside the page."""
    found: list[dict[str, Any]] = []
    left = MOST_BYTES
    for figure in figures:
        pictures = [file for file in figure.files if file.suffix == ".png"]
        if not pictures:  # a table for a paper
            found.append({"title": figure.title, "files": _links(figure.files, output)})
        for picture in pictures:
            own = [file for file in figure.files if file.stem == picture.stem]
            shown = inline(picture, left)
            left -= len(shown.get("image", ""))
            found.append(
                {
                    "title": f"{figure.title}: {picture.stem}" if len(pictures) > 1 else figure.title,
                    **shown,
                    "files": _links(own, output),
                }
            )
    return found


def _links(files: Sequence[Path], output: Path) -> list[dict[str, str]]:
    return [{"href": link(file, output), "text": file.suffix[1:].upper()} for file in sorted(files)]


def inline(path: Path, most: int) -> dict[str, Any]:
    """A picture as a data URI, with its size as it is shown; nothing if it is damaged or larger than `most` bytes."""
    from PIL import Image

    picture = _opened(path)
    if picture is None:
        return {}
    if picture.width > WIDEST:
        picture = picture.resize((WIDEST, round(picture.height * WIDEST / picture.width)), Image.Resampling.LANCZOS)
    width, height = picture.size
    buffer = io.BytesIO()
    picture.quantize(256, dither=Image.Dither.NONE).save(buffer, "PNG", optimize=True)
    address = f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
    return {"image": address, "width": width, "height": height} if len(address) <= most else {}


def _opened(path: Path) -> Any:
    """A picture from a file, which may be a stranger's; None if it is damaged or would fill the memory."""
    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # we look at its size ourselves
        try:
            with Image.open(path) as image:
                return image.convert("RGB") if image.width * image.height <= _MOST_PIXELS else None
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):  # what Pillow says of damaged files
            return None


def film_data(runs: Iterable[RunRecord], output: Path) -> list[dict[str, Any]]:
    """Films that lie in the runs' folders."""
    found = []
    for run in runs:
        for film in sorted(path for path in run.folder.iterdir() if path.suffix.lower() in (".mp4", ".webm", ".gif")):
            size = film.stat().st_size
            found.append(
                {
                    "title": f"{run.label}, {run.task}, seed {run.seed}: {film.name}",
                    "href": link(film, output),
                    "moving": film.suffix.lower() != ".gif",
                    "large": size > LARGE_FILM,
                    "size": size_text(size),
                }
            )
    return found


def link(file: Path, output: Path) -> str:
    """The address of a file from the page."""
    relative = os.path.relpath(file.resolve(), output.resolve())
    return urllib.parse.quote(Path(relative).as_posix())
