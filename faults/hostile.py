"""Folders with links that lead elsewhere, and with files that belong to somebody else."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from faults.bench import Bench
from faults.runs import TINY, checkpoints, must_be_unchanged, newest_checkpoint, snapshot
from faults.scenario import Attempt, scenario

OUTPUTS = ("config.yaml", "fingerprint.json", "metrics.csv", "status.json", "curves.png", "evaluation.json", ".lock")
FOLDERS = ("checkpoints", "tensorboard", "failure")
_MORE = "--total-env-steps=2600"


@scenario(
    "hostile.links",
    "a run folder holds a link named like an output or a temporary file: what it leads to is never changed",
    quick=1,
    share=2.0,
)
def links(bench: Bench) -> Iterator[Attempt]:
    """In a folder that a run is to begin in, and in a run that is resumed, evaluated and plotted."""
    for name in OUTPUTS:
        for link in (name, f".{name}.writing"):
            yield Attempt(f"{link}, begun", partial(_begun_beside_link, bench, link))
            yield Attempt(f"{link}, used", partial(_used_with_link, bench, link))
    for name in FOLDERS:
        yield Attempt(f"{name}, begun", partial(_begun_beside_link, bench, name, to_folder=True))
        yield Attempt(f"{name}, used", partial(_used_with_link, bench, name, to_folder=True))
    for link in ("checkpoints/.00000008.writing", "checkpoints/00000008"):
        yield Attempt(f"{link}, used", partial(_used_with_link, bench, link, to_folder=True))


@scenario(
    "hostile.foreign_checkpoints",
    "numbered folders that are no checkpoints of this run: never deleted, never taken for one",
)
def foreign_checkpoints(bench: Bench) -> Iterator[Attempt]:
    """Somebody's notes, or the checkpoints of a run whose config.yaml is gone."""
    for number in ("1", "00000001", "99999999", "2026", "\N{SUPERSCRIPT TWO}"):
        yield Attempt(f"notes in checkpoints/{number}", partial(_notes_among_checkpoints, bench, number))
    yield Attempt("old checkpoints without config.yaml", partial(_old_checkpoints, bench))


@scenario("hostile.own_files", "--run-dir is a folder with files of the user's: they stay as they are")
def own_files(bench: Bench) -> Iterator[Attempt]:
    """Files with names of their own, and with names that a run uses."""
    for name in ("notes.txt", "data/table.csv", "metrics.csv", "status.json", "fingerprint.json", "curves.png"):
        yield Attempt(name, partial(_begun_in_folder, bench, [name]))
    names = ["checkpoints/notes.txt", "checkpoints/00000001/notes.txt", "checkpoints/.1.writing/a", "tensorboard/a"]
    yield Attempt("in checkpoints/ and tensorboard/", partial(_begun_in_folder, bench, names))


@scenario("hostile.saving", "agent.save to a folder with files of the user's: they stay as they are")
def saving(bench: Bench) -> Iterator[Attempt]:
    """The names that saving uses."""
    names = ("notes.txt", "checkpoint/notes.txt", ".checkpoint.writing/a", ".checkpoint.old/a", "config.yaml")
    for name in names:
        yield Attempt(name, partial(_saved_beside, bench, name, link=False))
    for name in ("checkpoint", ".checkpoint.writing", ".config.yaml.writing", "fingerprint.json"):
        yield Attempt(f"link {name}", partial(_saved_beside, bench, name, link=True))


def _precious(folder: Path) -> Path:
    """A folder of somebody's, with things in it that a run might take for its own."""
    folder.mkdir()
    for name in ("notes.txt", "00000001/notes.txt", "00000002/meta.json", ".00000003.writing/notes.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("mine\n", encoding="utf-8")
    return folder


def _link(run: Path, name: str, outside: Path, to_folder: bool) -> None:
    """Put a link into a folder; what stands there makes way."""
    place = run / name
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(outside if to_folder else outside / "notes.txt")


def _ends_well(bench: Bench, folder: Path, *words: str | Path) -> None:
    """Run a command that may work, or say in a sentence why not."""
    session = bench.start(*words, folder=folder)
    if session.wait():
        session.refuses()


def _begun_beside_link(bench: Bench, name: str, *, to_folder: bool = False) -> None:
    """Begin a run in a folder that holds a link."""
    room = bench.room()
    outside = _precious(room / "outside")
    _link(room / "run", name, outside, to_folder)
    before = snapshot(outside)
    _ends_well(bench, room, "train", *TINY["top_erl"], "--log.tensorboard", "--run-dir=run")
    must_be_unchanged(before, outside)


def _used_with_link(bench: Bench, name: str, *, to_folder: bool = False) -> None:
    """Resume, evaluate and plot a run that a link was put into."""
    run = bench.half("top_erl")
    outside = _precious(run.parent / "outside")
    _link(run, name, outside, to_folder)
    before = snapshot(outside)
    _ends_well(bench, run.parent, "evaluate", run, "--episodes=2", "--json", run / "evaluation.json")
    must_be_unchanged(before, outside)
    _ends_well(bench, run.parent, "resume", run, _MORE)
    must_be_unchanged(before, outside)
    _ends_well(bench, run.parent, "plot", run)
    must_be_unchanged(before, outside)


def _notes_among_checkpoints(bench: Bench, number: str) -> None:
    """Resume a run among whose checkpoints somebody keeps notes."""
    run = bench.half("top_erl")
    notes = run / "checkpoints" / number
    notes.mkdir()
    (notes / "notes.txt").write_text("mine\n", encoding="utf-8")
    before = snapshot(notes)
    _ends_well(bench, run.parent, "resume", run)
    must_be_unchanged(before, notes)
    _ends_well(bench, run.parent, "resume", run, "--previous")
    must_be_unchanged(before, notes)


def _old_checkpoints(bench: Bench) -> None:
    """Begin a run where the checkpoints of another are, which has lost its config.yaml."""
    run = bench.half("top_erl")
    (run / "config.yaml").unlink()
    newest_checkpoint(run).rename(run / "checkpoints" / "00000090")
    old = checkpoints(run)
    before = snapshot(*old, run / "metrics.csv")
    _ends_well(bench, run.parent, "train", *TINY["top_erl"], "--run-dir", run)
    must_be_unchanged(before, *old, run / "metrics.csv")


def _write(folder: Path, names: list[str]) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("mine\n", encoding="utf-8")


def _begun_in_folder(bench: Bench, names: list[str]) -> None:
    """Begin a run in a folder that holds files of the user's."""
    folder = bench.room() / "mine"
    _write(folder, names)
    own = [folder / name for name in names]
    before = snapshot(*own)
    _ends_well(bench, folder.parent, "train", *TINY["top_erl"], "--log.tensorboard", "--run-dir", folder)
    must_be_unchanged(before, *own)


_SAVE = """
import sys
from top_erl import Agent
from top_erl.errors import UserError
agent = Agent.load({run!r})
try:
    agent.save("mine")
except UserError as error:
    print("top-erl:", error)
    sys.exit(error.exit_code)
Agent.load("mine").close()
agent.close()
"""


def _saved_beside(bench: Bench, name: str, *, link: bool) -> None:
    """Save an agent to a folder that holds a file of the user's, or a link."""
    run = bench.half("top_erl")
    folder = run.parent / "mine"
    if link:
        own = _precious(run.parent / "outside")
        _link(folder, name, own, to_folder="checkpoint" in name)
    else:
        own = folder / name
        _write(folder, [name])
    before = snapshot(own)
    session = bench.sessions.script(_SAVE.format(run=str(run)), run.parent)
    if session.wait():
        session.refuses()
    must_be_unchanged(before, own)
