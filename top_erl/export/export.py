"""Writing an exported policy: the graph, its card, and nothing at all if they are not right."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from top_erl.agent import Agent
from top_erl.algorithms.episodic import EpisodicLearner
from top_erl.errors import UserError
from top_erl.export.card import policy_card
from top_erl.export.graph import policy_graph
from top_erl.export.parity import CONTEXTS, check_parity
from top_erl.limits import Limits
from top_erl.rollout.replanning import plan_every
from top_erl.runtime.policy import Policy


def check_free(*files: Path, force: bool) -> None:
    """Refuse to replace files unless that was asked for."""
    there = [file for file in files if file.exists()]
    if there and not force:
        raise UserError(f"{there[0]} is there already; give another name with -o, or --force to replace it.")


def card_path(output: Path) -> Path:
    """Where the card of a graph is written; a name that would not do is refused."""
    if output.suffix != ".onnx":
        raise UserError(f"An exported policy is written to a file that ends in .onnx, not to {output}.")
    return output.with_suffix(".json")


def episodic(agent: Agent) -> EpisodicLearner:
    """The learner of a policy over movements; other policies are refused."""
    learner = agent.training.learner
    if isinstance(learner, EpisodicLearner):
        return learner
    raise UserError(
        f"{agent.config.method} chooses an action at every step and plans no reference: runs of top_erl, tce, bbrl_cov "
        "or bbrl_std can be exported."
    )


def export_policy(
    agent: Agent, output: Path, *, limits: Limits | None = None, force: bool = False
) -> tuple[Path, dict[str, Any]]:
    """Write the graph of an agent's policy and its card, after comparing it with the agent.

    Args:
        agent: Of an episodic method, trained or not.
        output: The graph, `….onnx`; the card is written beside it, `….json`.
        limits: What the robot can do, for the card.
        force: Replace files that are there.

    Returns:
        The card's path, and the card.
    """
    card_file = card_path(output)
    check_free(output, card_file, force=force)
    learner = episodic(agent)
    if limits is not None:
        limits.check_size(learner.collector.spec.num_dof)
    model = policy_graph(learner)
    card = policy_card(agent, model, limits, plan_every(learner.collector))
    policies = {"numpy": Policy(model, card), "onnxruntime": Policy(model, card, "onnxruntime")}
    card["parity"] = {"contexts": CONTEXTS, "largest_difference": check_parity(agent, policies)}
    text = json.dumps(card, indent=2, ensure_ascii=False) + "\n"
    _write_both({output: model, card_file: text.encode()}, output)
    return card_file, card


def _write_both(files: dict[Path, bytes], output: Path) -> None:
    """Write files beside their names first; a graph and a card that do not belong together are refused when loaded."""
    folder = output.with_name(f".{output.name}.writing")
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for file, content in files.items():
            (folder / file.name).write_bytes(content)
        for file in files:
            os.replace(folder / file.name, file)
    except OSError as error:
        raise UserError(f"Cannot write {output}: {error}.") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
