"""Runs that somebody has tampered with so that their hashes are right."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from faults.bench import Bench
from faults.runs import RECORD, TINY, must_be_the_same, must_be_unchanged, newest_checkpoint, record
from faults.scenario import Attempt, Lost, scenario
from faults.sessions import Session, group_members
from top_erl.agent import Agent
from top_erl.experiment.checkpoint import Checkpoint, save_checkpoint

Tensors = dict[str, torch.Tensor]


def _longer(tensors: Tensors, name: str) -> Tensors:
    value = tensors[name]
    return {**tensors, name: torch.cat([value, value]) if value.dim() else torch.stack([value, value])}


def _without(tensors: Tensors, name: str) -> Tensors:
    return {key: value for key, value in tensors.items() if key != name}


ALTERED: dict[str, Callable[[Tensors, str], Tensors]] = {
    "missing": _without,
    "empty": lambda tensors, name: {**tensors, name: tensors[name].flatten()[:0]},
    "longer": _longer,
    "of two more axes": lambda tensors, name: {**tensors, name: tensors[name][None, None]},
    "of whole numbers": lambda tensors, name: {**tensors, name: tensors[name].to(torch.int8)},
    "in double precision": lambda tensors, name: {**tensors, name: tensors[name].to(torch.float64)},
    "under another name": lambda tensors, name: {**_without(tensors, name), f"{name}_": tensors[name]},
    "beside an unknown one": lambda tensors, name: {**tensors, "surplus": tensors[name]},
}
"""What is done to a tensor, or to those beside it."""


@scenario(
    "forged.tensors",
    "a checkpoint with right hashes, but tensors of another shape, type or name: a sentence, and nothing changes",
    quick=1,
    share=2.0,
)
def tensors(bench: Bench) -> Iterator[Attempt]:
    """Of the networks and optimisers, and of the replay."""
    for part in ("state", "replay"):
        for how in ALTERED:
            yield Attempt(f"{part} {how}", partial(_altered, bench, part, how))


@scenario(
    "forged.progress",
    "a checkpoint of iteration -1, of a later one than its name says, or with counters that cannot be: a sentence",
)
def progress(bench: Bench) -> Iterator[Attempt]:
    """Counters of the run."""
    forgeries: list[dict[str, Any]] = [
        {"iteration": -1},
        {"iteration": 10**9},
        {"iteration": 3.5},
        {"episodes": -1},
        {"env_steps": 10**30},
        {"env_steps": -100},
        {"wall_time": float("nan")},
    ]
    for forgery in forgeries:
        yield Attempt(f"{forgery}", partial(_other_progress, bench, forgery))


@scenario(
    "forged.foreign", "the checkpoint of another seed, method or size of network: a sentence, and nothing changes"
)
def foreign(bench: Bench) -> Iterator[Attempt]:
    """Whole checkpoints in the wrong place."""
    others = {"seed": ["--seed=1"], "width": ["--policy.hidden=9"]}
    for name, words in others.items():
        yield Attempt(f"another {name}", partial(_foreign, bench, [*TINY["top_erl"], *words]))
    yield Attempt("another method", partial(_foreign, bench, TINY["tce"]))


@scenario(
    "forged.fingerprint",
    "a fingerprint with workers 12, threads 0, 1e30 or inf: a sentence, or what the machine has and the same numbers",
)
def fingerprint(bench: Bench) -> Iterator[Attempt]:
    """The hardware that a session is told to use."""
    values: list[Any] = [0, -3, 1e30, float("inf"), float("nan"), 4096, "many", True, None, []]
    yield Attempt("workers 12", partial(_hardware, bench, "workers", 12))
    for value in values:
        yield Attempt(f"threads {value}", partial(_hardware, bench, "threads", value))
    for value in (-1, 1e30, float("inf"), "many", None):
        yield Attempt(f"workers {value}", partial(_hardware, bench, "workers", value))


def _saved(run: Path) -> tuple[Checkpoint, Path]:
    """The newest checkpoint of a run, and where it is."""
    agent = Agent.load(run)
    try:
        return agent.training.checkpoint(), newest_checkpoint(run)
    finally:
        agent.close()


def _forge(path: Path, checkpoint: Checkpoint) -> None:
    """Put a checkpoint in the place of another, written as the program writes it."""
    shutil.rmtree(path)
    save_checkpoint(path, checkpoint)


def _altered(bench: Bench, part: str, how: str) -> None:
    run = bench.half("top_erl")
    checkpoint, path = _saved(run)
    before: Tensors = getattr(checkpoint, part)
    names = sorted(name for name, value in before.items() if value.is_floating_point() and value.numel() > 1)
    changed: dict[str, Any] = {part: ALTERED[how](before, bench.draw.choice(names))}
    _forge(path, replace(checkpoint, **changed))
    _must_refuse(bench, run)


def _other_progress(bench: Bench, forgery: dict[str, Any]) -> None:
    run = bench.half("top_erl")
    checkpoint, path = _saved(run)
    _forge(path, replace(checkpoint, progress=replace(checkpoint.progress, **forgery)))
    _must_refuse(bench, run)


def _foreign(bench: Bench, words: list[str]) -> None:
    run = bench.half("top_erl")
    other = bench.room() / "other"
    bench.start("train", *words, "--run-dir", other, folder=other.parent).succeeds()
    theirs = newest_checkpoint(other)
    shutil.rmtree(newest_checkpoint(run))
    shutil.copytree(theirs, run / "checkpoints" / theirs.name)
    _must_refuse(bench, run)


def _must_refuse(bench: Bench, run: Path) -> None:
    """Demand a sentence from `resume` and that nothing changes; `evaluate` may do without what it does not need."""
    before = record(run)
    bench.start("resume", run, folder=run.parent).refuses()
    must_be_unchanged(before, *(run / name for name in RECORD))
    session = bench.start("evaluate", run, "--episodes=2", folder=run.parent)
    if session.wait():
        session.refuses()
    must_be_unchanged(before, *(run / name for name in RECORD))


def _hardware(bench: Bench, name: str, value: Any) -> None:
    """Write another number of threads or workers into the fingerprint, and resume."""
    run = bench.half("top_erl")
    path = run / "fingerprint.json"
    recorded = json.loads(path.read_text(encoding="utf-8"))
    recorded["hardware"][name] = value
    path.write_text(json.dumps(recorded), encoding="utf-8")
    session = bench.start("resume", run, folder=run.parent)
    most = _most_processes(session)
    if session.wait():
        session.refuses()
        return
    if most > (os.cpu_count() or 1) + 2:  # beside the workers, the run and the process that cleans up after them
        raise Lost(f"{most} processes at once")
    must_be_the_same(run, bench.whole("top_erl"))


def _most_processes(session: Session) -> int:
    """The largest number of processes that a session has while it runs."""
    seen = [1]

    def look() -> bool:
        seen.append(len(group_members(session.pid)))
        return False

    session.until(look, pause=0.1)
    return max(seen)
