"""Agents whose weights and statistics are random: an export must carry over any of them, trained or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from top_erl import Agent, preset
from top_erl.algorithms.episodic import EpisodicLearner
from top_erl.config.changes import changed

REACHER = "top_erl/ViaPointReacher-v0"

MakeAgent = Callable[..., Agent]


@pytest.fixture(scope="session")
def make_agent() -> Iterator[MakeAgent]:
    """Make an agent on the via-point reacher with networks that do something, closed at the end."""
    made: list[Agent] = []

    def make(method: str = "top_erl", *, standardised: bool = True, **changes: Any) -> Agent:
        settings = {name.replace("__", "."): value for name, value in changes.items()}
        config = changed(preset(method, REACHER, "laptop"), {"hardware.threads": 1, "hardware.workers": 0, **settings})
        agent = Agent(config=config)
        learner = agent.training.learner
        if isinstance(learner, EpisodicLearner):
            torch.manual_seed(len(made))
            with torch.no_grad():
                for values in learner.policy.mean_net.parameters():
                    values.add_(0.03 * torch.randn_like(values))
            inputs = len(learner.policy.standardize.mean)
            if standardised:
                # narrow, so that some inputs are clipped; the time, if it is one, varies too
                learner.policy.standardize.fit(0.3 + 0.05 * torch.randn(100, inputs))
        made.append(agent)
        return agent

    yield make
    for agent in made:
        agent.close()
