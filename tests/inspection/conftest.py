"""Agents to look at, whose networks are far from their start."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

from top_erl.agent import Agent
from top_erl.algorithms.episodic import EpisodicLearner
from top_erl.config.run import RunConfig
from top_erl.hardware.choice import Hardware

REACHER = "top_erl/ViaPointReacher-v0"
MakeAgent = Callable[..., Agent]


@torch.no_grad()
def _disturb(module: nn.Module, size: float, generator: torch.Generator) -> None:
    for parameter in module.parameters():
        parameter.add_(size * torch.randn(parameter.shape, generator=generator).to(parameter))


@pytest.fixture
def make_agent() -> Iterator[MakeAgent]:
    """Make agents that are closed after the test: of a method on the reacher, or of a configuration."""
    made: list[Agent] = []

    def make(method: str = "top_erl", config: RunConfig | None = None) -> Agent:
        where: dict[str, Any] = {"config": config} if config else {"task": REACHER, "method": method}
        agent = Agent(**where, hardware=Hardware(1, 0))
        made.append(agent)
        learner = agent.training.learner
        assert isinstance(learner, EpisodicLearner)
        generator = torch.Generator().manual_seed(5)
        for name, module in learner._modules().items():
            _disturb(module, 0.2 if name == "policy" else 0.05, generator)
        return agent

    yield make
    for agent in made:
        agent.close()
