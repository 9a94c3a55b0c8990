"""The subcommand `top-erl export`: from a trained policy to files that a robot can use."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from top_erl.agent import Agent, Which
from top_erl.cli.parsing import parse
from top_erl.config.serialize import read_yaml
from top_erl.export.export import card_path, check_free, export_policy
from top_erl.export.references import export_references
from top_erl.limits import Limits

EXPORT_HELP = """\
Write a trained policy as one ONNX graph, or references for given contexts.

  top-erl export RUN                                        policy.onnx, and its card policy.json
  top-erl export RUN -o arm.onnx --limits limits.yaml       ... with the robot's limits in the card
  top-erl export RUN --csv contexts.csv -o references.csv   references for contexts of yours
"""


@dataclass(frozen=True)
class ExportOptions:
    """Options of `top-erl export`."""

    run_dir: Annotated[Path, tyro.conf.Positional]
    """Folder of the run, or of a saved agent; or zoo/NAME, an agent that comes with the package."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """File to write: policy.onnx if not given, or references.csv with --csv."""
    csv: Path | None = None
    """Write references for the contexts in this file instead: rows of an observation, or of an observation, a measured
    position and a measured velocity."""
    limits: Path | None = None
    """YAML or JSON file with limits of position, velocity or acceleration: written into the card, or with --csv what
    references are held to."""
    force: bool = False
    """Replace files that are there."""
    which: Which = "last"
    """Which checkpoint of the run to export: the last one, or the one with the best evaluation."""
    previous: bool = False
    """Fall back to an earlier checkpoint if the newest is damaged."""
    task: str | None = None
    """Name the run's task if it is code of your own, module:Class."""


def export(words: list[str]) -> int:
    """Export a policy, or references."""
    options = parse(ExportOptions, words, prog="top-erl export", description=EXPORT_HELP)
    output = options.output or Path("policy.onnx" if options.csv is None else "references.csv")
    check_free(output, *(() if options.csv else (card_path(output),)), force=options.force)
    given = None if options.limits is None else read_yaml(options.limits)  # JSON is YAML too
    agent = Agent.load(options.run_dir, task=options.task, device="cpu", previous=options.previous, which=options.which)
    try:
        return _export(agent, output, options, given)
    finally:
        agent.close()


def _export(agent: Agent, output: Path, options: ExportOptions, given: object) -> int:
    """Write, and say what was written."""
    console = Console()
    limits = None if options.limits is None else Limits.from_dict(given, agent.training.spec.num_dof)
    if options.csv is not None:
        count = export_references(agent, options.csv, output, limits=limits, force=options.force)
        console.out(f"References of {count} context(s): {output}", highlight=False)
        return 0
    card_file, card = export_policy(agent, output, limits=limits, force=options.force)
    largest = max(card["parity"]["largest_difference"].values())
    console.out(
        f"{output} ({output.stat().st_size / 1024:.0f} KB) with its card {card_file}: differs from the policy by at "
        f"most {largest:.1g} on {card['parity']['contexts']} fresh contexts.",
        highlight=False,
    )
    return 0
