"""What trained policies do in Meta-World's episodes, beyond success: do they touch the object, grasp it, move it?

`python -m results.make.behaviour RUN …` plays fresh contexts with the run's policy, and ranks sampled movements by its
critic, into `behaviour.json` of the run's folder; the run needs its checkpoints. The table is made of these files.

Axes: `n` episodes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from results.make.campaign import BEHAVIOUR
from top_erl import Agent
from top_erl.algorithms.episodic import EpisodicLearner
from top_erl.errors import UserError
from top_erl.seeding import episode_seeds
from top_erl.tasks.metaworld.env import MetaworldEnv
from top_erl.tasks.metaworld.facts import task_id

EPISODES = 20
CONTEXTS = 16
"""Contexts in which movements are ranked."""
_TOUCHED = 0.5
"""`near_object` and `grasp_success` are flags, or shares for some tasks; from here on they count."""
_TAU_STEPS = 400
"""Steps of the primitive's time constant: its phase has fallen to 0.05 by then."""

Array = NDArray[np.float64]


class WatchedEnv(MetaworldEnv):
    """The environment, which keeps what it has said of every step."""

    def __init__(self, name: str) -> None:
        """Build the simulator of a task."""
        super().__init__(name, render_mode="rgb_array")
        self.said: list[dict[str, Any]] = []

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Make a step and keep its info."""
        result = super().step(action)
        self.said.append(result[-1])
        return result


def behaviour(agent: Agent) -> dict[str, float]:
    """Shares of episodes and mean distances in metres; and how the critic ranks."""
    learner = agent.training.learner
    assert isinstance(learner, EpisodicLearner)
    env = WatchedEnv(agent.config.task.removeprefix(task_id("")))
    episodes = []
    for seed in episode_seeds(0, "behaviour", 0, EPISODES):
        env.said.clear()
        agent.play(env, seed)
        episodes.append(measured(env.said))
    env.close()
    ranking = learner.rank_movements(CONTEXTS, seed=0, stream="behaviour, ranked")
    numbers = {name: float(np.mean([episode[name] for episode in episodes])) for name in episodes[0]}
    return {**numbers, "episodes": EPISODES, "ranking": ranking.mean, "ranking_error": ranking.error}


def measured(said: Sequence[dict[str, Any]]) -> dict[str, float]:
    """An episode's numbers from the infos of its steps."""

    def values(name: str) -> Array:
        return np.array([float(info[name]) for info in said])

    distance, near, grasp = values("obj_to_target"), values("near_object"), values("grasp_success")
    success = values("success")
    return {
        "near_any": float((near >= _TOUCHED).any()),
        "near_last": float(near[-1] >= _TOUCHED),
        "grasp_any": float((grasp >= _TOUCHED).any()),
        "distance_first": float(distance[0]),
        "distance_least": float(distance.min()),
        "distance_last": float(distance[-1]),
        "success_any": float(success.any()),
        "success_tau": float(success[: _TAU_STEPS + 1][-1]),
        "success_last": float(success[-1]),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure runs."""
    parser = argparse.ArgumentParser(prog="python -m results.make.behaviour", description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    for run in parser.parse_args(arguments).runs:
        try:
            with Agent.load(run) as agent:
                numbers = behaviour(agent)
        except UserError as error:
            parser.exit(1, f"{error}\n")
        (run / BEHAVIOUR).write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
        print(f"{run.name}: {', '.join(f'{name} {value:.2f}' for name, value in numbers.items())}")


if __name__ == "__main__":
    main()
