"""What a run shows: plain lines in a log, a bar in a terminal."""

from __future__ import annotations

import re
import time
from io import StringIO

import pytest
from rich.console import Console

from top_erl.experiment.display import Display

ROW = {"iteration": 3.0, "env_steps": 12_345.0, "wall_time": 75.2, "critic_loss": 0.51234, "entropy": 12.5}
EVALUATED = {**ROW, "evaluation_return": -3.25, "evaluation_success": 0.75, "kl_to_anchor": 0.01}


def _shown(*rows: dict[str, float], terminal: bool) -> str:
    text = StringIO()
    console = Console(file=text, force_terminal=terminal, width=80 if terminal else 60)
    with Display(console, total_iterations=200, done=2) as display:
        for row in rows:
            display.show(row)
    return text.getvalue()


def test_a_log_gets_one_line_per_evaluation_however_narrow() -> None:
    lines = _shown(ROW, EVALUATED, {**ROW, "iteration": 4.0}, terminal=False).splitlines()
    assert lines == [
        "iteration     3/200     12,345 steps    1:15  success 0.75  return    -3.25  "
        "critic loss 0.512  entropy 12.5  KL 0.01"
    ]


def test_tasks_without_success() -> None:
    row = {name: value for name, value in EVALUATED.items() if name != "evaluation_success"}
    (line,) = _shown(row, terminal=False).splitlines()
    assert "return    -3.25" in line
    assert "success" not in line


def test_a_terminal_gets_a_bar() -> None:
    shown = _shown(EVALUATED, {**ROW, "iteration": 4.0, "exploration_return": -7.125}, terminal=True)
    assert "\x1b[" in shown
    assert "4/200" in shown
    assert "success 0.75" in shown
    assert "exploring -7.125" in shown  # between evaluations there is something to look at as well


@pytest.mark.parametrize("score", [-3.25, -12_345.678])
def test_nothing_is_wider_than_a_terminal_of_80_columns(score: float) -> None:
    first = {**EVALUATED, "evaluation_return": score, "exploration_return": score, "iteration": 1234.0}
    rows = [first, {**ROW, "exploration_return": score}]
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", _shown(*rows, terminal=True))
    lines = [line.rstrip() for line in re.split(r"[\r\n]+", shown)]
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("iteration") and "success 0.75" in line for line in lines)
    assert any("exploring" in line and line.endswith("left") for line in lines)


def test_the_first_iteration_and_an_interruption_are_announced() -> None:
    text = StringIO()
    with Display(Console(file=text, width=80), total_iterations=200, done=0) as display:
        display.announce(prefill=32, evaluated=50)
        display.finishing(7)
        until = time.monotonic() + 30.0
        while "Finishing" not in text.getvalue() and time.monotonic() < until:
            time.sleep(0.01)
    assert text.getvalue() == (
        "First come 32 episodes to start from, and an evaluation on 50 episodes.\n"
        "Finishing iteration 7 and saving; Ctrl-C again breaks off at once.\n"
    )


def test_colours_and_brackets_do_not_get_into_a_log() -> None:
    assert "\x1b" not in _shown(EVALUATED, terminal=False)
