"""PPO, and with state-dependent exploration gSDE, on Stable-Baselines3.

One iteration plays `collect.steps` control steps with the current policy and makes `learn.epochs` passes over them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor

from top_erl.algorithms.sb3.config import PpoConfig
from top_erl.algorithms.sb3.learner import ACTIVATIONS, StepLearner
from top_erl.algorithms.setup import Setup

ADAM_EPSILON = 1e-5
"""As Stable-Baselines3 sets it for PPO."""


class StepPpo(PPO):  # type: ignore[misc]  # the package may be missing, and is Any then
    """PPO whose optimiser keeps the learning rate of each group of parameters."""

    def _update_learning_rate(self, optimizers: Any) -> None:
        return


class RolloutLearner(StepLearner):
    """What PPO and GTrXL share: the statistics that the model logs, one optimiser, a buffer of steps."""

    columns: ClassVar[tuple[str, ...]] = (
        "critic_loss",
        "policy_loss",
        "entropy",
        "policy_kl",
        "clip_fraction",
        "explained_variance",
    )
    logged: ClassVar[Mapping[str, str]] = {
        "train/value_loss": "critic_loss",
        "train/policy_gradient_loss": "policy_loss",
        "train/entropy_loss": "entropy",
        "train/approx_kl": "policy_kl",
        "train/clip_fraction": "clip_fraction",
        "train/explained_variance": "explained_variance",
    }
    losses: ClassVar[Mapping[str, str]] = {"train/value_loss": "critic", "train/policy_gradient_loss": "policy"}
    signs: ClassVar[Mapping[str, float]] = {"entropy": -1.0}  # the model logs the loss of it

    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        """The one optimiser of both networks."""
        return {"optimizer": self.model.policy.optimizer}

    def failed_batch(self) -> dict[str, Tensor]:
        """The steps of the iteration, [steps, environments, ...]."""
        buffer = self.model.rollout_buffer
        names = ("observations", "actions", "rewards", "values", "advantages", "returns")
        return {name: torch.from_numpy(getattr(buffer, name)) for name in names}


class PpoLearner(RolloutLearner):
    """The networks and the updates of PPO."""

    config: PpoConfig

    def __init__(self, config: PpoConfig, setup: Setup) -> None:
        """Build environments, networks and optimiser."""
        super().__init__(config, setup, config.normalize)

    def make_model(self, environments: VecEnv) -> PPO:
        """Build the model, with an optimiser that has a rate for the policy and one for the critic."""
        config, learn = self.config, self.config.learn
        model = StepPpo(
            ActorCriticPolicy,
            environments,
            n_steps=config.collect.steps_per_environment,
            batch_size=learn.batch_size,
            n_epochs=learn.epochs,
            gamma=learn.discount,
            gae_lambda=learn.gae_lambda,
            clip_range=lambda _: learn.clip * self.clip_multiplier(),
            clip_range_vf=(lambda _: learn.critic_clip * self.clip_multiplier()) if learn.critic_clip else None,
            ent_coef=learn.entropy_weight,
            vf_coef=learn.critic_weight,
            max_grad_norm=learn.max_gradient,
            use_sde=config.networks.use_sde,
            sde_sample_freq=config.networks.sde_sample_freq if config.networks.use_sde else -1,
            policy_kwargs=self._policy_arguments(),
            device=self.setup.device,
        )
        model.policy.optimizer = self._make_optimizer(model.policy)
        return model

    def _policy_arguments(self) -> dict[str, Any]:
        """Arguments of the policy besides its spaces."""
        networks = self.config.networks
        return {
            "net_arch": {"pi": list(networks.policy_hidden), "vf": list(networks.critic_hidden)},
            "activation_fn": ACTIVATIONS[networks.activation],
            "ortho_init": networks.orthogonal,
            "log_std_init": math.log(networks.initial_std),
        }

    def clip_multiplier(self) -> float:
        """What the clips are multiplied with at this iteration."""
        learn = self.config.learn
        return 1.0 - (1.0 - learn.final_clip) * min(1.0, self.progress() / learn.clip_fall)

    def discount(self) -> float:
        """The discount of the advantages."""
        return self.config.learn.discount

    def rates(self) -> dict[str, float]:
        """Learning rates by network."""
        return {"policy": self.config.learn.policy_rate, "critic": self.config.learn.critic_rate}

    def _make_optimizer(self, policy: ActorCriticPolicy) -> torch.optim.Optimizer:
        rates = self.rates()
        critic = [*policy.mlp_extractor.value_net.parameters(), *policy.value_net.parameters()]
        known = {id(parameter) for parameter in critic}
        others = [parameter for parameter in policy.parameters() if id(parameter) not in known]
        groups = [{"params": others, "lr": rates["policy"]}, {"params": critic, "lr": rates["critic"]}]
        return torch.optim.Adam([group for group in groups if group["params"]], eps=ADAM_EPSILON, fused=True)
