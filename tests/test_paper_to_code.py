"""The table from the paper to the code names things that exist, and every equation and line of Algorithm 1."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

TEXT = (Path(__file__).parents[1] / "docs" / "paper_to_code.md").read_text(encoding="utf-8")
ROOMS = "algorithms|inspection|models|primitives|rollout|tasks|trust_region"
NAMES = sorted(set(re.findall(rf"`((?:{ROOMS})\.[\w.]+)`", TEXT)))


def _find(name: str) -> object:
    """Import the longest module that a dotted name begins with, and walk on from there."""
    words = name.split(".")
    for count in range(len(words), 0, -1):
        try:
            found: object = importlib.import_module(".".join(["top_erl", *words[:count]]))
        except ModuleNotFoundError:
            continue
        for word in words[count:]:
            found = getattr(found, word)
        return found
    raise AssertionError(f"no module for {name}")


@pytest.mark.parametrize("name", NAMES)
def test_every_name_exists(name: str) -> None:
    assert _find(name) is not None


def test_nothing_is_left_out() -> None:
    algorithm, equations = TEXT.split("## Equations")
    lines = [int(number) for number in re.findall(r"^\| (\d+) \|", algorithm, flags=re.MULTILINE)]
    assert lines == list(range(1, 16))
    found = {int(number) for number in re.findall(r"^\| (\d+)[ ,]", equations.split("## Sections")[0], re.MULTILINE)}
    assert found == {1, *range(3, 12)}  # 1 and 2 share a row
    assert len(NAMES) > 40


def test_a_name_that_does_not_exist_is_noticed() -> None:
    with pytest.raises(AttributeError):
        _find("models.transformer.TransformerCritic.forwards")
