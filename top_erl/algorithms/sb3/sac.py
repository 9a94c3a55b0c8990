"""SAC, and with pink exploration noise PINK, on Stable-Baselines3.

One iteration plays `collect.steps` control steps; after every `learn.update_every` of them come
`learn.gradient_steps` gradient steps on steps drawn from the replay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from stable_baselines3 import SAC
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor

from top_erl.algorithms.sb3.config import SacConfig
from top_erl.algorithms.sb3.learner import ACTIVATIONS, StepLearner
from top_erl.algorithms.sb3.transitions import StepReplay
from top_erl.algorithms.setup import Setup
from top_erl.errors import UserError
from top_erl.seeding import derive


class StepSac(SAC):  # type: ignore[misc]  # the package may be missing, and is Any then
    """SAC whose optimisers keep their learning rates."""

    def _update_learning_rate(self, optimizers: Any) -> None:
        return


class SacLearner(StepLearner):
    """The networks and the updates of SAC."""

    config: SacConfig
    columns: ClassVar[tuple[str, ...]] = ("critic_loss", "policy_loss", "entropy_coefficient")
    logged: ClassVar[Mapping[str, str]] = {
        "train/critic_loss": "critic_loss",
        "train/actor_loss": "policy_loss",
        "train/ent_coef": "entropy_coefficient",
    }
    losses: ClassVar[Mapping[str, str]] = {"train/critic_loss": "critic", "train/actor_loss": "policy"}

    def __init__(self, config: SacConfig, setup: Setup) -> None:
        """Build environments, networks, optimisers and replay."""
        super().__init__(config, setup, config.normalize)
        if config.networks.noise == "pink":
            self._explore_with_pink_noise()

    def make_model(self, environments: VecEnv) -> SAC:
        """Build the model, with a rate for the policy and one for the critics."""
        config, learn, networks = self.config, self.config.learn, self.config.networks
        coefficient = learn.entropy_coefficient
        model = StepSac(
            "MlpPolicy",
            environments,
            learning_rate=learn.policy_rate,
            buffer_size=learn.buffer_size,
            learning_starts=learn.learning_starts,
            batch_size=learn.batch_size,
            tau=learn.target_rate,
            gamma=learn.discount,
            train_freq=learn.update_every // config.collect.environments,
            gradient_steps=learn.gradient_steps,
            replay_buffer_class=StepReplay,
            ent_coef=f"auto_{coefficient}" if learn.entropy == "auto" else coefficient,
            policy_kwargs={
                "net_arch": {"pi": list(networks.policy_hidden), "qf": list(networks.critic_hidden)},
                "activation_fn": ACTIVATIONS[networks.activation],
                "optimizer_kwargs": {"fused": True},
            },
            device=self.setup.device,
        )
        for group in model.critic.optimizer.param_groups:
            group["lr"] = learn.critic_rate
        return model

    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        """The optimisers of policy, critics and, if it is learned, entropy coefficient."""
        optimizers = {"policy_optimizer": self.model.actor.optimizer, "critic_optimizer": self.model.critic.optimizer}
        if self.model.ent_coef_optimizer is not None:
            optimizers["entropy_optimizer"] = self.model.ent_coef_optimizer
        return optimizers

    def more_state(self) -> dict[str, Tensor]:
        """The logarithm of the entropy coefficient, if it is learned, [1]."""
        learned = self.model.log_ent_coef
        return {} if learned is None else {"log_entropy_coefficient": learned}

    def replay_state(self) -> dict[str, Tensor]:
        """The steps in the replay."""
        return self.model.replay_buffer.state_dict()

    def check_state(self, state: dict[str, Tensor], replay: dict[str, Tensor]) -> None:
        """Refuse saved tensors of other networks, or of another replay."""
        super().check_state(state, replay)
        if replay:
            self.model.replay_buffer.check_state(replay)

    def load_replay_state(self, state: dict[str, Tensor]) -> None:
        """Take over a saved replay."""
        self.model.replay_buffer.load_state_dict(state)

    def failed_batch(self) -> dict[str, Tensor]:
        """What was drawn from the replay last."""
        return self.model.replay_buffer.last_batch

    def discount(self) -> float:
        """The discount of the critics."""
        return self.config.learn.discount

    def rates(self) -> dict[str, float]:
        """Learning rates by network."""
        return {"policy": self.config.learn.policy_rate, "critic": self.config.learn.critic_rate}

    def _explore_with_pink_noise(self) -> None:
        """Give the policy a distribution that takes its noise from the episodes' sequences."""
        from top_erl.algorithms.sb3.noise import EpisodeNoiseDistribution, PinkNoise  # needs one more package

        action_dim = self.environments.action_space.shape[0]
        length = self.config.networks.noise_length or self.spec.horizon
        if length < self.spec.horizon:
            raise UserError(
                f"networks.noise_length ({length}) must be at least the episode's {self.spec.horizon} steps, or 0."
            )
        noise = PinkNoise(action_dim, length, lambda episode: derive(self.setup.seed, "exploration", episode))
        self.model.actor.action_dist = EpisodeNoiseDistribution(action_dim, noise, self.environments)
