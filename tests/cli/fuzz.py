"""Random command lines with hostile values: `make fuzz`, or `python -m tests.cli.fuzz --lines 3000 --seed 0`.

Every line is run by `top_erl.cli.command.main` in this process, with nothing replaced. Runs that get through are tiny:
one iteration on a toy task. Sweeps that get through write a script for SLURM, and start nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from tests.experiment.variations import SMALL
from top_erl.algorithms.registry import METHODS
from top_erl.cli.check import CheckOptions
from top_erl.cli.command import main
from top_erl.cli.export import ExportOptions
from top_erl.cli.inspect import InspectOptions
from top_erl.cli.report import CompareOptions, ReportOptions
from top_erl.cli.runs import EvaluateOptions, ResumeOptions, TrainOptions
from top_erl.cli.show import PlotOptions, TasksOptions
from top_erl.cli.sweeps import StatusOptions, SweepOptions
from top_erl.config.option_names import options_of

CODES = {0, 1, 2, 75, 130}
TOY = SMALL[0]
"""Names the task of the runs, which is code: without it they are refused."""
PATIENCE = 900
"""Seconds after which a line counts as hanging."""

NUMBERS = [
    *("0", "-1", "1", "2", "-0.0", "0.5", "1.5", "1e-3", "1e-320", "NaN", "nan", "inf", "-inf", "Infinity", "1e400"),
    *("1e30", "-1e30", "1e39", "99999999999999", "2147483648000000", "-9223372036854775809", "18446744073709551616"),
    *("9" * 30, "9" * 5000, "-" + "9" * 5000, "0x10", "1_0", " 1 ", "+1", "٣", "½", "1,5", "1e", "--", "1e5x", "None"),
]
TEXTS = [
    *(
        "",
        " ",
        "x",
        "v",
        "q",
        "true",
        "False",
        "none",
        "nonsense",
        "a,b",
        ",",
        "=",
        "-",
        "--",
        "-x",
        "'",
        '"',
        "*",
        "[",
        "{",
    ),
    *(
        "%s%n",
        "$(id)",
        "..",
        ":",
        "a:",
        ":b",
        "a:b:c",
        "x" * 300,
        "x" * 5000,
        "é" * 200,
        "日本語",
        "🤖",
        "\u202eabc",
        "\u00a0",
    ),
    *(
        "\n",
        "a\nb",
        "\t",
        "\x1b[31m",
        "\x07",
        "\x7f",
        "\x00",
        "\ud800",
        "\udc80\udcff",
        "a\udcffb",
        "[bold]",
        "\\",
        "~",
    ),
    *("os:system", "os:abort", "os:getpid", "os:path", "json:JSONDecoder", "builtins:object", "builtins:exit", ".:x"),
    *("subprocess:Popen", "tests.rollout.toy_tasks:ToyTask", "tests.rollout.toy_tasks:SPEC", "sys:exit", "..a:b"),
    *("top_erl/ViaPointReacher-v0", "metaworld", "cuda", "cuda:99", "meta", "cpu:7", "mps", "xla", "laptop", "paper"),
    *(
        "off",
        "offline",
        "kl",
        "w2",
        "random",
        "local",
        "box-dense",
        "metaworld50",
        "2-9",
        "0-99999999999",
        "9999999999",
    ),
]


@dataclass(frozen=True)
class Outcome:
    """What a command line did."""

    words: list[str]
    code: int | None
    """None: it never ended, or left by an exception."""
    err: str

    @property
    def complaint(self) -> str:
        """What is wrong with that; empty if nothing is."""
        if self.code not in CODES:
            return f"exit code {self.code}"
        if "Traceback" in self.err:
            return "a traceback"
        said = sum(line.startswith("top-erl: ") for line in self.err.splitlines())
        if self.words[0] == "check" and self.code == 1 and not said:
            return ""  # it has said on stdout what is wrong with the task
        if bool(self.code) != (said == 1):
            return f"exit code {self.code} with {said} sentences"
        return ""


class Playground:
    """A folder with runs, sound and damaged, files, links and worse."""

    def __init__(self, folder: Path) -> None:
        """Train a tiny run, and fill the folder."""
        self.trained, self.folder, self.work = folder / "trained", folder / "place", folder / "place" / "work"
        assert main(["train", *SMALL, "--total-env-steps=1", "--run-dir", str(self.trained)]) == 0
        self.fill()
        self.paths = self._all_paths()
        self.runs = [str(self.folder / name) for name in ("run", "other", "link")]

    def fill(self) -> None:
        """Put everything where it was in the beginning."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.work.mkdir(parents=True)
        folder = self.folder
        run = Path(shutil.copytree(self.trained, folder / "run"))
        for name in ("other", "torn", "empty_metrics", "bad_config", "no_checkpoint", "bomb_run"):
            shutil.copytree(run, folder / name)
        (folder / "torn" / "metrics.csv").write_bytes(b"iteration,env_steps\n1,x\n\xff\xfe\n")
        (folder / "empty_metrics" / "metrics.csv").write_text("")
        (folder / "bad_config" / "config.yaml").write_text("seed: [1")
        shutil.rmtree(folder / "no_checkpoint" / "checkpoints")
        bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
        bomb += "".join(f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12))
        files = {
            "bomb.yaml": bomb,
            "digits.yaml": f"seed: {'9' * 5000}\n",
            "loop.yaml": "seed: &a [*a]\n",
            "date.yaml": "seed: 2020-99-99\n",
            "deep.yaml": "[" * 1500,
            "tag.yaml": "!!python/object/apply:os.abort []\n",
            "nan.yaml": "algorithm: {learn: {critic_rate: .nan}}\n",
            "keys.yaml": "1: 2\nnull: 3\n[1, 2]: 4\n",
            "sweep.yaml": "name: s\ntasks: [top_erl/ViaPointReacher-v0]\nseeds: 1\n",
            "wild.yaml": "name: s\ntasks: {a: 1}\nseeds: 99999999999\ngrid: 3\n",
            "wild.py": "SWEEP = 1 / 0\n",
            "nul.yaml": "seed: \x00\n",
            "empty.yaml": "",
            "plain.txt": "text",
        }
        for name, text in files.items():
            (folder / name).write_text(text)
        shutil.copy(folder / "bomb.yaml", folder / "bomb_run" / "config.yaml")
        (folder / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
        (folder / "empty").mkdir()
        (folder / "sweep").mkdir()
        shutil.copy(folder / "sweep.yaml", folder / "sweep" / "sweep.yaml")
        (folder / "link").symlink_to(run)
        (folder / "dangling").symlink_to(folder / "nowhere")
        (folder / "circle").symlink_to(folder / "circle")
        os.mkfifo(folder / "pipe")

    def _all_paths(self) -> list[str]:
        """Paths of all kinds; none where a line that gets through could do harm."""
        folder = self.folder
        run = folder / "run"
        there = sorted(str(path) for path in folder.iterdir() if path != self.work)
        gone = [f"{folder}/missing", f"{folder}/plain.txt/x", "x.png", "x.mp4", "x.gif", "no/x.png", f"{folder}/x.pdf"]
        devices = ["/dev/null", "/dev/full", "/dev/zero", ".", "~"]
        long = ["x" * 256, "x/" * 2100, f"{folder}/{'y' * 300}/z.png", "é" * 130 + ".png"]
        return [*there, *gone, *devices, *long, f"{run}/config.yaml", f"{run}/metrics.csv", f"{run}/checkpoints"]


class Writer:
    """Writes random command lines."""

    def __init__(self, seed: int, place: Playground) -> None:
        """Prepare the options of all commands."""
        self.random = random.Random(seed)
        self.place = place
        kinds = {
            **{"train": TrainOptions, "resume": ResumeOptions, "evaluate": EvaluateOptions, "plot": PlotOptions},
            **{"tasks": TasksOptions, "sweep": SweepOptions, "status": StatusOptions, "report": ReportOptions},
            **{"compare": CompareOptions, "export": ExportOptions, "check": CheckOptions, "inspect": InspectOptions},
        }
        self.options = {command: [name for name, _, _ in options_of(kind)] for command, kind in kinds.items()}
        of_runs = {name for method in METHODS for name, _, _ in options_of(method.run)}
        self.options["train"] = sorted({*self.options["train"], *of_runs})
        self.options["sweep"] += sorted(of_runs)
        self.options["methods"] = ["help"]

    def line(self) -> list[str]:
        """One command line."""
        pick = self.random
        command = pick.choice([*self.options, "train", "train", "train", "sweep", "evaluate", "plot"])
        words = [*self._start(command), *self._hostile(command)]
        if pick.random() < 0.03:
            words.append(pick.choice(["--help", "-h", "extra", "--sead=1", "--import", "--import=os.nowhere", "--"]))
        if pick.random() < 0.03:
            pick.shuffle(words)
        if pick.random() < 0.02:
            command = pick.choice([*TEXTS, "trian", "--version", "--help"])
        return [command, *words, *self._end(command)]

    def _start(self, command: str) -> list[str]:
        """Words that make sense, most of the time."""
        pick = self.random
        if command == "train":
            if pick.random() < 0.8:
                return [*SMALL, "--total-env-steps=1"]
            return ["--method", pick.choice(METHODS).name, "--seed=-1"]  # never begins
        if command == "check":
            return [pick.choice([TOY.removeprefix("--task="), self._value()]), "--episodes=2"]
        if command in ("resume", "evaluate", "status", "export", "inspect"):
            run = pick.choice(self.place.runs) if pick.random() < 0.6 else self._path()
            return [run, TOY] if command != "status" and pick.random() < 0.8 else [run]
        if command in ("plot", "compare", "report"):
            return [
                pick.choice(self.place.runs) if pick.random() < 0.6 else self._path() for _ in range(pick.randint(0, 3))
            ]
        if command == "tasks":
            return [pick.choice(TEXTS)] if pick.random() < 0.5 else []
        if command == "sweep":
            return [pick.choice(["box-dense", self._path(), self._value(), "--tasks=top_erl/ViaPointReacher-v0"])]
        return []

    def _end(self, command: str) -> list[str]:
        """Words that keep a line which gets through from taking long."""
        if command == "sweep":
            return ["--engine=slurm"]
        if command == "report":
            return ["--no-figures", "--policies=none"]
        if command == "inspect":
            return ["--contexts=1", "--ranking-contexts=0"]
        return []

    def _hostile(self, command: str) -> list[str]:
        """Some options with hostile values; none that only makes a line take long."""
        words: list[str] = []
        for _ in range(self.random.choice([0, 1, 1, 1, 2, 3])):
            option = self.random.choice(self.options[command])
            if option in ("live", "dry-run", "engine", "figures", "policies", "help"):
                continue
            if self.random.random() < 0.06:
                words += [f"--{option}"]  # without a value
            elif self.random.random() < 0.5:
                words += [f"--{option}={self._value()}"]
            else:
                words += [f"--{option}", *(self._value() for _ in range(self.random.choice([1, 1, 1, 2])))]
        return words

    def _value(self) -> str:
        return self.random.choice([self.random.choice(NUMBERS), self.random.choice(TEXTS), self._path()])

    def _path(self) -> str:
        return self.random.choice(self.place.paths)


def run_line(words: Sequence[str], place: Playground) -> Outcome:
    """Run one command line as a process would, but in this one."""

    def hang(signum: int, frame: FrameType | None) -> None:
        raise SystemExit(f"still running after {PATIENCE} s")

    before, here = signal.signal(signal.SIGALRM, hang), Path.cwd()
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    code: int | None
    os.chdir(place.work)
    signal.alarm(PATIENCE)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(words)
    except SystemExit as stop:
        code = 0 if not stop.code else None
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        os.chdir(here)
    err.flush()
    return Outcome(list(words), code, err.buffer.getvalue().decode())  # type: ignore[attr-defined]


def outcomes(count: int, seed: int, place: Playground) -> Iterator[Outcome]:
    """Run random command lines."""
    writer = Writer(seed, place)
    for number in range(count):
        if number % 20 == 0:
            place.fill()
        yield run_line(writer.line(), place)


def _fuzz() -> int:
    parser = argparse.ArgumentParser(description="Run random command lines, and count what they do.")
    parser.add_argument("--lines", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    codes: Counter[int | None] = Counter()
    bad = 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        place = Playground(Path(folder))
        for number, outcome in enumerate(outcomes(options.lines, options.seed, place), start=1):
            codes[outcome.code] += 1
            if outcome.complaint:
                bad += 1
                print(f"{outcome.complaint}: {ascii(outcome.words)[:600]}\n{outcome.err[-1500:]}", flush=True)
            if number % 250 == 0:
                print(f"{number} lines, {bad} bad, {time.monotonic() - began:.0f} s", flush=True)
    counts = dict(sorted(codes.items(), key=str))
    print(f"{options.lines} command lines, seed {options.seed}: {bad} bad; exit codes {counts}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(_fuzz())
