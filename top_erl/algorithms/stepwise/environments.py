"""A task's step environments, stepped together, with seeds that derive from the run's.

All environments live in this process: a message per control step would cost more than most steps do.

Axes: `N` environments, `S` features of an observation, `A` action entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from top_erl.algorithms.stepwise.config import StepCollectConfig
from top_erl.algorithms.stepwise.trials import FailureLog, TrialEnvironment
from top_erl.errors import UserError
from top_erl.rollout.collector import Scores
from top_erl.seeding import episode_seeds
from top_erl.tasks import Task, TaskSpec
from top_erl.tasks.contract import EpisodeFailure

Features = NDArray[np.float32]


class EnvironmentPool:
    """Step environments of a task; made when they are first needed, then used again."""

    def __init__(self, task: Task) -> None:
        """Make no environment yet."""
        self.task = task
        self._made: list[TrialEnvironment] = []

    def take(self, count: int) -> list[TrialEnvironment]:
        """The first `count` environments. Whoever takes them starts their episodes anew."""
        while len(self._made) < count:
            self._made.append(TrialEnvironment(self.task))
        return self._made[:count]

    def close(self) -> None:
        """Release all simulators."""
        while self._made:
            self._made.pop().close()


@dataclass(frozen=True)
class Observer:
    """Turns raw observations into what the networks see."""

    spec: TaskSpec
    observe_time: bool
    """Whether the share of the episode that is over is appended."""

    @property
    def size(self) -> int:
        """S: features of an observation."""
        return self.spec.observation_dim + self.observe_time

    def write(self, observation: NDArray[np.float64], step: int, rows: Features) -> None:
        """Write raw observations at a step of their episodes into rows, [..., S]."""
        dim = self.spec.observation_dim
        rows[..., :dim] = observation
        if self.observe_time:
            rows[..., dim] = step / self.spec.horizon


class StepEnvironments:
    """Environments that are stepped together. An episode that is over makes way for the next one at once.

    Episodes are numbered over the whole run in the order in which they begin, and each gets the seed of its number.
    `begin` comes before each iteration, then `reset`, then as many steps as were announced.

    An episode that fails is over, as if a time limit had come: the step that failed leads nowhere and pays nothing, and
    what would follow is valued as from where it was. It has no part in the scores. One that cannot even begin makes way
    for the next number.
    """

    def __init__(
        self, environments: Sequence[TrialEnvironment], observer: Observer, config: StepCollectConfig, seed: int
    ) -> None:
        """Take over environments; `seed` is the run's."""
        self.environments, self.observer, self.config = environments, observer, config
        self.run_seed = seed
        self.next_episode = 0
        """Number of the next training episode to begin."""
        self.episodes = [0] * len(environments)
        """Number of the episode that each environment plays."""
        self._first_episode = self._steps_left = 0
        self._returns = [0.0] * len(environments)
        self._finished: list[tuple[float, dict[str, float]]] = []
        self._failures: list[EpisodeFailure] = []
        self._failure_log = FailureLog("Episode")
        self._features: Features = np.zeros((len(environments), observer.size), dtype=np.float32)
        self.num_envs = len(environments)

    @property
    def step_indices(self) -> list[int]:
        """Steps that each environment has made in its episode."""
        return [environment.steps for environment in self.environments]

    def begin(self, first_episode: int, steps: int) -> None:
        """Prepare for an iteration of `steps` steps in each environment, from episode `first_episode` on."""
        self._first_episode = self.next_episode = first_episode
        self._steps_left = steps
        self._finished, self._failures = [], []

    def scores(self) -> Scores:
        """How the episodes went that ended since `begin`."""
        names = self.observer.spec.metrics
        return Scores(
            np.array([total for total, _ in self._finished]),
            {name: np.array([metrics[name] for _, metrics in self._finished]) for name in names},
            len(self._failures),
        )

    def reset(self) -> Features:
        """Begin an episode in every environment; first observations, [N, S]."""
        for index in range(self.num_envs):
            self._start(index)
        return self._features.copy()

    def advance(
        self, actions: NDArray[np.float32]
    ) -> tuple[Features, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Make one step in every environment, with actions [N, A].

        Returns observations [N, S], rewards [N], whether episodes are over [N], and infos in Stable-Baselines3's words.

        The observation of an episode that is over is the next one's first; its own last one is in the info. After the
        last step that was announced no episode begins any more, since nobody would play it.
        """
        self._steps_left -= 1
        rewards = np.empty(self.num_envs, dtype=np.float32)
        dones = np.zeros(self.num_envs, dtype=bool)
        infos: list[dict[str, Any]] = []
        for index, environment in enumerate(self.environments):
            made = environment.step(actions[index])
            self._returns[index] += made.reward
            rewards[index] = self.config.reward_scale * made.reward
            self.observer.write(environment.observation, environment.steps, self._features[index])
            info: dict[str, Any] = {}
            if environment.over:
                dones[index] = True
                info["terminal_observation"] = self._features[index].copy()
                cut_short = environment.failure is not None
                info["TimeLimit.truncated"] = cut_short or (made.truncated and self.config.bootstrap)
                self._finish(index)
                if self._steps_left > 0:
                    self._start(index)
            infos.append(info)
        return self._features.copy(), rewards, dones, infos

    def _finish(self, index: int) -> None:
        """Count an episode that is over, among the good ones or among those that failed."""
        environment = self.environments[index]
        metrics = environment.metrics()
        if environment.failure is None:
            self._finished.append((self._returns[index], metrics))
        else:
            self._fail(index)

    def _fail(self, index: int) -> None:
        """Count an episode that failed."""
        failure = self.environments[index].failure
        assert failure is not None
        self._failures.append(failure)
        first_ones = self._first_episode == 0 and not self._finished and len(self._failures) >= self.num_envs
        if first_ones and all(failure.contradicts_spec for failure in self._failures):
            raise UserError(f"{failure.sentence}.")  # not one that agrees with the spec: a task that is defined wrongly
        self._failure_log.note(self.episodes[index], failure)

    def _start(self, index: int) -> None:
        """Begin the next training episode in one environment; numbers that cannot begin are passed over."""
        environment = self.environments[index]
        while True:
            number, self.next_episode = self.next_episode, self.next_episode + 1
            (seed,) = episode_seeds(self.run_seed, "training", number, 1)
            self.episodes[index] = number
            first = environment.reset(seed)
            if environment.failure is None:
                break
            self._fail(index)
        self._returns[index] = 0.0
        self.observer.write(first, 0, self._features[index])
