"""Whether an exported graph plans what the agent predicts.

Axes: `B` contexts, `D` degrees of freedom.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from top_erl.agent import Agent
from top_erl.errors import UserError
from top_erl.primitives import Reference
from top_erl.rollout.player import LocalPlayer
from top_erl.runtime.policy import Policy
from top_erl.seeding import derive, episode_seeds

Array = NDArray[np.float64]

CONTEXTS = 64
TOLERANCE = 1e-5
"""In the units of the reference; above 1, as a share of its largest value. Networks compute in single precision, and no
two libraries add in the same order: of a velocity of 30 rad/s, 1e-5 rad/s is beyond the last digit."""
_CHUNK = 16  # episodes begun at once; bounds the simulators alive
_MOVED = 0.1
"""Standard deviation of what is added to measured states: tasks often begin at rest, which would hide a fault."""


def fresh_contexts(agent: Agent, count: int = CONTEXTS) -> tuple[Array, Array, Array]:
    """Observations of fresh episodes, [B, S], and the measured positions and velocities, [B, D], moved a little."""
    seeds = episode_seeds(agent.config.seed, "export", 0, count)
    player = LocalPlayer(agent.training.task)
    starts = [player.begin(seeds[first : first + _CHUNK]) for first in range(0, count, _CHUNK)]
    random = np.random.default_rng(derive(agent.config.seed, "export state", 0))
    observation, position, velocity = (
        np.concatenate([getattr(start, name) for start in starts]) for name in ("observation", "position", "velocity")
    )
    noise = _MOVED * random.standard_normal((2, *position.shape))
    return observation, position + noise[0], velocity + noise[1]


def check_parity(agent: Agent, policies: dict[str, Policy]) -> dict[str, float]:
    """The largest difference to `Agent.predict` of each policy, by name; one above the tolerance is refused.

    A policy that replans is compared at every plan of an episode, from a reference that is not where it began.
    """
    contexts = fresh_contexts(agent)
    every = next(iter(policies.values())).plan_every
    steps = range(0, agent.training.spec.horizon, every) if every else (0,)
    largest = dict.fromkeys(policies, 0.0)
    for step in steps:
        wanted, later = _expected(agent, contexts, step)
        allowed = TOLERANCE * max(1.0, float(np.abs(wanted).max()))
        for name, policy in policies.items():
            planned = policy(*contexts, **later)
            difference = float(np.abs(np.concatenate((planned.position, planned.velocity), axis=-1) - wanted).max())
            if not difference <= allowed:  # NaN too
                raise UserError(
                    f"Nothing was exported: computed by {name}, the graph differs from the policy by {difference:.2g}, "
                    f"and {allowed:.2g} is allowed; a primitive of one's own must be what its matrix `basis` says."
                )
            largest[name] = max(largest[name], difference)
    return largest


def _expected(agent: Agent, contexts: tuple[Array, Array, Array], step: int) -> tuple[Array, dict[str, Any]]:
    """What the agent predicts at a step, [B, T - step, 2D], and what else a policy must be told for it."""
    observation, position, velocity = contexts
    if not step:
        expected, later = agent.predict(*contexts), {}
    else:
        origin = position + _MOVED
        reference = np.concatenate((position, velocity), axis=-1)
        expected = agent.predict(observation, step=step, reference=reference, origin=origin)
        later = {"step": step, "origin": origin}
    assert isinstance(expected, Reference)
    return expected.stacked().numpy(), later
