"""Sessions of `top-erl` in processes of their own; each must end, with no traceback and nothing left over."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

from faults.scenario import Lost
from faults.server import Order

ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 60.0
"""Seconds after which a session counts as stuck; the longest undisturbed one takes a tenth of that."""
GRACE = 10.0
"""Seconds that worker processes have to notice that their parent is gone."""


class Session:
    """One run of a command, the leader of its process group."""

    def __init__(self, pid: int, log: Path, ended: Callable[[], int | None], patience: float) -> None:
        """Watch a process; `ended` tells its exit code once it has one."""
        self.pid, self._log, self._ended, self._patience = pid, log, ended, patience

    @property
    def output(self) -> str:
        """What was printed so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._ended() is None

    def send(self, number: int, *, group: bool = False) -> None:
        """Send a signal to the process, or to its group as a terminal does."""
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                (os.killpg if group else os.kill)(self.pid, number)

    def until(self, condition: Callable[[], bool], pause: float = 0.002) -> bool:
        """Wait until something is so; False if the session ended before."""
        until = time.monotonic() + self._patience
        while not condition():
            if not self.running:
                return condition()
            if time.monotonic() > until:
                raise self._stuck()
            time.sleep(pause)
        return True

    def wait(self, seconds: float | None = None) -> int:
        """Wait for the end; the exit code, negative for a signal. Nothing of it may be left then, and no traceback."""
        until = time.monotonic() + (seconds or self._patience)
        while (code := self._ended()) is None:
            if time.monotonic() > until:
                raise self._stuck()
            time.sleep(0.005)
        self._must_be_gone()
        if "Traceback" in self.output:
            raise Lost(f"a traceback: {self.last_line()}")
        return code

    def succeeds(self) -> str:
        """Wait for a good end; what was printed."""
        code = self.wait()
        if code:
            raise Lost(f"exit code {code} instead of 0: {self.last_line()}")
        return self.output

    def refuses(self, *codes: int) -> str:
        """Wait for an end with one of these codes and a sentence; the sentence."""
        code, wanted = self.wait(), codes or (1, 2)
        if code not in wanted:
            raise Lost(f"exit code {code} instead of {' or '.join(map(str, wanted))}: {self.last_line()}")
        return self.sentence()

    def sentence(self) -> str:
        """What the command said last, which must be one sentence for its user."""
        said = [line for line in self.output.splitlines() if line.startswith("top-erl: ")]
        if len(said) != 1 or len(said[0]) < len("top-erl: ") + 10:
            raise Lost(f"no single sentence: {self.last_line()}")
        return said[0].removeprefix("top-erl: ")

    def kill(self) -> None:
        """End the whole group, whatever it does."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def _stuck(self) -> Lost:
        last = self.last_line()
        self.kill()
        return Lost(f"stuck: {last}")

    def _must_be_gone(self) -> None:
        until = time.monotonic() + GRACE
        while alive := group_members(self.pid):
            if time.monotonic() > until:
                self.kill()
                raise Lost(f"{len(alive)} process(es) left over")
            time.sleep(0.01)

    def last_line(self) -> str:
        """The last line that was printed, or that nothing was."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        return re.sub(r"\S*/room_\d+/", "", lines[-1])[:160] if lines else "it printed nothing"


def group_members(group: int) -> list[int]:
    """Processes of a group that are alive (Linux)."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                state, _, number = (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[:3]
                if int(number) == group and state not in "ZX":
                    found.append(int(entry.name))
    return found


class Sessions:
    """Starts sessions and ends those that are still there."""

    def __init__(self, logs: Path, patience: float) -> None:
        """Start nothing yet; what sessions print goes to files in `logs`."""
        self._logs, self._patience = logs, patience
        self._server: subprocess.Popen[str] | None = None
        self._count = 0
        self._started: list[Session] = []

    def start(self, *words: str | Path, folder: Path, largest_file: int = 0, user: int = 0) -> Session:
        """Start `top-erl` with these words in a directory."""
        self._server = server = self._server or _start_server()
        assert server.stdin is not None
        assert server.stdout is not None
        log = self._new_log()
        done = log.with_suffix(".code")
        order = Order([str(word) for word in words], str(folder), str(log), str(done), largest_file, user)
        server.stdin.write(json.dumps(asdict(order)) + "\n")
        server.stdin.flush()
        pid = int(server.stdout.readline())
        return self._watched(pid, log, lambda: int(done.read_text(encoding="utf-8")) if done.exists() else None)

    def script(self, code: str, folder: Path) -> Session:
        """Start a Python program, as a user of the library would: nothing is imported beforehand."""
        path, log = folder / "program.py", self._new_log()
        path.write_text(code, encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        with log.open("w", encoding="utf-8") as file:
            process = subprocess.Popen(
                [sys.executable, str(path)],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self._watched(process.pid, log, process.poll)

    def end_all(self) -> None:
        """Kill the sessions that have not ended, with all their processes."""
        for session in self._started:
            if session.running or group_members(session.pid):
                session.kill()
        self._started = []

    def close(self) -> None:
        """End the sessions, and the process that becomes them."""
        self.end_all()
        if self._server is not None:
            self._server.kill()
            self._server.communicate()

    def _new_log(self) -> Path:
        self._count += 1
        log = self._logs / f"session_{self._count}.log"
        log.touch()
        return log

    def _watched(self, pid: int, log: Path, ended: Callable[[], int | None]) -> Session:
        self._started.append(Session(pid, log, ended, self._patience))
        return self._started[-1]


def _start_server() -> subprocess.Popen[str]:
    """Start the process that becomes sessions."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg", "COLUMNS": "200"}
    return subprocess.Popen(
        [sys.executable, "-m", "faults.server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=environment,
    )


@contextlib.contextmanager
def serving(logs: Path, patience: float) -> Iterator[Sessions]:
    """Sessions that have all ended afterwards."""
    sessions = Sessions(logs, patience)
    try:
        yield sessions
    finally:
        sessions.close()
