"""Every command of README and docs is run, in the short way of `workshop.py`, or is marked with the reason why not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.blocks import PAGES, ROOT, SHELL, SHOWN, Block, blocks_of
from tests.docs.workshop import NOT_RUN, Workshop, forgotten_afterwards, make_runs, short_preset

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return make_runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def done() -> set[str]:
    """Commands that have been run."""
    return set()


def _blocks(page: Path) -> list[Block]:
    return [block for block in blocks_of(page) if block.language not in SHOWN]


@pytest.mark.parametrize("page", filter(_blocks, PAGES), ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_of_a_page(
    page: Path, runs: dict[str, Path], done: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("top_erl.agent.preset", short_preset)
    monkeypatch.setattr("top_erl.cli.runs.plotting_available", lambda: False)
    blocks = [block for block in blocks_of(page) if not block.not_run]
    with forgotten_afterwards():
        workshop = Workshop(tmp_path, runs, page, done)
        for block in sorted(blocks, key=lambda block: not block.file):  # files first
            workshop.run(block)


def test_no_block_is_overlooked() -> None:
    """A language that is neither run nor known to be none must be decided on; a mark says something."""
    blocks = [block for page in PAGES for block in blocks_of(page)]
    fences = sum(len(re.findall(r"^```", page.read_text(encoding="utf-8"), flags=re.MULTILINE)) for page in PAGES)
    assert 2 * len(blocks) == fences
    for block in blocks:
        assert block.language in (*SHELL, "python", *SHOWN), f"{block.where}: what is to be done with {block.language}?"
        assert not block.not_run or len(block.not_run) > 10, block.where
    commands = {" ".join(words) for block in blocks if block.language in SHELL for words in block.commands()}
    assert set(NOT_RUN) <= commands
    assert len(commands) > 80


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("```\nrobotctl start\n```\n", "`robotctl` is a command that nobody runs"),
        ("```\ntop-erl tasks --colour\n```\n", "ended with 2"),
        ("```\ntop-erl train --learn.batchsize 3\n```\n", "ended with 2"),
        ("```\nmake coffee\n```\n", "returned non-zero exit status 2"),
        ("```\npip install -c constraints.txt -e '.[tea]'\n```\n", "tea"),
        ("```python\nfrom top_erl import Robot\n```\n", "cannot import name 'Robot'"),
    ],
)
def test_what_does_not_work_is_noticed(
    text: str, sentence: str, runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = blocks_of(ROOT / "README.md", text)
    with forgotten_afterwards(), pytest.raises(Exception, match=re.escape(sentence)):
        Workshop(tmp_path, runs, block.page, set()).run(block)


def test_marks_are_read() -> None:
    text = "<!-- not run: needs a robot -->\n```\nrobotctl\n```\n\n"
    text += "<!-- file: a.py -->\n```python\nx = 1\n```\n```text\n\n```\n"
    first, second, third = blocks_of(ROOT / "README.md", text)
    assert (first.not_run, first.line, first.commands()) == ("needs a robot", 2, [["robotctl"]])
    assert (second.file, second.text, second.language) == ("a.py", "x = 1\n", "python")
    assert (third.not_run, third.file, third.line) == ("", "", 10)
