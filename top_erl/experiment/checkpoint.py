"""Checkpoints: folders of plain tensors and JSON, written atomically, checked when read.

A checkpoint holds `state.safetensors` (networks, optimisers), `replay.safetensors` and `meta.json` (counters, what it
belongs to, size and SHA-256 of the other files). Nothing in it can run code. It is written under a temporary name and
renamed when complete, so a run that is killed leaves either a whole checkpoint or none.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from top_erl.errors import RunStopped, UserError

FORMAT = 1
_FILES = ("state.safetensors", "replay.safetensors")


@dataclass(frozen=True)
class Progress:
    """Counters of a run."""

    iteration: int = 0
    """Iterations done."""
    episodes: int = 0
    """Training episodes collected."""
    env_steps: int = 0
    """Control steps of those episodes."""
    wall_time: float = 0.0
    """Seconds of training, all sessions together."""


@dataclass(frozen=True)
class Checkpoint:
    """A run at the end of an iteration."""

    progress: Progress
    belongs_to: dict[str, Any]
    """What must agree for the checkpoint to fit: task, its version, method."""
    state: dict[str, torch.Tensor]
    """Networks and optimisers."""
    replay: dict[str, torch.Tensor]
    """The replay; empty if it was left out."""


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint to a folder that does not exist yet, all or nothing."""
    temporary = path.with_name(f".{path.name}.writing")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        for name, tensors in zip(_FILES, (checkpoint.state, checkpoint.replay), strict=True):
            save_file(
                {key: value.detach().cpu().contiguous().clone() for key, value in tensors.items()}, temporary / name
            )
        meta = {
            "format": FORMAT,
            "progress": asdict(checkpoint.progress),
            "belongs_to": checkpoint.belongs_to,
            "files": {name: _digest(temporary / name) for name in _FILES},
        }
        (temporary / "meta.json").write_text(json.dumps(meta, indent=2), encoding="utf-8")
        for name in (*_FILES, "meta.json"):
            _flush_to_disk(temporary / name)
        _put_in_place(temporary, path)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise RunStopped(
            f"Could not save the checkpoint {path}: {error}. Earlier checkpoints are untouched: free some space or "
            "mend the permissions, then resume the run."
        ) from error


def _put_in_place(temporary: Path, path: Path) -> None:
    """Rename a complete checkpoint to its name; one that is there steps aside, and back if that fails."""
    aside = _aside(path)
    if path.exists():
        shutil.rmtree(aside, ignore_errors=True)
        path.rename(aside)
    try:
        temporary.rename(path)
    except OSError:
        if aside.exists():
            aside.rename(path)
        raise
    shutil.rmtree(aside, ignore_errors=True)
    _flush_to_disk(path.parent)


def _aside(path: Path) -> Path:
    """Where a checkpoint waits while it is being replaced."""
    return path.with_name(f".{path.name}.old")


def checkpoint_exists(path: Path) -> bool:
    """Whether there is a checkpoint at a path, perhaps one that was just being replaced."""
    return path.exists() or _aside(path).exists()


def load_checkpoint(path: Path, belongs_to: dict[str, Any]) -> Checkpoint:
    """Read a checkpoint; one that is damaged, of another format or of another task is refused with a sentence."""
    if not path.exists() and _aside(path).exists():  # killed while it was being replaced
        path = _aside(path)
    meta = _read_meta(path)
    _check_belonging(path, meta["belongs_to"], belongs_to)
    tensors = []
    for name in _FILES:
        _check_file(path / name, meta["files"][name])
        try:
            tensors.append(load_file(path / name))
        except SafetensorError as error:
            raise UserError(f"The checkpoint {path} is damaged ({name}: {error}); use an earlier one.") from None
    return Checkpoint(Progress(**meta["progress"]), meta["belongs_to"], tensors[0], tensors[1])


def checkpoint_paths(folder: Path) -> list[Path]:
    """The finished checkpoints in a folder, oldest first."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.is_dir() and path.name.isdigit())


def rotate(folder: Path, keep: int) -> None:
    """Delete all but the newest `keep` checkpoints, and what killed runs left half written."""
    for path in (*checkpoint_paths(folder)[:-keep], *folder.glob(".*.writing")):
        shutil.rmtree(path)


def forget_after(folder: Path, iteration: int) -> None:
    """Delete the checkpoints of later iterations: they were damaged, and the run goes on from an earlier one."""
    for path in checkpoint_paths(folder):
        if int(path.name) > iteration:
            shutil.rmtree(path)


def _read_meta(path: Path) -> dict[str, Any]:
    """Read and check `meta.json`."""
    try:
        meta = json.loads((path / "meta.json").read_text(encoding="utf-8"))
        version = meta["format"]
        if version == FORMAT:
            return {
                "progress": {field.name: _number(meta["progress"][field.name]) for field in fields(Progress)},
                "belongs_to": dict(meta["belongs_to"]),
                "files": {name: dict(meta["files"][name]) for name in _FILES},
            }
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"There is no checkpoint at {path}.") from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise UserError(f"The checkpoint {path} is damaged (meta.json cannot be read); use an earlier one.") from None
    raise UserError(
        f"The checkpoint {path} has format {version}, this version of top_erl reads format {FORMAT}: "
        "use the version that wrote it, or train anew."
    )


def _number(value: Any) -> int | float:
    """A counter as it was written; anything else is an error."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{value!r} is not a number")
    return value


def _check_belonging(path: Path, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    for key, value in wanted.items():
        if found.get(key) != value:
            raise UserError(f"The checkpoint {path} is of {key} {found.get(key)!r}, but {value!r} is wanted here.")


def _check_file(path: Path, expected: dict[str, Any]) -> None:
    """Compare size and hash with what was written."""
    size = path.stat().st_size if path.exists() else 0
    if size != expected.get("bytes"):
        raise UserError(
            f"The checkpoint {path.parent} is cut short ({path.name}: {size} of {expected.get('bytes')} bytes); "
            "use an earlier one."
        )
    if _digest(path) != expected:
        raise UserError(f"The checkpoint {path.parent} is damaged ({path.name} has changed); use an earlier one.")


def _digest(path: Path) -> dict[str, Any]:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return {"bytes": path.stat().st_size, "sha256": digest.hexdigest()}


def _flush_to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
