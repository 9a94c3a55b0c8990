"""Files of a run that a bad disk has cut or changed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from functools import partial
from itertools import cycle
from pathlib import Path

from faults.bench import Bench
from faults.runs import RECORD, checkpoints, must_be_the_same, must_be_unchanged, newest_checkpoint, record
from faults.scenario import Attempt, Lost, scenario

KINDS = ("flipped", "cut", "emptied", "gone", "longer")
_CHECKPOINT_FILES = ("state.safetensors", "replay.safetensors", "meta.json")
_RUN_FILES = ("config.yaml", "fingerprint.json", "metrics.csv", "status.json")


def damage(path: Path, kind: str, bench: Bench) -> None:
    """Cut a file, change one of its bytes, or worse; where is drawn by lot."""
    data = bytearray(path.read_bytes())
    place = bench.draw.randrange(len(data))
    if kind == "gone":
        path.unlink()
        return
    if kind == "flipped":
        data[place] ^= 1 << bench.draw.randrange(8)
    elif kind == "longer":
        data += bench.draw.randbytes(100)
    else:
        del data[place if kind == "cut" else 0 :]
    path.write_bytes(data)


@scenario(
    "damage.checkpoint",
    "a file of the newest checkpoint is cut, changed or gone: resume and evaluate say so, or the numbers are right",
    quick=1,
    share=2.0,
    endless=True,
)
def checkpoint(bench: Bench) -> Iterator[Attempt]:
    """Bit flips most often, since those are the hardest to see."""
    for kind in cycle((*KINDS, "flipped", "cut")):
        for name in _CHECKPOINT_FILES:
            yield Attempt(f"{name} {kind}", partial(_damaged_checkpoint, bench, name, kind))


@scenario(
    "damage.previous",
    "resume --previous goes on from the checkpoint before the damaged one, to the same numbers",
    endless=True,
)
def previous(bench: Bench) -> Iterator[Attempt]:
    """The newest checkpoint is damaged in one file."""
    for kind in cycle(KINDS):
        for name in _CHECKPOINT_FILES:
            yield Attempt(f"{name} {kind}", partial(_previous, bench, name, kind))


@scenario(
    "damage.files",
    "config.yaml, fingerprint.json, metrics.csv or status.json is damaged: a sentence, or the right numbers",
    share=2.0,
    endless=True,
)
def files(bench: Bench) -> Iterator[Attempt]:
    """What is not a checkpoint."""
    for kind in cycle((*KINDS, "flipped", "cut", "flipped")):
        for name in _RUN_FILES:
            yield Attempt(f"{name} {kind}", partial(_damaged_file, bench, name, kind))


def _damaged_checkpoint(bench: Bench, name: str, kind: str) -> None:
    run = bench.half("top_erl")
    damage(newest_checkpoint(run) / name, kind, bench)
    _must_say_so_or_be_right(bench, run)


def _damaged_file(bench: Bench, name: str, kind: str) -> None:
    run = bench.half("top_erl")
    damage(run / name, kind, bench)
    _must_say_so_or_be_right(bench, run)


def _must_say_so_or_be_right(bench: Bench, run: Path) -> None:
    """Evaluate and resume a damaged run."""
    before = record(run)
    session = bench.start("evaluate", run, "--episodes=3", "--json", run.parent / "scores.json", folder=run.parent)
    if session.wait() == 0:
        if _scores(run.parent / "scores.json") != bench.once("sound scores", partial(_sound_scores, bench)):
            raise Lost("evaluate shows other numbers, and says nothing")
    else:
        session.refuses()
    must_be_unchanged(before, *(run / name for name in RECORD))
    session = bench.start("resume", run, folder=run.parent)
    if session.wait() == 0:
        must_be_the_same(run, bench.whole("top_erl"))
        return
    session.refuses()
    must_be_unchanged(before, *(run / name for name in RECORD))


def _sound_scores(bench: Bench) -> object:
    """What `evaluate` shows for the run that nobody damaged."""
    run = bench.half("top_erl")
    target = run.parent / "scores.json"
    bench.start("evaluate", run, "--episodes=3", "--json", target, folder=run.parent).succeeds()
    return _scores(target)


def _scores(path: Path) -> object:
    return json.loads(path.read_text(encoding="utf-8"))


def _previous(bench: Bench, name: str, kind: str) -> None:
    run = bench.half("top_erl")
    if len(checkpoints(run)) < 2:
        raise Lost("the run has kept no second checkpoint")
    damage(newest_checkpoint(run) / name, kind, bench)
    bench.start("resume", run, "--previous", folder=run.parent).succeeds()
    must_be_the_same(run, bench.whole("top_erl"))


@scenario(
    "damage.all_checkpoints",
    "the checkpoints are gone though metrics.csv has rows: resume refuses instead of beginning anew",
)
def all_checkpoints(bench: Bench) -> Iterator[Attempt]:
    """The folder is gone, or empty; the run was half-way, or done."""
    for empty in (False, True):
        how = "emptied" if empty else "gone"
        yield Attempt(f"half-way, {how}", partial(_without_checkpoints, bench, True, empty))
        yield Attempt(f"complete, {how}", partial(_without_checkpoints, bench, False, empty))


def _without_checkpoints(bench: Bench, half: bool, empty: bool) -> None:
    if half:
        run = bench.half("top_erl")
    else:
        run = bench.room() / "run"
        shutil.copytree(bench.whole("top_erl"), run)
    shutil.rmtree(run / "checkpoints")
    if empty:
        (run / "checkpoints").mkdir()
    before = record(run)
    bench.start("resume", run, folder=run.parent).refuses()
    must_be_unchanged(before, *(run / name for name in RECORD))
