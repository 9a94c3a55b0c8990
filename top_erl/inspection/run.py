"""Looking inside one trained policy: all pictures that its method has, each with a sentence, and a page of them.

inspect_run(agent, Path("runs/a/inspection"))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from top_erl.agent import Agent
from top_erl.errors import UserError
from top_erl.inspection.canvas import pyplot
from top_erl.inspection.correlation import correlation_map, plot_correlations
from top_erl.inspection.opening import episodic_learner, heading
from top_erl.inspection.page import write_page
from top_erl.inspection.ranking import movement_ranking, plot_ranking
from top_erl.inspection.reconditioning import plot_reconditioning, reconditioned
from top_erl.inspection.record import TITLES, Finding, claim_folder, write_findings
from top_erl.inspection.spread import plot_spread, spread_of
from top_erl.inspection.values import critic_values, plot_values
from top_erl.inspection.words import (
    Words,
    correlation_words,
    ranking_words,
    segments_words,
    spread_words,
    values_words,
)

Say = Callable[[str], None]


@dataclass(frozen=True)
class Inspection:
    """What was found inside a policy."""

    page: Path
    findings: list[Finding]
    left_out: list[str]
    """Why pictures are missing, in sentences."""


def inspect_run(
    agent: Agent,
    folder: Path,
    *,
    seed: int = 0,
    contexts: int = 3,
    ranking_contexts: int = 16,
    subtitle: str = "",
    begins: Say = lambda title: None,
) -> Inspection:
    """Draw what a trained policy and its critic have to show, and write a page of it.

    Args:
        agent: The agent; of a step-based method it is refused.
        folder: Where everything goes; refused if it holds anything else.
        seed: Chooses contexts and exploration.
        contexts: Contexts whose movements are drawn.
        ranking_contexts: Contexts in which 16 movements each are played to see how the critic ranks them; 0: none.
        subtitle: Stands below the page's title.
        begins: Is told the title of each picture before it is made.
    """
    episodic_learner(agent)
    with pyplot():
        pass  # say first that matplotlib is missing, if it is
    claim_folder(folder)
    title = heading(agent)
    findings, left_out = [], []
    for kind, draw in _pictures(agent, title, seed, contexts, ranking_contexts).items():
        begins(TITLES[kind])
        try:
            sentence, numbers = draw(folder / kind)
            findings.append(Finding(kind, sentence, numbers))
        except UserError as error:
            left_out.append(f"{TITLES[kind]}: {error}")
    config = agent.config
    facts = {"top_erl": version("top-erl"), "method": config.method, "task": config.task, "seed": config.seed}
    try:
        write_findings(folder, {**facts, "env_steps": agent.num_timesteps, "left_out": left_out}, findings)
        page = write_page(folder, title, subtitle, findings, left_out)
    except OSError as error:
        raise UserError(f"Cannot write to {folder}: {error.strerror}.") from None
    return Inspection(page, findings, left_out)


def _pictures(
    agent: Agent, title: str, seed: int, contexts: int, ranking_contexts: int
) -> dict[str, Callable[[Path], Words]]:
    """How each kind of picture is made; what it says comes back."""

    def spread(output: Path) -> Words:
        found = spread_of(agent, seed, contexts)
        plot_spread(found, title, output)
        return spread_words(found)

    def correlation(output: Path) -> Words:
        found = correlation_map(agent, seed)
        plot_correlations([found], output)
        return correlation_words(found)

    def segments(output: Path) -> Words:
        found = reconditioned(agent, seed)
        plot_reconditioning(found, title, output)
        return segments_words(found)

    def values(output: Path) -> Words:
        found = critic_values(agent, seed)
        plot_values(found, title, output)
        return values_words(found)

    def ranking(output: Path) -> Words:
        found = movement_ranking(agent, seed, ranking_contexts)
        plot_ranking(found, title, output)
        return ranking_words(found)

    made = {"spread": spread, "correlation": correlation, "segments": segments, "values": values, "ranking": ranking}
    return {kind: draw for kind, draw in made.items() if kind != "ranking" or ranking_contexts}
