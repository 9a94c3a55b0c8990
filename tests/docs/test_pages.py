"""What README and docs say between the commands: links, options, and the site itself."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import PAGES, ROOT
from top_erl.algorithms.registry import METHODS
from top_erl.cli.check import CheckOptions
from top_erl.cli.command import _MODULES
from top_erl.cli.export import ExportOptions
from top_erl.cli.inspect import InspectOptions
from top_erl.cli.report import CompareOptions, ReportOptions
from top_erl.cli.runs import EvaluateOptions, ResumeOptions
from top_erl.cli.show import PlotOptions, TasksOptions
from top_erl.cli.sweeps import StatusOptions, SweepOptions
from top_erl.config.option_names import options_of

ROOT_PAGES = [ROOT / f"{name}.md" for name in ("SECURITY", "CHANGELOG", "CONTRIBUTING")]
ALL = [*PAGES, *ROOT_PAGES, *sorted((ROOT / "results").rglob("*.md"))]
OTHERS = {
    "no-deps": "pip",
    **dict.fromkeys(("minutes", "only", "quick", "table"), "make faults"),
    **dict.fromkeys(("partition", "rounds", "take"), "sbatch, benchmarks and results"),
}
"""Options of other programs."""


def _prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


# ---------------------------------------------------------------------- links


def _anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as code hosts and MyST make them."""
    headings = re.findall(r"^#+ (.+)$", _prose(page), flags=re.MULTILINE)
    plain = (re.sub(r"[`*]|\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in plain}


def _dead_links(page: Path, text: str) -> list[str]:
    """Links of a page to files or headings that do not exist."""
    dead = []
    for link in (*re.findall(r"\]\(([^)\s]+)\)", text), *re.findall(r'src="([^"]+)"', text)):
        name, _, anchor = link.partition("#")
        if link.startswith(("http://", "https://")):
            continue
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            dead.append(link)
    return dead


@pytest.mark.parametrize("page", ALL, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_dead_links(page: Path) -> None:
    assert _dead_links(page, _prose(page)) == []


def test_dead_links_are_found() -> None:
    page = ROOT / "docs" / "tasks.md"
    text = "[a](export.md) [b](#scales) [c](methods.md#side-by-side) [d](nothing.md) [e](#nowhere) [f](methods.md#no)"
    assert _dead_links(page, text) == ["nothing.md", "#nowhere", "methods.md#no"]


# ---------------------------------------------------------------------- options and commands in sentences


def _options() -> dict[str, set[str]]:
    """Options of every command."""
    kinds = {
        **{"resume": ResumeOptions, "evaluate": EvaluateOptions, "export": ExportOptions, "plot": PlotOptions},
        **{"status": StatusOptions, "report": ReportOptions, "compare": CompareOptions, "tasks": TasksOptions},
        **{"check": CheckOptions, "methods": None, "sweep": SweepOptions, "inspect": InspectOptions},
    }
    found = {name: {option for option, _, _ in options_of(kind)} if kind else set() for name, kind in kinds.items()}
    found["train"] = {option for method in METHODS for option, _, _ in options_of(method.run)} | {"run-dir", "config"}
    found["sweep"] |= found["train"]
    return {name: options | {"help", "import"} for name, options in found.items()}


def _unknown_options(text: str) -> list[str]:
    """Options and commands in code spans that do not exist."""
    known, unknown = _options(), []
    assert set(known) == set(_MODULES)
    for span in re.findall(r"(?<!`)`([^`]+)`", text):
        words = span.split()
        command = words[1] if words[0] == "top-erl" and len(words) > 1 else ""
        if words[0] not in ("top-erl", "make", "sbatch") and not words[0].startswith("--"):
            continue
        if command and command not in known and not command.startswith("-") and command != "COMMAND":
            unknown.append(span)
        allowed = known.get(command) or set().union(*known.values(), OTHERS, {"version"})
        for option in re.findall(r"--([a-z][\w.-]*)", span):
            name = option.rstrip(".").replace("_", "-")
            parts = name.rpartition(".")
            plain = f"{parts[0]}{parts[1]}{parts[2].removeprefix('no-')}"
            if not {name, plain} & allowed and not any(each.startswith(f"{name}.") for each in allowed):
                unknown.append(span)
    return unknown


@pytest.mark.parametrize("page", ALL, ids=lambda page: str(page.relative_to(ROOT)))
def test_options_in_sentences_exist(page: Path) -> None:
    assert _unknown_options(_prose(page)) == []


def test_unknown_options_are_found() -> None:
    right = "`--learn.target v`, `--log.wandb`, `--collect.no-overlap`, `top-erl resume RUN --threads 1`"
    assert _unknown_options(right) == []
    wrong = ["--learn.targets v", "top-erl resume RUN --episodes 1", "top-erl rain"]
    assert _unknown_options(" ".join(f"`{span}`" for span in wrong)) == wrong


# ---------------------------------------------------------------------- the site


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    """As `make docs` does, into another folder; a page in no menu, a dead link and a torn docstring are warnings."""
    pytest.importorskip("myst_parser")
    (line,) = (line for line in (ROOT / "Makefile").read_text(encoding="utf-8").splitlines() if "-m sphinx" in line)
    words = line.replace("$(BIN)/python", sys.executable).replace("docs/_site", str(tmp_path)).split()
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    pages = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.html")}
    assert {"index.html", "docs/index.html", "results/README.html", "docs/reference/agent.html"} <= pages
    for method in METHODS:
        text = (tmp_path / "docs" / "hyperparameters" / f"{method.name}.html").read_text(encoding="utf-8")
        assert 'id="scale-laptop"' in text
        assert 'id="scale-paper"' in text
        assert "--total-env-steps" in text
    agent = (tmp_path / "docs" / "reference" / "agent.html").read_text(encoding="utf-8")
    assert "Train for (at least) this many more control steps." in agent


def test_pictures_of_the_concepts_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    runpy.run_path(str(ROOT / "docs" / "make_concepts.py"))["main"](tmp_path)
    drawn = {path.name for path in tmp_path.iterdir()}
    assert drawn == {path.name for path in (ROOT / "docs").glob("concepts_*.png")}
