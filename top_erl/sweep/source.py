"""Sweeps from files of the user's: YAML, or Python that makes the same mapping."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

from top_erl.config.serialize import read_yaml
from top_erl.errors import UserError
from top_erl.sweep.definition import Sweep, seeds_in, sweep_from_dict


def read_definition(path: Path) -> Sweep:
    """Read a sweep from a .yaml or .py file; a sweep without a name takes the file's."""
    if not path.is_file():
        raise UserError(f"There is no file {path}.")
    data = _run_python(path) if path.suffix == ".py" else read_yaml(path)
    if isinstance(data, Sweep):
        return data
    if isinstance(data, dict):
        data = {"name": re.sub(r"[^\w.+-]+", "_", path.stem), **data}
    return sweep_from_dict(data, str(path))


def _run_python(path: Path) -> Any:
    """What a Python file calls `SWEEP`: a mapping as in a YAML file, or a `Sweep`."""
    try:
        names = runpy.run_path(str(path))
    except Exception as error:
        raise UserError(f"{path} raised {type(error).__name__}: {error}.") from error
    if "SWEEP" not in names:
        raise UserError(f"{path} should define SWEEP, a mapping with tasks, methods and seeds.")
    return names["SWEEP"]


def seeds_from_text(text: str) -> tuple[int, ...]:
    """Seeds as they are typed: `8` for 0 to 7, `2,3,4` or `2-9` for these."""
    if re.fullmatch(r"[0-9]{1,19}", text):
        return seeds_in(range(int(text)))
    found: list[int] = []
    for part in filter(None, text.split(",")):
        match = re.fullmatch(r"([0-9]{1,18})(?:-([0-9]{1,18}))?", part)
        if match is None:
            raise UserError(f"--seeds is a number of seeds, or which: 8, or 2,3,4, or 2-9, not {text!r}.")
        first = int(match[1])
        found += seeds_in(range(first, int(match[2] or first) + 1))
    return tuple(found)
