"""Help fits the terminal, and sentences about values of a wrong type need no knowledge of Python."""

import subprocess
import sys

import pytest

from top_erl.cli.command import USAGE
from top_erl.cli.layout import fitted
from top_erl.cli.parsing import _without_python

TEXT = """\
What it does, in a sentence that is longer than a narrow terminal is wide.

  top-erl short       a meaning of several words that has to be wrapped
  top-erl longer one  another meaning
"""


def test_meanings_stay_beside_their_commands_where_there_is_room() -> None:
    assert fitted(TEXT, 60).splitlines() == [
        "What it does, in a sentence that is longer than a narrow",
        "terminal is wide.",
        "",
        "  top-erl short       a meaning of several words that has to",
        "                      be wrapped",
        "  top-erl longer one  another meaning",
    ]


def test_meanings_go_below_their_commands_where_there_is_none() -> None:
    assert fitted(TEXT, 45).splitlines()[3:] == [
        "  top-erl short",
        "        a meaning of several words that has",
        "        to be wrapped",
        "  top-erl longer one",
        "        another meaning",
    ]


def test_no_word_is_lost() -> None:
    for width in (40, 60, 80, 200):
        assert fitted(USAGE, width).split() == USAGE.split()
        assert all(len(line) <= width for line in fitted(USAGE, width).splitlines())


@pytest.mark.parametrize("command", ["train", "sweep", "export", "report"])
def test_help_fits_80_columns(command: str) -> None:
    words = [sys.executable, "-m", "top_erl.cli", command, "--help"]
    done = subprocess.run(words, capture_output=True, text=True, env={"COLUMNS": "80", "PYTHONUTF8": "1"}, check=True)
    assert [line for line in done.stdout.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize(
    ("said", "better"),
    [
        (
            "Error parsing --total-env-steps: invalid literal for int() with base 10: 'nan'.",
            "--total-env-steps takes a whole number, not 'nan'.",
        ),
        (
            "Error parsing --learn.critic-rate: could not convert string to float: 'abc'.",
            "--learn.critic-rate takes a number, not 'abc'.",
        ),
        ("Missing value for argument '--seed'.", "Missing value for argument '--seed'."),
    ],
)
def test_wrong_types_are_named_in_plain_words(said: str, better: str) -> None:
    assert _without_python(said) == better
