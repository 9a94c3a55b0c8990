"""All figures that trained policies have, of the runs given: one of each kind for every method and task.

draw_policies([Path("runs/a"), Path("runs/b")], Path("report/policies"))
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from top_erl.agent import Agent
from top_erl.algorithms.registry import find_method
from top_erl.config.run import RunConfig
from top_erl.errors import UserError
from top_erl.experiment.checkpoint import checkpoint_exists, checkpoint_paths
from top_erl.experiment.folder import RunFolder
from top_erl.inspection.canvas import pyplot, task_name
from top_erl.inspection.correlation import CorrelationMap, correlation_map, plot_correlations
from top_erl.inspection.opening import heading, opened
from top_erl.inspection.reconditioning import plot_reconditioning, reconditioned
from top_erl.inspection.spread import plot_spread, spread_of
from top_erl.inspection.values import critic_values, plot_values

_LOG = logging.getLogger("top_erl")
Say = Callable[[str], None]

CAPTIONS = {
    "correlation": "How the positions of a movement vary together, over degrees of freedom and time (App. D).",
    "spread": "References in fresh contexts: mean, two standard deviations, and samples.",
    "segments": "An old reference, the new policy's, and its segments re-conditioned on the old one (Fig. 7).",
    "values": "The critic's values along fresh episodes against what was received.",
}
"""What each kind of figure shows. The name of a figure is its kind, a hyphen, and what it is of."""


def draw_policies(
    runs: Sequence[Path],
    folder: Path,
    seed: int = 0,
    *,
    variants: Mapping[Path, str] | None = None,
    named: Collection[str] = (),
    say: Say = _LOG.info,
) -> dict[str, list[Path]]:
    """Draw what trained policies have to show; what cannot be drawn is said, and stops no other figure.

    Args:
        runs: Run folders. Of several with the same method, variant and task, that of the smallest seed is drawn.
        folder: Where the pictures go; made if it is missing.
        seed: Chooses contexts and exploration.
        variants: What tells runs of the same method and task apart, such as the parts of an ablation.
        named: Tasks that are code, `module:Class`, which the user allows to be imported.
        say: Takes a sentence about each run or figure that is left out.

    Returns:
        The PNG and the PDF file of every figure by its name, `KIND-METHOD-VARIANT-TASK` or `correlation-TASK`.
    """
    with pyplot():
        pass  # say first that matplotlib is missing, if it is
    figures: dict[str, list[Path]] = {}
    maps: dict[str, list[CorrelationMap]] = {}
    for run, config in representatives(runs, say, variants):
        variant = (variants or {}).get(run, "")
        with _saying(f"{run} is left out", say), opened(run, config.task if config.task in named else None) as agent:
            figures |= _draw_one(agent, variant, folder, seed, say)
            with _saying(f"No correlation map of {run}", say):
                maps.setdefault(config.task, []).append(replace(correlation_map(agent, seed), variant=variant))
    for task, found in maps.items():
        name = f"correlation-{_safe(task_name(task))}"
        figures[name] = plot_correlations(found, folder / name)
    return figures


def representatives(
    runs: Sequence[Path], say: Say = _LOG.info, variants: Mapping[Path, str] | None = None
) -> list[tuple[Path, RunConfig]]:
    """The run of the smallest seed for every method, variant and task, among those that have a policy to show."""
    shown: dict[tuple[str, str, str], list[tuple[Path, RunConfig]]] = {}
    for run in runs:
        with _saying(f"{run} is left out", say):
            config = RunFolder.open(run).config()
            if find_method(config.method).acts_by_steps:
                say(f"{run} is left out: {config.method} chooses an action at every step, without a movement to show.")
            elif not (checkpoint_paths(run / "checkpoints") or checkpoint_exists(run / "checkpoint")):
                say(f"{run} is left out: it has no checkpoint yet.")
            else:
                kind = (config.method, (variants or {}).get(run, ""), config.task)
                shown.setdefault(kind, []).append((run, config))
    chosen = [min(found, key=lambda one: one[1].seed) for found in shown.values()]  # the first of equal ones
    for (run, _), ((method, variant, task), found) in zip(chosen, shown.items(), strict=True):
        if len(found) > 1:
            label = " · ".join(filter(None, (method, variant)))
            say(f"{run} stands for all {len(found)} runs of {label} on {task}.")
    return chosen


def _draw_one(agent: Agent, variant: str, folder: Path, seed: int, say: Say) -> dict[str, list[Path]]:
    """The figures of one run."""
    title = heading(agent, variant)
    of = _safe("-".join(filter(None, (agent.config.method, variant, task_name(agent.config.task)))))
    kinds: dict[str, Callable[[Path], list[Path]]] = {
        "spread": lambda output: plot_spread(spread_of(agent, seed), title, output),
        "segments": lambda output: plot_reconditioning(reconditioned(agent, seed), title, output),
        "values": lambda output: plot_values(critic_values(agent, seed), title, output),
    }
    figures = {}
    for kind, draw in kinds.items():
        with _saying(f"No figure {kind!r} of {of}", say):
            figures[f"{kind}-{of}"] = draw(folder / f"{kind}-{of}")
    return figures


@contextmanager
def _saying(what: str, say: Say) -> Iterator[None]:
    """Turn what the user can mend into a sentence, and go on after the block."""
    try:
        yield
    except UserError as error:
        say(f"{what}: {error}")


def _safe(name: str) -> str:
    """A name that can be part of a file's."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", name)
