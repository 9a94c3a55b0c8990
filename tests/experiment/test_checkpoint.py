"""Checkpoints: whole or not at all, checked when read, and nothing in them runs."""

from __future__ import annotations

import errno
import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import top_erl.experiment.checkpoint as module
from top_erl.errors import RunStopped, UserError
from top_erl.experiment.checkpoint import (
    Checkpoint,
    Progress,
    checkpoint_paths,
    load_checkpoint,
    rotate,
    save_checkpoint,
)

OWNER = {"task": "toy", "task version": "1", "method": "top_erl", "seed": 0}
FILES = ["state.safetensors", "replay.safetensors", "meta.json"]


def _checkpoint(number: int = 7) -> Checkpoint:
    big = torch.arange(6.0).view(2, 3)
    state = {"weight": big + number, "transposed": big.T, "step": torch.tensor(3.0), "view": big[0]}
    replay = {"total_added": torch.tensor(2**40), "empty": torch.empty(0, 4)}
    return Checkpoint(Progress(number, 30, 180, 1.25), OWNER, state, replay)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A saved checkpoint."""
    saved = tmp_path / "checkpoints" / "00000007"
    save_checkpoint(saved, _checkpoint())
    return saved


def test_round_trip(path: Path) -> None:
    found, expected = load_checkpoint(path, OWNER), _checkpoint()
    assert (found.progress, found.belongs_to) == (expected.progress, OWNER)
    for name in ("state", "replay"):
        tensors, wanted = getattr(found, name), getattr(expected, name)
        assert tensors.keys() == wanted.keys()
        for key, value in wanted.items():
            assert tensors[key].dtype == value.dtype
            assert torch.equal(tensors[key], value)
    assert sorted(file.name for file in path.iterdir()) == sorted(FILES)


def test_an_existing_checkpoint_is_replaced(path: Path) -> None:
    save_checkpoint(path, _checkpoint(8))
    assert load_checkpoint(path, OWNER).progress.iteration == 8
    assert [file.name for file in path.parent.iterdir()] == ["00000007"]


def test_leftovers_of_a_killed_run_are_cleared_away(path: Path) -> None:
    leftover = path.parent / ".00000009.writing"
    leftover.mkdir()
    (leftover / "state.safetensors").write_bytes(b"half")
    assert checkpoint_paths(path.parent) == [path]
    save_checkpoint(path.parent / "00000009", _checkpoint(9))
    assert sorted(file.name for file in path.parent.iterdir()) == ["00000007", "00000009"]


@pytest.mark.parametrize("failing_call", [1, 2], ids=["state", "replay"])
def test_a_full_disk_leaves_earlier_checkpoints_and_no_part(
    path: Path, monkeypatch: pytest.MonkeyPatch, failing_call: int
) -> None:
    calls: list[Path] = []
    save_file = module.save_file

    def full(tensors: dict[str, torch.Tensor], file: Path) -> None:
        calls.append(file)
        if len(calls) == failing_call:
            file.write_bytes(b"part of it")
            raise OSError(errno.ENOSPC, "No space left on device")
        save_file(tensors, file)

    monkeypatch.setattr(module, "save_file", full)
    for target in (path.parent / "00000008", path):  # a new one, and one that would be replaced
        calls.clear()
        with pytest.raises(RunStopped, match=r"No space left on device.*Earlier checkpoints are untouched"):
            save_checkpoint(target, _checkpoint(8))
        assert [file.name for file in path.parent.iterdir()] == ["00000007"]
        assert load_checkpoint(path, OWNER).progress.iteration == 7


def test_a_really_full_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`/dev/full` gives the system's own error."""
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    monkeypatch.setattr(module, "_flush_to_disk", lambda path: Path("/dev/full").write_bytes(b"x"))
    with pytest.raises(RunStopped, match="No space left on device"):
        save_checkpoint(path.parent / "00000008", _checkpoint(8))
    assert [file.name for file in path.parent.iterdir()] == ["00000007"]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RunStopped, match="Could not save the checkpoint"):
        save_checkpoint(tmp_path / "file" / "00000001", _checkpoint())


@pytest.mark.parametrize("name", FILES)
def test_cut_short_anywhere(path: Path, name: str) -> None:
    whole = (path / name).read_bytes()
    for length in sorted({0, 1, 7, 8, 9, len(whole) // 2, len(whole) - 2, len(whole) - 1}):
        (path / name).write_bytes(whole[:length])
        with pytest.raises(UserError, match=r"cut short|damaged") as caught:
            load_checkpoint(path, OWNER)
        assert "\n" not in str(caught.value)
        assert "use an earlier one" in str(caught.value)


@pytest.mark.parametrize("name", FILES[:2])
def test_one_flipped_bit_is_noticed(path: Path, name: str) -> None:
    whole = (path / name).read_bytes()
    for position in (0, 8, len(whole) // 2, len(whole) - 1):
        changed = bytearray(whole)
        changed[position] ^= 1
        (path / name).write_bytes(bytes(changed))
        with pytest.raises(UserError, match=f"damaged .{name} has changed"):
            load_checkpoint(path, OWNER)


def test_missing_files(path: Path) -> None:
    (path / "replay.safetensors").unlink()
    with pytest.raises(UserError, match=r"cut short .replay.safetensors: 0 of"):
        load_checkpoint(path, OWNER)
    (path / "meta.json").unlink()
    with pytest.raises(UserError, match="There is no checkpoint at"):
        load_checkpoint(path, OWNER)
    with pytest.raises(UserError, match="There is no checkpoint at"):
        load_checkpoint(path / "state.safetensors", OWNER)  # a file, not a folder


def _edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    meta = json.loads((path / "meta.json").read_text())
    change(meta)
    (path / "meta.json").write_text(json.dumps(module._sealed(meta) if isinstance(meta, dict) else meta))


@pytest.mark.parametrize("version", [3, 0, "1", 1.0, True, None])
def test_another_format(path: Path, version: object) -> None:
    _edit(path, lambda meta: meta.update(format=version))
    with pytest.raises(UserError, match=f"has format {version}, this version of top_erl reads formats 1 and 2"):
        load_checkpoint(path, OWNER)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"task": "other"}, "is of task 'toy', but 'other' is wanted here"),
        ({"task version": "2"}, "is of task version '1', but '2' is wanted here"),
        ({"method": "sac"}, "is of method 'top_erl', but 'sac' is wanted here"),
        ({"new": 1}, "is of new None, but 1 is wanted here"),
    ],
)
def test_of_something_else(path: Path, wanted: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        load_checkpoint(path, {**OWNER, **wanted})
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not json",
        "[]",
        "7",
        "null",
        '"text"',
        "{}",
        '{"format": 1}',
        "[" * 100_000,
        '{"format": 1, "progress": {}, "belongs_to": {}, "files": {}}',
        '{"format": 1, "progress": [], "belongs_to": [], "files": []}',
    ],
)
def test_garbage_instead_of_meta(path: Path, text: str) -> None:
    (path / "meta.json").write_text(text)
    with pytest.raises(UserError, match=r"damaged .meta.json cannot be read"):
        load_checkpoint(path, OWNER)


@pytest.mark.parametrize(
    "change",
    [
        lambda meta: meta.pop("files"),
        lambda meta: meta.update(files=FILES[:2]),
        lambda meta: meta["files"].update({FILES[0]: 5}),
        lambda meta: meta["files"].update({FILES[0]: {}}),
        lambda meta: meta["progress"].update(iteration="many"),
        lambda meta: meta["progress"].update(iteration=True),
        lambda meta: meta["progress"].pop("episodes"),
        lambda meta: meta.update(belongs_to="me"),
    ],
)
def test_meta_of_the_wrong_shape(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    _edit(path, change)
    with pytest.raises(UserError, match=r"damaged|cut short"):
        load_checkpoint(path, OWNER)


def test_meta_that_is_not_text(path: Path) -> None:
    (path / "meta.json").write_bytes(b"\xff\x00\xfe")
    with pytest.raises(UserError, match="damaged"):
        load_checkpoint(path, OWNER)


class _Payload:
    """Makes a folder when unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.mkdir, (self.folder,))


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", ["pickle", "torch"])
def test_a_pickle_in_disguise_does_not_run(path: Path, tmp_path: Path, name: str, kind: str) -> None:
    made = tmp_path / "made"
    if kind == "pickle":
        (path / name).write_bytes(pickle.dumps(_Payload(made)))
    else:
        torch.save({"payload": _Payload(made)}, path / name)
    if name != "meta.json":  # a stranger would write the hash that fits
        _edit(path, lambda meta: meta["files"].update({name: module._digest(path / name)}))
    with pytest.raises(UserError, match="damaged"):
        load_checkpoint(path, OWNER)
    assert not made.exists()
    pickle.loads(pickle.dumps(_Payload(made)))
    assert made.exists()  # so the payload would have worked


def test_paths_are_sorted_and_nothing_else(tmp_path: Path) -> None:
    assert checkpoint_paths(tmp_path / "nothing") == []
    for name in ("00000010", "00000002", ".00000011.writing", "notes"):
        (tmp_path / name).mkdir()
    (tmp_path / "00000099").write_text("a file")
    assert [path.name for path in checkpoint_paths(tmp_path)] == ["00000002", "00000010"]


@pytest.mark.parametrize(("keep", "left"), [(1, [4]), (2, [3, 4]), (9, [1, 2, 3, 4])])
def test_rotation_keeps_the_newest(tmp_path: Path, keep: int, left: list[int]) -> None:
    for number in (1, 2, 3, 4):
        save_checkpoint(tmp_path / f"{number:08d}", _checkpoint(number))
    rotate(tmp_path, keep, OWNER)
    assert [int(path.name) for path in checkpoint_paths(tmp_path)] == left
    shutil.rmtree(tmp_path)
    rotate(tmp_path, keep, OWNER)  # nothing there
