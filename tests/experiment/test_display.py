"""What a run shows: plain lines in a log, a bar in a terminal."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from top_erl.experiment.display import Display

ROW = {"iteration": 3.0, "env_steps": 12_345.0, "wall_time": 75.2, "critic_loss": 0.51234, "entropy": 12.5}
EVALUATED = {**ROW, "evaluation_return": -3.25, "evaluation_success": 0.75, "kl_to_anchor": 0.01}


def _shown(*rows: dict[str, float], terminal: bool) -> str:
    text = StringIO()
    console = Console(file=text, force_terminal=terminal, width=100 if terminal else 60)
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
    shown = _shown(EVALUATED, {**ROW, "iteration": 4.0}, terminal=True)
    assert "\x1b[" in shown
    assert "training" in shown
    assert "4/200" in shown
    assert "success 0.75" in shown


def test_colours_and_brackets_do_not_get_into_a_log() -> None:
    assert "\x1b" not in _shown(EVALUATED, terminal=False)
