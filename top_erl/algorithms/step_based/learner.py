"""What all step-based methods share: iterations of a Stable-Baselines3 model that can be resumed bit for bit.

An iteration begins with fresh episodes and seeds every generator from the run's seed and the iteration's number. So
nothing has to be remembered of the environments or the generators: networks, optimisers, running statistics, replay and
the counters are the whole state.

A method subclasses `StepLearner`, builds its model in `make_model`, and names its losses.

Axes: `B` episodes, `T` control steps, `S` features of an observation.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv, VecNormalize
from torch import Tensor, nn

from top_erl.algorithms.learner import IterationStats, Learner
from top_erl.algorithms.optim import flatten_state, restore_state
from top_erl.algorithms.parts import RunParts
from top_erl.algorithms.stats import Diverged
from top_erl.algorithms.step_based.config import NormalizeConfig, StepConfig
from top_erl.algorithms.step_based.environments import EnvironmentPool, Features, Observer, StepVecEnv
from top_erl.algorithms.step_based.normalizing import normalizer_state, restore_normalizer
from top_erl.algorithms.step_based.randomness import globally_seeded
from top_erl.algorithms.step_based.statistics import MeanLogger
from top_erl.errors import UserError
from top_erl.rollout import Scores
from top_erl.seeding import derive
from top_erl.tasks.stepping import StepEnvironment

_EVALUATION_CHUNK = 16  # episodes played together in an evaluation; bounds the simulators alive


class StepLearner(Learner):
    """A model of Stable-Baselines3 at work on one task."""

    config: StepConfig
    logged: ClassVar[Mapping[str, str]]
    """Our name of each statistic that the model logs, under the model's name."""
    losses: ClassVar[Mapping[str, str]]
    """The losses among them by the model's name, with the network they belong to: `policy` or `critic`."""

    signs: ClassVar[Mapping[str, float]] = {}
    """Factors on statistics, by our name, where the model logs them otherwise than we report them."""

    def __init__(self, config: StepConfig, parts: RunParts, normalize: NormalizeConfig | None = None) -> None:
        """Build environments, networks and optimisers; all randomness derives from `parts.seed`.

        Args:
            config: Hyper-parameters of the method.
            parts: The surroundings. Environments live in this process, whatever `parts.workers` says.
            normalize: What running statistics normalise; None: nothing.
        """
        self.config, self.parts, self.spec = config, parts, parts.spec
        self.total_iterations = parts.total_iterations
        self.iteration = 0
        self.episodes_collected = self.env_steps = 0
        self._check_steps()
        self.observer = Observer(self.spec, config.collect.observe_time)
        self.pool = EnvironmentPool(parts.task)
        environments = self.pool.take(config.collect.environments)
        self.environments = StepVecEnv(environments, self.observer, config.collect, parts.seed)
        self.normalizer = self._make_normalizer(normalize) if normalize and normalize.anything else None
        self.log = MeanLogger()
        with globally_seeded(derive(parts.seed, "networks", 0)):
            self.model: BaseAlgorithm = self.make_model(self.normalizer or self.environments)
        self.model.set_logger(self.log)

    # ------------------------------------------------------------------ what a method says

    @abstractmethod
    def make_model(self, environments: VecEnv) -> BaseAlgorithm:
        """Build the model; the global generators are seeded for it."""

    @abstractmethod
    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        """The model's optimisers by name."""

    def more_state(self) -> dict[str, Tensor]:
        """Tensors that training changes besides networks and optimisers; `load_state_dict` writes into them."""
        return {}

    def failed_batch(self) -> dict[str, Tensor]:
        """The data of an update that diverged, for whoever wants to find out why."""
        return {}

    def numbers(self) -> dict[str, float]:
        """Statistics of the iteration; what was not computed is missing."""
        numbers = {ours: self.log.mean(theirs) for theirs, ours in self.logged.items()}
        return {name: self.signs.get(name, 1.0) * value for name, value in numbers.items() if value is not None}

    def discount(self) -> float:
        """Discount factor that the spread of returns is measured with, if rewards are normalised."""
        return 0.99

    def rates(self) -> dict[str, float]:
        """Learning rates of `policy` and `critic`."""
        return {}

    # ------------------------------------------------------------------ one iteration

    def iterate(self, iteration: int) -> IterationStats:
        """Play and learn. Iterations count from 1."""
        self.iteration = iteration
        collect, model = self.config.collect, self.model
        self.environments.begin(self.episodes_collected, collect.steps_per_environment)
        self.log.clear()
        model.num_timesteps = self.env_steps
        model._last_obs = None  # so that `learn` resets all environments
        seed = derive(self.parts.seed, "step-based", iteration)
        with globally_seeded(seed):
            model.action_space.seed(seed % (1 << 32))
            self._learn(collect.steps)
        self.episodes_collected = self.environments.next_episode
        self.env_steps += collect.steps
        return IterationStats(self.environments.scores(), self.numbers())

    def progress(self) -> float:
        """Share of the run that is over as this iteration begins: 0 at the first."""
        return min(1.0, (self.iteration - 1) / self.total_iterations)

    def _learn(self, steps: int) -> None:
        """Let the model play and learn, and make sure that no loss is NaN or exploded."""
        failure: ValueError | None = None
        try:
            self.model.learn(steps, log_interval=None, reset_num_timesteps=False)
        except ValueError as error:  # how torch complains of a distribution with NaN, among others
            if isinstance(error, UserError) or (self._is_finite() and "constraint" not in str(error)):
                raise
            failure = error
        for theirs, network in self.losses.items():
            if theirs in self.log.absurd:
                number, value = self.log.absurd[theirs]
                raise self._diverged(network, number, f"its loss is {value:.3g}") from failure
        if failure is not None:
            raise self._diverged("policy", self.log.rounds + 1, "its parameters are not finite") from failure

    def _is_finite(self) -> bool:
        return all(bool(torch.isfinite(parameter).all()) for parameter in self.model.policy.parameters())

    def _diverged(self, network: str, number: int, reason: str) -> Diverged:
        rate = self.rates().get(network)
        remedy = "" if rate is None else f"--learn.{network}-rate {rate / 3:.1g}"
        return Diverged(network, number, reason, self.failed_batch(), remedy)

    # ------------------------------------------------------------------ the policy without exploration

    def evaluate(self, seeds: Sequence[int]) -> Scores:
        """Play the policy without exploration, one episode per seed, in batches."""
        parts = [
            self._play(list(seeds[first : first + _EVALUATION_CHUNK]))
            for first in range(0, len(seeds), _EVALUATION_CHUNK)
        ]
        return Scores(
            np.concatenate([part.returns for part in parts]),
            {name: np.concatenate([part.metrics[name] for part in parts]) for name in self.spec.metrics},
        )

    def film(self, seed: int, every: int) -> list[NDArray[np.uint8]]:
        """Play one episode without exploration; pictures, [H, W, 3], after each `every`-th step and the last."""
        environment = StepEnvironment(self.parts.task, filmed=True)
        pictures: list[NDArray[np.uint8]] = []
        try:
            environment.reset(seed)
            player = DeterministicPlayer(self, [environment])
            seen = 0  # steps made when the last picture was drawn
            for step in range(1, self.spec.horizon + 1):
                player.step()
                if step % every and step < self.spec.horizon:
                    continue
                if environment.steps > seen:  # an episode that is over keeps its last picture
                    picture, seen = environment.render(), environment.steps
                pictures.append(picture)
        finally:
            environment.close()
        return pictures

    def _play(self, seeds: list[int]) -> Scores:
        """Play one episode per seed, all together."""
        environments = self.pool.take(len(seeds))
        for environment, seed in zip(environments, seeds, strict=True):
            environment.reset(seed)
        player = DeterministicPlayer(self, environments)
        reward = np.stack([player.step() for _ in range(self.spec.horizon)], axis=1)  # [B, T]
        metrics = [environment.metrics() for environment in environments]
        return Scores(
            reward.sum(-1), {name: np.array([values[name] for values in metrics]) for name in self.spec.metrics}
        )

    def features(self, environments: Sequence[StepEnvironment]) -> Features:
        """What the policy sees of environments, [B, S], normalised by the statistics as they are."""
        features = self.observer.batch(environments)
        return features if self.normalizer is None else self.normalizer.normalize_obs(features)

    # ------------------------------------------------------------------ saving

    def state_dict(self) -> dict[str, Tensor]:
        """Networks, optimisers, running statistics."""
        state = flatten_state(self._modules(), self.optimizers())
        state.update({f"more.{name}": value.detach() for name, value in self.more_state().items()})
        if self.normalizer is not None:
            state.update({f"normalizer.{name}": value for name, value in normalizer_state(self.normalizer).items()})
        return state

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take over a saved state."""
        restore_state(state, self._modules(), self.optimizers())
        for name, value in self.more_state().items():
            value.copy_(state[f"more.{name}"])
        if self.normalizer is not None:
            prefix = "normalizer."
            saved = {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
            restore_normalizer(self.normalizer, saved)

    def close(self) -> None:
        """Release the simulators."""
        self.pool.close()

    def _modules(self) -> dict[str, nn.Module]:
        return {"policy": self.model.policy}

    def _make_normalizer(self, normalize: NormalizeConfig) -> VecNormalize:
        """Wrap the environments with running statistics."""
        return VecNormalize(
            self.environments,
            norm_obs=normalize.observations,
            norm_reward=normalize.rewards,
            clip_obs=normalize.observation_clip,
            clip_reward=normalize.reward_clip,
            gamma=self.discount(),
        )

    def _check_steps(self) -> None:
        """Refuse iterations that would never see the end of an episode."""
        collect, horizon = self.config.collect, self.spec.horizon
        if collect.steps_per_environment < horizon:
            raise UserError(
                f"collect.steps ({collect.steps}) must be at least {collect.environments * horizon}, an episode of "
                f"{horizon} steps in each of {collect.environments} environments, or episodes would never end."
            )


class DeterministicPlayer:
    """Steps environments together with a learner's policy; remembers the hidden state of one that has a memory."""

    def __init__(self, learner: StepLearner, environments: Sequence[StepEnvironment]) -> None:
        """Take over environments whose episodes have just begun."""
        self._learner, self._environments = learner, environments
        self._memory: Any = None
        self._starts = np.ones(len(environments), dtype=bool)

    def step(self) -> NDArray[np.float64]:
        """Make one step in all environments; rewards, [B], 0 for episodes that are over."""
        actions, self._memory = self._learner.model.predict(
            self._learner.features(self._environments),
            state=self._memory,
            episode_start=self._starts,
            deterministic=True,
        )
        self._starts = np.zeros_like(self._starts)
        return np.array(
            [
                0.0 if environment.over else environment.step(action).reward
                for environment, action in zip(self._environments, actions, strict=True)
            ]
        )
