"""The subcommand `top-erl inspect`: pictures of what a trained policy and its critic do."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.text import Text

from top_erl.agent import Which
from top_erl.algorithms.registry import find_method
from top_erl.cli.parsing import parse
from top_erl.errors import UserError
from top_erl.experiment.folder import RunFolder
from top_erl.experiment.zoo import in_zoo
from top_erl.inspection.opening import heading, opened
from top_erl.inspection.record import FOLDER, check_folder
from top_erl.inspection.run import Inspection, inspect_run
from top_erl.report.page.html import size_text

INSPECT_HELP = """\
Look inside a trained policy: pictures, in words, and on a page.

  top-erl inspect RUN                         into RUN/inspection; `top-erl report` shows them too
  top-erl inspect RUN -o FOLDER --which best  the best checkpoint, into a folder of your choice
  top-erl inspect RUN --ranking-contexts 0    without playing movements for the critic's ranking
"""


@dataclass(frozen=True)
class InspectOptions:
    """Options of `top-erl inspect`."""

    run_dir: Annotated[Path, tyro.conf.Positional]
    """Folder of the run, or of a saved agent; or zoo/NAME, an agent that comes with the package."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """Folder to write; default: inspection in the run's folder."""
    contexts: int = 3
    """Fresh contexts whose movements are drawn, at most 12."""
    ranking_contexts: int = 16
    """Fresh contexts in which 16 movements each are played, to see how the critic ranks them; 0: none."""
    seed: int = 0
    """Which fresh contexts."""
    which: Which = "last"
    """Which checkpoint of the run to look at: the last one, or the one with the best evaluation."""
    previous: bool = False
    """Fall back to an earlier checkpoint if the newest is damaged."""
    task: str | None = None
    """Name the run's task if it is code of your own, module:Class."""
    device: str | None = None
    """Torch device to use instead of the run's, e.g. cpu. (No GPU was at hand to try others.)"""


def inspect(words: list[str]) -> int:
    """Look inside a trained policy."""
    options = parse(InspectOptions, words, prog="top-erl inspect", description=INSPECT_HELP)
    if not 1 <= options.contexts <= 12:
        raise UserError(f"--contexts is a number from 1 to 12, not {options.contexts}.")
    if min(options.ranking_contexts, options.seed) < 0:
        raise UserError("--ranking-contexts and --seed must not be negative.")
    folder = in_zoo(options.run_dir)
    method = RunFolder.open(folder).config().method
    if find_method(method).acts_by_steps:
        raise UserError(
            f"{method} chooses an action at every step and has no movements to look into; to see what it does, film "
            f"it: top-erl evaluate {options.run_dir} --video film.mp4."
        )
    if options.output is None and folder != options.run_dir:
        raise UserError(f"Say where to write the pictures of {options.run_dir}: add -o FOLDER.")
    output = options.output or options.run_dir / FOLDER
    check_folder(output)
    console = Console()
    found = _look(console, options, output.absolute())  # an environment may change the directory
    size = size_text(found.page.stat().st_size)
    console.out(f"\nwrote {output / found.page.name} ({size}): open it in a browser", highlight=False)
    return 0


def _look(console: Console, options: InspectOptions, output: Path) -> Inspection:
    """Load the agent, make everything, and print what was found."""
    how = {"which": options.which, "previous": options.previous, "device": options.device}
    with opened(options.run_dir, options.task, **how) as agent:
        title, name = f"{heading(agent)}, {options.which} checkpoint", options.run_dir.resolve().name
        with console.status("loading") as status:
            found = inspect_run(
                agent,
                output,
                seed=options.seed,
                contexts=options.contexts,
                ranking_contexts=options.ranking_contexts,
                subtitle=f"{options.which} checkpoint of {name}, fresh contexts of seed {options.seed}",
                begins=status.update,
            )
    _print(console, title, found)
    return found


def _print(console: Console, title: str, found: Inspection) -> None:
    """What each picture says."""
    wrap = textwrap.TextWrapper(min(console.width, 100), initial_indent="  ", subsequent_indent="  ")
    console.print(Text(title, style="bold"))
    for finding in found.findings:
        console.print(Text.assemble("\n", (finding.title, "bold cyan"), f"  {finding.kind}.png"))
        console.out(wrap.fill(finding.sentence), highlight=False)
    if found.left_out:
        console.print(Text("\nLeft out", style="bold yellow"))
    for sentence in found.left_out:
        console.out(wrap.fill(sentence), highlight=False)
