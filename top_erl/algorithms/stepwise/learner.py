"""How step-based methods play without exploration, whatever they learn with: evaluations and films.

Axes: `B` episodes, `T` control steps.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from top_erl.algorithms.learner import StepwiseLearner
from top_erl.algorithms.setup import Setup
from top_erl.algorithms.stepwise.config import StepConfig
from top_erl.algorithms.stepwise.environments import EnvironmentPool, Observer
from top_erl.algorithms.stepwise.trials import FailureLog
from top_erl.errors import UserError
from top_erl.rollout.collector import Scores, joined_scores
from top_erl.tasks.stepping import StepEnvironment

_EVALUATION_CHUNK = 16  # episodes played together in an evaluation; bounds the simulators alive


class EnvironmentLearner(StepwiseLearner):
    """A step-based learner with step environments in this process."""

    config: StepConfig

    def __init__(self, config: StepConfig, setup: Setup) -> None:
        """Prepare the environments; none is made yet."""
        self.config, self.setup, self.spec = config, setup, setup.spec
        self.total_iterations = setup.total_iterations
        self.episodes_collected = self.env_steps = 0
        self._check_steps()
        self.observer = Observer(self.spec, config.collect.observe_time)
        self.pool = EnvironmentPool(setup.task)

    def evaluate(self, seeds: Sequence[int]) -> Scores:
        """Play the policy without exploration, one episode per seed, in batches."""
        failed = FailureLog("Evaluation episode")
        starts = range(0, len(seeds), _EVALUATION_CHUNK)
        scores = [self._play(list(seeds[first : first + _EVALUATION_CHUNK]), first, failed) for first in starts]
        return joined_scores(self.spec, scores)

    def film(self, seed: int, every: int) -> list[NDArray[np.uint8]]:
        """Play one episode without exploration; pictures, [H, W, 3], after each `every`-th step and the last."""
        environment = StepEnvironment(self.setup.task, filmed=True)
        pictures: list[NDArray[np.uint8]] = []
        try:
            environment.reset(seed)
            drawn = 0  # steps made when the last picture was drawn
            for step in range(1, self.spec.horizon + 1):
                self._step([environment], step - 1)
                if step % every and step < self.spec.horizon:
                    continue
                if environment.steps > drawn:  # an episode that is over keeps its last picture
                    picture, drawn = environment.render(), environment.steps
                pictures.append(picture)
        finally:
            environment.close()
        return pictures

    def _play(self, seeds: list[int], first: int, failed: FailureLog) -> Scores:
        """Play one episode per seed, all together; the first of them has the number `first`."""
        environments = self.pool.take(len(seeds))
        for environment, seed in zip(environments, seeds, strict=True):
            environment.reset(seed)
        reward = np.stack([self._step(environments, step) for step in range(self.spec.horizon)], axis=1)  # [B, T]
        metrics = [environment.metrics() for environment in environments]
        good = [i for i, environment in enumerate(environments) if environment.failure is None]
        for i, environment in enumerate(environments):
            if environment.failure is not None:
                failed.note(first + i, environment.failure)
        measured = {name: np.array([metrics[i][name] for i in good]) for name in self.spec.metrics}
        return Scores(reward[good].sum(-1), measured, len(seeds) - len(good))

    def _step(self, environments: Sequence[StepEnvironment], step: int) -> list[float]:
        """Make one step in environments whose episodes began together; rewards, 0 for episodes that are over."""
        actions = self.act(np.stack([environment.observation for environment in environments]), step)
        return [
            0.0 if environment.over else environment.step(action).reward
            for environment, action in zip(environments, actions, strict=True)
        ]

    def close(self) -> None:
        """Release the simulators."""
        self.pool.close()

    def _check_steps(self) -> None:
        """Refuse iterations that would never see the end of an episode."""
        collect, horizon = self.config.collect, self.spec.horizon
        if collect.steps_per_environment < horizon:
            raise UserError(
                f"collect.steps ({collect.steps}) must be at least {collect.environments * horizon}, an episode of "
                f"{horizon} steps in each of {collect.environments} environments, or episodes would never end."
            )
