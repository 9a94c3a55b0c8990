"""What all step-based methods share: iterations of a Stable-Baselines3 model that can be resumed bit for bit.

An iteration begins with fresh episodes and seeds every generator from the run's seed and the iteration's number. So
nothing has to be remembered of the environments or the generators: networks, optimisers, running statistics, replay and
the counters are the whole state.

A method subclasses `StepLearner`, builds its model in `make_model`, and names its losses.

Axes: `B` episodes, `S` features of an observation.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv, VecNormalize
from torch import Tensor, nn

from top_erl.algorithms.divergence import Diverged
from top_erl.algorithms.learner import IterationStats
from top_erl.algorithms.optim import flatten_state, restore_state
from top_erl.algorithms.saved_state import check_state
from top_erl.algorithms.sb3.config import Activation, NormalizeConfig
from top_erl.algorithms.sb3.environments import StepVecEnv
from top_erl.algorithms.sb3.normalizing import normalizer_state, restore_normalizer
from top_erl.algorithms.sb3.randomness import globally_seeded
from top_erl.algorithms.sb3.statistics import MeanLogger
from top_erl.algorithms.setup import Setup
from top_erl.algorithms.stepwise.config import StepConfig
from top_erl.algorithms.stepwise.learner import EnvironmentLearner
from top_erl.errors import UserError
from top_erl.seeding import derive

ACTIVATIONS: dict[Activation, type[nn.Module]] = {
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
    "leaky_relu": nn.LeakyReLU,
    "elu": nn.ELU,
}


class StepLearner(EnvironmentLearner):
    """A model of Stable-Baselines3 at work on one task."""

    config: StepConfig
    logged: ClassVar[Mapping[str, str]]
    """Our name of each statistic that the model logs, under the model's name."""
    losses: ClassVar[Mapping[str, str]]
    """The losses among them by the model's name, with the network they belong to: `policy` or `critic`."""

    has_memory: ClassVar[bool] = False
    """Whether the policy remembers earlier steps of the episode."""
    signs: ClassVar[Mapping[str, float]] = {}
    """Multipliers of statistics, by our name, where the model logs them otherwise than we report them."""

    def __init__(self, config: StepConfig, setup: Setup, normalize: NormalizeConfig | None = None) -> None:
        """Build environments, networks and optimisers; all randomness derives from `setup.seed`.

        Args:
            config: Hyper-parameters of the method.
            setup: The surroundings. Environments live in this process, whatever `setup.workers` says.
            normalize: What running statistics normalise; None: nothing.
        """
        super().__init__(config, setup)
        self.iteration = 0
        environments = self.pool.take(config.collect.environments)
        self.environments = StepVecEnv(environments, self.observer, config.collect, setup.seed)
        self.normalizer = self._make_normalizer(normalize) if normalize and normalize.anything else None
        self.log = MeanLogger()
        with globally_seeded(derive(setup.seed, "networks", 0)):
            self.model: BaseAlgorithm = self.make_model(self.normalizer or self.environments)
        self.model.set_logger(self.log)
        self._memory: Any = None
        self._remembered = (0, 0)  # episodes, and the step that must come next

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
        self.iteration, self._remembered = iteration, (0, 0)
        collect, model = self.config.collect, self.model
        self.environments.begin(self.episodes_collected, collect.steps_per_environment)
        self.log.clear()
        model.num_timesteps = self.env_steps
        model._last_obs = None  # so that `learn` resets all environments
        seed = derive(self.setup.seed, "step-based", iteration)
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

    def act(self, observation: NDArray[np.float64], step: int) -> NDArray[Any]:
        """Choose actions without exploration, [B, A]; see `StepwiseLearner`."""
        count = len(observation)
        if self.has_memory and step and self._remembered != (count, step):
            raise UserError(
                "This policy remembers the past of an episode: ask for the actions of all its steps, in order from 0, "
                f"with nothing in between; step {step} does not follow."
            )
        features = np.empty((count, self.observer.size), dtype=np.float32)
        self.observer.write(observation, step, features)
        if self.normalizer is not None:
            features = self.normalizer.normalize_obs(features)
        actions, self._memory = self.model.predict(
            features, state=self._memory if step else None, episode_start=np.full(count, step == 0), deterministic=True
        )
        self._remembered = (count, step + 1)
        return np.asarray(actions)

    # ------------------------------------------------------------------ saving

    def state_dict(self) -> dict[str, Tensor]:
        """Networks, optimisers, running statistics."""
        state = flatten_state(self._modules(), self.optimizers())
        state.update({f"more.{name}": value.detach() for name, value in self.more_state().items()})
        if self.normalizer is not None:
            state.update({f"normalizer.{name}": value for name, value in normalizer_state(self.normalizer).items()})
        return state

    def check_state(self, state: dict[str, Tensor], replay: dict[str, Tensor]) -> None:
        """Refuse saved tensors of other networks; what a replay should look like, its method knows."""
        check_state(state, self.state_dict(), self.optimizers())

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take over a saved state."""
        self._remembered = (0, 0)
        restore_state(state, self._modules(), self.optimizers())
        for name, value in self.more_state().items():
            value.copy_(state[f"more.{name}"])
        if self.normalizer is not None:
            prefix = "normalizer."
            saved = {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
            restore_normalizer(self.normalizer, saved)

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
