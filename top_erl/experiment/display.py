"""What a training run shows: a live bar with the numbers that matter, or plain lines when not in a terminal."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from top_erl.experiment.metrics_file import Row


class Display:
    """Shows the progress of a run; use as a context manager."""

    def __init__(self, console: Console, total_iterations: int, done: int) -> None:
        """Prepare the bar."""
        self.console = console
        self.total = total_iterations
        self._last_evaluation = ""
        self._bar = Progress(
            TextColumn("[bold]training"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(elapsed_when_finished=False),
            console=console,
            disable=not console.is_terminal,
            speed_estimate_period=120.0,
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

    def show(self, row: Row) -> None:
        """Show an iteration; evaluations get a line of their own."""
        if "evaluation_return" in row:
            self._last_evaluation = _evaluation_text(row)
            steps, seconds = int(row["env_steps"]), int(row["wall_time"])
            self.console.out(  # never wrapped, so that a log has one line per evaluation
                f"iteration {int(row['iteration']):>5}/{self.total}  {steps:>9,} steps  "
                f"{seconds // 60:>3}:{seconds % 60:02d}  {self._last_evaluation}  {_learning_text(row)}",
                highlight=False,
            )
        self._bar.update(self._task, completed=row["iteration"], numbers=self._last_evaluation)


def _evaluation_text(row: Row) -> str:
    words = [f"return {row['evaluation_return']:8.2f}"]
    if "evaluation_success" in row:
        words.insert(0, f"success {row['evaluation_success']:.2f}")
    return "  ".join(words)


def _learning_text(row: Row) -> str:
    names = {"critic_loss": "critic loss", "entropy": "entropy", "kl_to_anchor": "KL"}
    return "  ".join(f"{label} {row[name]:.3g}" for name, label in names.items() if name in row)
