"""What a training run shows: a live bar with the numbers that matter, or plain lines when not in a terminal."""

from __future__ import annotations

import threading
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column

from top_erl.experiment.metrics_file import Row

_NARROW = 80
"""Columns of a terminal below which the bar leaves out how exploration does."""


class Display:
    """Shows the progress of a run; use as a context manager."""

    def __init__(self, console: Console, total_iterations: int, done: int) -> None:
        """Prepare the bar."""
        self.console = console
        self.total = total_iterations
        self._last_evaluation = ""
        self._bar = Progress(
            BarColumn(bar_width=None),  # takes what the numbers leave of the line
            MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}", table_column=Column(no_wrap=True, overflow="ellipsis")),
            TimeRemainingColumn(elapsed_when_finished=False),
            TextColumn("left"),
            console=console,
            disable=not console.is_terminal,
            speed_estimate_period=120.0,
            expand=True,
        )
        self._task = self._bar.add_task("training", total=total_iterations, completed=done, numbers="")

    def __enter__(self) -> Display:
        """Start drawing."""
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop drawing."""
        self._bar.stop()

    def announce(self, prefill: int, evaluated: int) -> None:
        """Say why the first numbers take a while: the first iteration has more to do than the others."""
        before = f"{prefill} episodes to start from, and " if prefill else ""
        self.console.out(f"First come {before}an evaluation on {evaluated} episodes.", highlight=False)
        self._bar.update(self._task, numbers="the first iteration is the longest")

    def finishing(self, iteration: int) -> None:
        """Say that a run stops after an iteration; may be called while something else is being written."""
        sentence = f"Finishing iteration {iteration} and saving; Ctrl-C again breaks off at once."
        # In a thread of its own: a signal may come in the middle of a write, which must not be interrupted by another.
        threading.Thread(target=self.console.out, args=(sentence,), kwargs={"highlight": False}, daemon=True).start()

    def say(self, sentence: str) -> None:
        """Show a sentence."""
        self.console.out(sentence, highlight=False)

    def show(self, row: Row) -> None:
        """Show an iteration; evaluations get a line of their own."""
        if "evaluation_return" in row:
            self._last_evaluation = _evaluation_text(row)
            # A log has one line per evaluation, however long; in a terminal a line ends where the window does.
            width = self.console.width if self.console.is_terminal else None
            self.console.out(_fitting(self._line(row), width), highlight=False)
        numbers = self._last_evaluation
        if self.console.width >= _NARROW and "exploration_return" in row:
            numbers = f"{numbers}  exploring {row['exploration_return']:.4g}".strip()
        self._bar.update(self._task, completed=row["iteration"], numbers=numbers)

    def _line(self, row: Row) -> list[str]:
        """The numbers of an evaluation, those that matter first."""
        steps, seconds = int(row["env_steps"]), int(row["wall_time"])
        counted = f"iteration {int(row['iteration']):>5}/{self.total}  {steps:>9,} steps"
        return [counted, f"{seconds // 60:>3}:{seconds % 60:02d}", _evaluation_text(row, 8), *_learning_text(row)]


def _fitting(parts: list[str], width: int | None) -> str:
    """Join as many parts as fit into a width, at least the first; all of them if there is no width."""
    line = parts[0]
    for part in parts[1:]:
        if width is not None and len(line) + 2 + len(part) > width:
            break
        line = f"{line}  {part}"
    return line


def _evaluation_text(row: Row, digits: int = 0) -> str:
    """Success and return; the return takes up at least so many digits, so that lines stand below each other."""
    score = row["evaluation_return"]
    words = [f"return {score:{digits}.2f}" if digits else f"return {score:.4g}"]
    if "evaluation_success" in row:
        words.insert(0, f"success {row['evaluation_success']:.2f}")
    return "  ".join(words)


def _learning_text(row: Row) -> list[str]:
    names = {"critic_loss": "critic loss", "entropy": "entropy", "kl_to_anchor": "KL"}
    return [f"{label} {row[name]:.3g}" for name, label in names.items() if name in row]
