"""What every setting must be, whatever it is for: a number that is one, of a size that fits, and plain text."""

from __future__ import annotations

import math
import unicodedata
from functools import cache, reduce
from pathlib import Path
from typing import Any, cast

from top_erl.config.option_names import options_of
from top_erl.errors import UserError

LARGEST_FLOAT = 3.4e38
"""The networks are in float32, which holds no more."""
LARGEST_WHOLE = 10_000_000
"""Of anything that is counted, unless it stands below."""
_LARGEST = {
    **dict.fromkeys(("seed",), 2**63 - 1),
    **dict.fromkeys(("total-env-steps", "buffer-size"), 10**12),
    **dict.fromkeys(("interval", "keep", "rate-iterations", "critic-start", "policy-start"), 10**12),  # 10**9: never
    **dict.fromkeys(("threads", "workers", "jobs"), 1024),
    **dict.fromkeys(("hidden", "policy-hidden", "critic-hidden", "width", "heads", "layers"), 16_384),
    **dict.fromkeys(("num-basis", "num-basis-outside", "num-zero-start", "num-zero-goal"), 1000),
    "table-length-factor": 1000,
}
_LONGEST_TEXT = 4096
_LONGEST_NAME = 255
"""Bytes of a file's name, on all usual disks."""


def check_values(settings: Any) -> None:
    """Refuse values of a nested dataclass that no setting can have, before anything is started with them."""
    for name, path in _places(cast(Any, type(settings))):
        value = reduce(getattr, path, settings)
        for each in value if isinstance(value, tuple) else (value,):
            _check(name, each)


@cache
def _places(kind: Any) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Names of all options of a nested dataclass, and the attributes that lead to their values."""
    return tuple((name, tuple(path.split("."))) for name, path, _ in options_of(kind))


def _check(name: str, value: Any) -> None:
    if isinstance(value, str):
        check_text(f"--{name}", value)
    elif isinstance(value, Path):
        check_path(value)
    elif isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"--{name} is {value}: give it a finite number.")
    elif isinstance(value, float) and abs(value) > LARGEST_FLOAT:
        raise UserError(f"--{name} is {value:g}: give it a number of at most {LARGEST_FLOAT:g}.")
    elif isinstance(value, int):
        largest = _LARGEST.get(name.rpartition(".")[2], LARGEST_WHOLE)
        if abs(value) > largest:
            raise UserError(f"--{name} is {_shortened(value)}: give it a whole number of at most {largest}.")


def check_text(name: str, text: str) -> None:
    """Refuse text that cannot be shown or written to a file: control characters, bytes that are no UTF-8, novels."""
    if len(text) > _LONGEST_TEXT:
        raise UserError(f"{name} is a text of {len(text)} characters: give it at most {_LONGEST_TEXT}.")
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in text):
        raise UserError(f"{name} has a control character, or bytes that are not UTF-8: {text!a}.")


def check_path(path: Path) -> None:
    """Refuse a path that no file can have, or that could not be shown."""
    check_text("A path", str(path))
    for part in path.parts:
        if len(part.encode()) > _LONGEST_NAME:
            raise UserError(f"The name {part[:20]}… is longer than {_LONGEST_NAME} bytes: use a shorter one.")


def _shortened(value: int) -> str:
    """A whole number; only its size if it is very long, which Python would refuse to spell out."""
    return str(value) if value.bit_length() < 100 else f"a number of about {round(value.bit_length() * 0.30103)} digits"
