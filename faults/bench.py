"""The bench that attempts are made on: folders, sessions, seeded luck, and undisturbed runs to compare with."""

from __future__ import annotations

import os
import random
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from faults.runs import TINY, newest_checkpoint, rows_written
from faults.scenario import Lost
from faults.sessions import PATIENCE, Session, Sessions, serving

NOBODY = 65534
"""A user who owns nothing."""


class Bench:
    """Where attempts are made."""

    def __init__(self, folder: Path, sessions: Sessions, seed: int = 0) -> None:
        """Use a folder that is empty."""
        self.folder, self.sessions, self.seed = folder, sessions, seed
        self.draw = random.Random(seed)
        self._rooms = 0
        self._whole: dict[str, Path] = {}
        self._halves: dict[str, Path] = {}
        self._remembered: dict[str, object] = {}

    def begin(self, name: str) -> None:
        """Prepare for a scenario: its luck depends on its name and the seed alone."""
        self.draw = random.Random(f"{self.seed} {name}")

    def room(self) -> Path:
        """A new empty folder for an attempt."""
        self._rooms += 1
        path = self.folder / f"room_{self._rooms}"
        path.mkdir()
        return path

    def tidy(self) -> None:
        """End what an attempt left running and remove its folders."""
        self.sessions.end_all()
        for path in self.folder.glob("room_*"):
            _make_writable(path)
            shutil.rmtree(path)

    def start(self, *words: str | Path, folder: Path, **limits: int) -> Session:
        """Start `top-erl` with these words in a directory."""
        return self.sessions.start(*words, folder=folder, **limits)

    def whole(self, kind: str) -> Path:
        """An undisturbed run of a kind of `TINY`; made when it is first asked for. Copy it before you change it."""
        if kind not in self._whole:
            path = self.folder / f"whole_{len(self._whole)}"
            self.start("train", *TINY[kind], "--run-dir", path, folder=self.folder).succeeds()
            self._whole[kind] = path
        return self._whole[kind]

    def half(self, kind: str) -> Path:
        """A copy of a run that Ctrl-C stopped half-way, with two checkpoints, in a new room."""
        if kind not in self._halves:
            self._halves[kind] = self._stopped(kind)
        path = self.room() / "run"
        shutil.copytree(self._halves[kind], path, symlinks=True)
        return path

    def once(self, name: str, make: Callable[[], object]) -> object:
        """Something that is worked out when it is first asked for."""
        if name not in self._remembered:
            self._remembered[name] = make()
        return self._remembered[name]

    def _stopped(self, kind: str) -> Path:
        """Stop a run by Ctrl-C somewhere in the middle; try again if it was faster."""
        for number in range(5):
            path = self.folder / f"half_{len(self._halves)}_{number}"
            session = self.start("train", *TINY[kind], "--run-dir", path, folder=self.folder)
            session.until(lambda path=path: rows_written(path) >= 5)  # type: ignore[misc]
            session.send(signal.SIGINT)
            if session.wait() == 130:
                newest_checkpoint(path)
                return path
        raise Lost("Ctrl-C did not stop a run half-way")


@contextmanager
def a_bench(seed: int = 0, patience: float = PATIENCE) -> Iterator[Bench]:
    """A bench in a temporary folder that other users may look into."""
    top = Path(tempfile.mkdtemp(prefix="top_erl_faults_"))
    try:
        top.chmod(0o755)
        (top / "logs").mkdir()
        (top / "bench").mkdir()
        with serving(top / "logs", patience) as sessions:
            yield Bench(top / "bench", sessions, seed)
    finally:
        _make_writable(top)
        shutil.rmtree(top)


def _make_writable(top: Path) -> None:
    """Give back the permissions that an attempt took away."""
    for folder, _, _ in os.walk(top):
        os.chmod(folder, 0o755)
