"""Command-line sessions in processes of their own that can be killed.

Imports take seconds, so they are done once: this file, run as a script, imports the command line and then forks
a child for each line it reads. Every child runs `top-erl` as the shell would, with a file for what it prints.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Session:
    """One run of the command."""

    def __init__(self, server: subprocess.Popen[str], words: list[str], log: Path) -> None:
        assert server.stdin is not None
        assert server.stdout is not None
        self._log = log
        self._done = log.with_suffix(".code")
        log.touch()
        server.stdin.write(json.dumps([words, str(log), str(self._done)]) + "\n")
        server.stdin.flush()
        self.pid = int(server.stdout.readline())

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if the session is still there."""
        if not self._done.exists():
            os.kill(self.pid, number)

    def wait(self, seconds: float = 60.0) -> int:
        """Wait for the end; returns the exit code, negative for a signal."""
        deadline = time.monotonic() + seconds
        while not self._done.exists():
            assert time.monotonic() < deadline, f"the session does not end:\n{self.output}"
            time.sleep(0.005)
        return int(self._done.read_text())

    @property
    def output(self) -> str:
        """What was printed so far."""
        return self._log.read_text()


class Sessions:
    """Starts sessions, one after another."""

    def __init__(self, server: subprocess.Popen[str], folder: Path) -> None:
        self._server, self._folder = server, folder
        self.started: list[Session] = []

    def start(self, *words: str | Path) -> Session:
        """Start `top-erl` with these words."""
        log = self._folder / f"session_{len(self.started)}.log"
        self.started.append(Session(self._server, [str(word) for word in words], log))
        return self.started[-1]

    def run(self, *words: str | Path) -> Session:
        """Run `top-erl` with these words, to a good end."""
        session = self.start(*words)
        code = session.wait()
        assert code == 0, f"exit code {code}:\n{session.output}"
        return session


@contextlib.contextmanager
def serve(folder: Path) -> Iterator[Sessions]:
    """Start the process that forks the sessions."""
    command = [sys.executable, str(Path(__file__))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    server = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment
    )
    assert server.stdin is not None
    assert server.stdout is not None
    sessions = Sessions(server, folder)
    try:
        yield sessions
    finally:
        for session in sessions.started:
            session.send(signal.SIGKILL)  # if a test failed
        server.stdin.close()
        server.wait(30)
        server.stdout.close()


def _child(words: list[str], log: str) -> None:
    """Become a session; never returns."""
    from top_erl.cli import main

    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(file, stream)
    code = 70
    try:
        code = main(words)
    except SystemExit as stop:
        code = int(stop.code or 0)
    finally:
        sys.stdout.flush()
        os._exit(code)


def _serve() -> None:
    """Fork a session for each line, and write its exit code when it has ended."""
    import torch._dynamo  # noqa: F401 - imported by the first optimiser that is made

    import top_erl.cli.runs  # noqa: F401

    with contextlib.suppress(ImportError):
        import matplotlib.pyplot  # noqa: F401

    watchers = []
    for line in sys.stdin:
        words, log, done = json.loads(line)
        watcher = os.fork()
        if not watcher:
            session = os.fork()
            if not session:
                _child(words, log)
            print(session, flush=True)
            code = os.waitstatus_to_exitcode(os.waitpid(session, 0)[1])
            part = Path(f"{done}.part")
            part.write_text(str(code))
            part.rename(done)
            os._exit(0)
        watchers.append(watcher)
    for watcher in watchers:
        os.waitpid(watcher, 0)


if __name__ == "__main__":
    _serve()
