"""Checkpoints: folders of plain tensors and JSON, written atomically, checked when read.

A checkpoint holds `state.safetensors` (networks, optimisers), `replay.safetensors` and `meta.json` (counters, what it
belongs to, the configuration, size and SHA-256 of the other files and of itself). Nothing in it can run code. It is
written under a temporary name and renamed when complete, so a run that is killed leaves either a whole checkpoint or
none. `meta.json` is also the mark by which we know a folder as ours: no other is ever deleted.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from top_erl.config.files import reading, temporary_path
from top_erl.errors import RunStopped, UserError

FORMAT = 2
_FIRST_FORMAT = 1
"""The one before: without a seed, a configuration and a seal in `meta.json`. It can still be read."""
_FILES = ("state.safetensors", "replay.safetensors")
_META = "meta.json"
_LARGEST_COUNT = 1 << 53
"""Counters beyond this are no counters: a float could not tell it from its neighbour."""


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
    """What must agree for the checkpoint to fit: task, its version, method, seed."""
    state: dict[str, torch.Tensor]
    """Networks and optimisers."""
    replay: dict[str, torch.Tensor]
    """The replay; empty if it was left out."""
    config: dict[str, Any] = field(default_factory=dict)
    """The run's configuration as plain data; empty if it is not known, as in checkpoints of the first format."""
    rows: str = ""
    """Hash of the run's rows so far; empty if they are not known."""
    policy_only: bool = False
    """Whether it holds a policy to play, and nothing to learn on with."""


# ---------------------------------------------------------------------- writing


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint, all or nothing; one that is there is replaced, anything else is left alone."""
    temporary = temporary_path(path)
    try:
        if path.exists() and not is_checkpoint(path):
            raise UserError(f"{path} is not a checkpoint, and is not replaced by one: move it away.")
        _remove(temporary)
        temporary.mkdir(parents=True)
        for name, tensors in zip(_FILES, (checkpoint.state, checkpoint.replay), strict=True):
            save_tensors(temporary / name, tensors)
        meta = {
            "format": FORMAT,
            "progress": asdict(checkpoint.progress),
            "belongs_to": checkpoint.belongs_to,
            "config": checkpoint.config,
            "rows": checkpoint.rows,
            **({"policy_only": True} if checkpoint.policy_only else {}),
            "files": {name: _digest(temporary / name) for name in _FILES},
        }
        (temporary / _META).write_text(json.dumps(_sealed(meta), indent=2), encoding="utf-8")
        for name in (*_FILES, _META):
            _flush_to_disk(temporary / name)
        _put_in_place(temporary, path)
    except (OSError, SafetensorError) as error:
        with contextlib.suppress(OSError):
            _remove(temporary)
        raise RunStopped(
            f"Could not save the checkpoint {path}: {error}. Earlier checkpoints are untouched: free some space or "
            "mend the permissions, then resume the run."
        ) from error


def save_tensors(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    """Write tensors to a file in a folder of ours; who may read the folder may read the file."""
    save_file({key: value.detach().cpu().contiguous().clone() for key, value in tensors.items()}, path)
    path.chmod(path.parent.stat().st_mode & 0o666)  # safetensors makes it for its owner alone


def _put_in_place(temporary: Path, path: Path) -> None:
    """Rename a complete checkpoint to its name; one that is there steps aside, and back if that fails."""
    aside = _aside(path)
    if path.exists():
        _remove(aside)
        path.rename(aside)
    try:
        temporary.rename(path)
    except OSError:
        if aside.exists():
            aside.rename(path)
        raise
    _remove(aside)
    _flush_to_disk(path.parent)


def _aside(path: Path) -> Path:
    """Where a checkpoint waits while it is being replaced."""
    return path.with_name(f".{path.name}.old")


def _remove(path: Path) -> None:
    """Delete a checkpoint, or a part of one; if there is anything else in the folder, that stays, and so does it."""
    if path.is_symlink() or not path.is_dir():
        return
    parts = path.glob(".tmp*")  # of a file that safetensors was writing when it was killed
    for file in (*parts, *(path / name for name in (*_FILES, _META))):  # the mark goes last, should this be killed too
        file.unlink(missing_ok=True)
    if not any(path.iterdir()):
        path.rmdir()


def _sealed(meta: dict[str, Any]) -> dict[str, Any]:
    """The content of a `meta.json` with its own hash."""
    content = {key: value for key, value in meta.items() if key != "sha256"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return {**content, "sha256": hashlib.sha256(text.encode()).hexdigest()}


# ---------------------------------------------------------------------- the checkpoints of a run


def checkpoint_paths(folder: Path) -> list[Path]:
    """The finished checkpoints in a folder, oldest first."""
    with reading(folder):
        if not folder.is_dir():
            return []
        numbered = (path for path in folder.iterdir() if path.name.isdigit() and _is_folder(path))
        return sorted(path for path in numbered if not _is_foreign(path))


def _is_foreign(path: Path) -> bool:
    """Whether a folder holds things, but nothing that a checkpoint has: somebody else's, not a damaged one of ours."""
    try:
        names = {file.name for file in path.iterdir()}
    except OSError:
        return False  # who opens it will say why it cannot be read
    return bool(names) and not names & {*_FILES, _META}


def rotate(folder: Path, keep: int, belongs_to: dict[str, Any]) -> None:
    """Delete all but the newest `keep` checkpoints of a run, and what killed sessions left half written."""
    own = [path for path in checkpoint_paths(folder) if _is_of(path, belongs_to)]
    for path in (*own[:-keep], *folder.glob(".*.writing")):
        _remove(path)


def forget_after(folder: Path, iteration: int, belongs_to: dict[str, Any]) -> None:
    """Delete the checkpoints of later iterations: they were damaged, and the run goes on from an earlier one.

    What is not known to be of this run is put aside under another name instead.
    """
    for path in checkpoint_paths(folder):
        if int(path.name) > iteration:
            if _is_of(path, belongs_to):
                _remove(path)
            if path.exists():
                put_aside(path)


def put_aside(path: Path) -> None:
    """Give a folder a name that no checkpoint has: it is not ours to delete."""
    names = (path.with_name(f"put-aside-{path.name}-{number}") for number in range(1, 10_000))
    path.rename(next(name for name in names if not name.exists()))


def checkpoint_exists(path: Path) -> bool:
    """Whether there is a checkpoint at a path, perhaps one that was just being replaced."""
    with reading(path):
        return path.exists() or _aside(path).exists()


def is_checkpoint(path: Path) -> bool:
    """Whether a folder is a checkpoint of ours, of whatever run, sound or not: only such a one may be replaced."""
    try:
        _read_meta(path)
    except UserError:
        return False
    return _is_folder(path) and {file.name for file in path.iterdir()} <= {*_FILES, _META}


def _is_of(path: Path, belongs_to: dict[str, Any]) -> bool:
    """Whether a folder carries the mark of a run."""
    try:
        _check_belonging(path, _read_meta(path), belongs_to)
    except UserError:
        return False
    return True


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


# ---------------------------------------------------------------------- reading


def load_checkpoint(path: Path, belongs_to: dict[str, Any]) -> Checkpoint:
    """Read a checkpoint; one that is damaged, of another format or of another run is refused with a sentence."""
    with reading(path):
        if not path.exists() and _aside(path).exists():  # killed while it was being replaced
            path = _aside(path)
        meta = _read_meta(path)
        _check_belonging(path, meta, belongs_to)
        tensors = []
        for name in _FILES:
            _check_file(path / name, meta["files"][name])
            try:
                tensors.append(load_file(path / name))
            except SafetensorError as error:
                raise UserError(f"The checkpoint {path} is damaged ({name}: {error}); use an earlier one.") from None
    known = {name: meta[name] for name in ("belongs_to", "config", "rows", "policy_only")}
    return Checkpoint(Progress(**meta["progress"]), state=tensors[0], replay=tensors[1], **known)


def _read_meta(path: Path) -> dict[str, Any]:
    """Read and check `meta.json`."""
    try:
        text = (path / _META).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"There is no checkpoint at {path}.") from None
    except OSError as error:
        raise UserError(f"Cannot read the checkpoint {path}: {error}; mend its permissions, or use a copy.") from None
    try:
        meta = json.loads(text)
        version = meta["format"]
        known = version in (_FIRST_FORMAT, FORMAT) and type(version) is int
        if known and (version == _FIRST_FORMAT or meta == _sealed(meta)):
            return {
                "format": version,
                "progress": {name: _counter(name, meta["progress"][name]) for name in asdict(Progress())},
                "belongs_to": dict(meta["belongs_to"]),
                "config": dict(meta.get("config", {})),
                "rows": str(meta.get("rows", "")),
                "policy_only": meta.get("policy_only", False) is True,
                "files": {name: dict(meta["files"][name]) for name in _FILES},
            }
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UserError(f"The checkpoint {path} is damaged (meta.json cannot be read); use an earlier one.") from None
    if known:
        raise UserError(f"The checkpoint {path} is damaged (meta.json has changed); use an earlier one.")
    raise UserError(
        f"The checkpoint {path} has format {version}, this version of top_erl reads formats {_FIRST_FORMAT} and "
        f"{FORMAT}: use the version that wrote it, or train anew."
    )


def _counter(name: str, value: Any) -> int | float:
    """A counter as it was written; what cannot be one is an error."""
    whole = name != "wall_time"
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
        raise TypeError(f"{value!r} is not a number")
    if not 0 <= value < _LARGEST_COUNT:  # nor is NaN
        raise ValueError(f"{value!r} does not count anything")
    return int(value) if whole else float(value)


def _check_belonging(path: Path, meta: dict[str, Any], wanted: dict[str, Any]) -> None:
    found = meta["belongs_to"]
    for key, value in wanted.items():
        unsaid = key == "seed" and meta["format"] == _FIRST_FORMAT
        if found.get(key) != value and not unsaid:
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
