"""A folder in which the commands of the docs are run, and how each kind is made short.

What is run is what is written, but for these differences:

- `top-erl train` and `resume` get a tenth of a second's worth of steps, and small batches (`SHORT`).
- `top-erl sweep` writes a script for SLURM instead of starting runs: it makes the settings of all runs, and the folder.
  `--dry-run` would measure every kind of run for seconds, and is left out (`tests/cli/test_sweeps.py` has one).
- Runs and sweeps that a command reads are there before: copies of two tiny runs, and of the committed sweep in
  `results/`. Reports are without figures, and trainings end without a picture of their curves.
- What only looks (`LOOKS`) is run once, though several pages may have it with other folders.
- `make TARGET` is asked what it would do (`-n`). `pip install` is not run: its extras must exist.
- In Python, numbers of steps (`200_000`) become 100, and presets get small batches.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np

from tests.docs.blocks import ROOT, SHELL, Block
from top_erl.algorithms.registry import METHODS, find_method
from top_erl.algorithms.top_erl.targets import TARGETS
from top_erl.cli import main
from top_erl.cli.extensions import IMPORTED
from top_erl.cli.parsing import option_value
from top_erl.config.changes import changed
from top_erl.config.option_names import options_of
from top_erl.config.run import RunConfig
from top_erl.experiment.presets import preset
from top_erl.tasks import catalogue

ARM, REACHER = "top_erl/ViaPointReacher-v0", "examples.own_environment:ReacherTask"
SHORT = {
    **{"total-env-steps": "1", "threads": "1", "workers": "0", "evaluation.episodes": "1"},
    **{"collect.episodes": "2", "collect.prefill": "2", "learn.batch-size": "2", "learn.epochs": "1"},
    **{"learn.critic-steps": "1", "learn.policy-steps": "1", "learn.critic-epochs": "1", "learn.policy-epochs": "1"},
}
"""Options that make a run short, as far as its method has them and the command does not give them."""
SWEEP = ROOT / "results" / "sweeps" / "via_point_on_policy"
RUN_NAMES = (
    *("NAME", "a", "b", "top_erl-ViaPointReacher-v0-seed0", "top_erl-ViaPointReacher-v0-seed2"),
    "top_erl-reach-v3-seed0",
)
"""Runs that pages speak of."""
LOOKS = ("evaluate", "plot", "report", "compare", "status", "tasks", "methods", "check")
"""Commands that change nothing for those after them."""
NOT_RUN = {
    "source .venv/bin/activate": "changes the shell that it is typed into",
}
"""Commands that are not run, and why; a block of them has a mark in the page instead."""


def short_preset(*arguments: Any, **options: Any) -> RunConfig:
    """A preset with small batches; what `top-erl train` gets as options."""
    config = preset(*arguments, **options)
    known = {name: path for name, path, _ in options_of(type(config))}
    values = {known[name]: int(text) for name, text in SHORT.items() if name in known and name != "total-env-steps"}
    return changed(config, values)


class Workshop:
    """Runs the blocks of one page, in order, in a folder of its own."""

    def __init__(self, folder: Path, runs: dict[str, Path], page: Path, done: set[str]) -> None:
        """Make what the commands of a page expect to be there; `done` are those that have been run for other pages."""
        self.folder, self.page, self.done = folder, page, done
        self.modules: list[str] = []
        sys.path.append(str(folder))
        run = runs[REACHER if page.name == "export.md" else ARM]
        for name in RUN_NAMES:
            shutil.copytree(run, folder / "runs" / name)
        shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "my_module.py").write_text("from examples.own_environment import ReacherTask as MyTask\n")
        shutil.copytree(SWEEP, folder / "sweeps" / "metaworld50")
        (folder / "contexts.csv").write_text(",".join(["0.1"] * 10) + "\n")
        self.names: dict[str, Any] = {
            "robot": SimpleNamespace(measure=lambda: (np.zeros(2), np.zeros(2)), track=lambda *_: None),
            "observe": lambda: np.full(10, 0.1),
            "env": SimpleNamespace(observation_space=_goal_space()),
        }

    def run(self, block: Block) -> None:
        """Run a block; what goes wrong raises, and says where it stands."""
        try:
            self._run(block)
        except (Exception, SystemExit) as error:
            raise AssertionError(f"{block.where}: {error}") from error

    def _run(self, block: Block) -> None:
        if block.file:
            (self.folder / block.file).write_text(block.text, encoding="utf-8")
            self.modules += [block.file.removesuffix(".py")] if block.file.endswith(".py") else []
        elif block.language == "python":
            self._run_python(block)
        elif block.language in SHELL:
            for words in block.commands():
                self._run_command(words)

    def _run_python(self, block: Block) -> None:
        source = re.sub(r"\b\d+_000\b", "100", textwrap.dedent(block.text))
        for module in self.modules:  # what a page puts into a file is known to its other blocks
            exec(f"from {module} import *", self.names)
        exec(compile("\n" * block.line + source, str(block.page), "exec"), self.names)

    def _run_command(self, words: list[str]) -> None:
        if " ".join(words) in NOT_RUN:
            return
        run = {"top-erl": self._top_erl, "make": _ask_make, "pip": _check_extras}.get(words[0])
        if run is not None:
            run(words[1:])
            return
        if words[0] == "python":
            words = [sys.executable, *words[1:]]
        elif words[0] != "cc" and not words[0].startswith("./"):
            raise AssertionError(f"`{words[0]}` is a command that nobody runs: mark its block with a reason.")
        subprocess.run(words, cwd=self.folder, check=True, timeout=60, capture_output=True)

    def _top_erl(self, words: list[str]) -> None:
        words = [str(self.folder / "runs" / "NAME") if word == "RUN" else word for word in words]
        words = [match for word in words for match in self._expanded(word)]
        kind = re.sub(r"\b(runs|sweeps)/[\w-]+", r"\1/NAME", " ".join(words))
        if words[0] in LOOKS and kind in self.done:
            return
        self.done.add(kind)
        short = {"train": _short_train, "resume": _short_resume, "sweep": _short_sweep, "report": self._short_report}
        words = short.get(words[0], list)(words)
        try:
            code = main(words)
        except SystemExit as stop:  # --help
            code = int(stop.code or 0)
        assert code == 0, f"top-erl {' '.join(words)} ended with {code}"

    def _expanded(self, word: str) -> list[str]:
        """What a shell makes of runs/*."""
        if word != "runs/*":
            return [word]
        return [f"runs/{path.name}" for path in sorted((self.folder / "runs").iterdir())]

    def _short_report(self, words: list[str]) -> list[str]:
        for word in words[1:]:
            if word.startswith("sweeps/"):
                shutil.rmtree(self.folder / word, ignore_errors=True)
                shutil.copytree(SWEEP, self.folder / word)
        return [*words, "--no-figures"]


def _short_train(words: list[str]) -> list[str]:
    if "--help" in words or "--config" in words:
        return [*words, *(("--total-env-steps", "1") if "--config" in words else ())]
    known = {name for name, _, _ in options_of(_method(words).run)}
    given = {word.partition("=")[0].removeprefix("--") for word in words}
    extra = [f"--{name}={text}" for name, text in SHORT.items() if name in known - given]
    return [*words, *extra, "--log.no-tensorboard"]


def _method(words: list[str]) -> Any:
    """The method of a command; one of `my_method.py` is not registered yet, and is a kind of BBRL."""
    name = option_value(words, "method", "top_erl")
    return find_method("bbrl_cov" if name == "rank" else name)


def _short_resume(words: list[str]) -> list[str]:
    return [word if not word.isdigit() or int(word) < 1000 else "300" for word in words]


def _short_sweep(words: list[str]) -> list[str]:
    return [*(word for word in words if word != "--dry-run"), *(() if "--engine" in words else ("--engine", "slurm"))]


def _ask_make(words: list[str]) -> None:
    subprocess.run(["make", "-n", *words], cwd=ROOT, check=True, capture_output=True)


def _check_extras(words: list[str]) -> None:
    assert words[:4] == ["install", "-c", "constraints.txt", "-e"], words
    extras = re.fullmatch(r"\.(?:\[([\w,]+)\])?", words[4])
    assert extras is not None, words
    section = (ROOT / "pyproject.toml").read_text(encoding="utf-8").split("[project.optional-dependencies]")[1]
    known = re.findall(r"^(\w+) = \[", section.split("[project.scripts]")[0], flags=re.MULTILINE)
    assert set((extras[1] or "log").split(",")) <= set(known), words


def _goal_space() -> gymnasium.spaces.Dict:
    box = {"achieved_goal": 3, "desired_goal": 3, "observation": 10}
    return gymnasium.spaces.Dict({name: gymnasium.spaces.Box(-1.0, 1.0, (size,)) for name, size in box.items()})


@contextlib.contextmanager
def forgotten_afterwards() -> Iterator[None]:
    """What a page registers and imports is gone afterwards."""
    tables: list[Any] = [METHODS, TARGETS, catalogue._TASKS, IMPORTED, sys.path]
    before, modules = [table.copy() for table in tables], set(sys.modules)
    yield
    for table, values in zip(tables, before, strict=True):
        table.clear()
        table.update(values) if isinstance(table, dict) else table.extend(values)
    for name in set(sys.modules) - modules:
        if name.startswith("my_") or name == "reach_point":
            del sys.modules[name]


def make_runs(folder: Path) -> dict[str, Path]:
    """Two tiny runs that the commands of all pages share: the arm, and an environment of one's own."""
    made = {}
    for task in (ARM, REACHER):
        path = folder / task.rpartition("/")[2].replace(":", "_")
        assert main(_short_train(["train", "--task", task, "--run-dir", str(path)])) == 0
        made[task] = path
    return made
