"""GTrXL: PPO whose actor and critic read the past through a gated transformer (Parisotto et al., 2020).

PPO's update is Stable-Baselines3's, unchanged. What is new is who carries the memory while episodes are played, and a
buffer that hands out sequences with the memory they were played with (`gtrxl_policy.py`). Playing and learning see the
same: the log-probabilities computed right after a rollout are the recorded ones.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, cast

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3 import PPO
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.utils import obs_as_tensor
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor

from top_erl.algorithms.divergence import Diverged
from top_erl.algorithms.sb3.config import NormalizeConfig
from top_erl.algorithms.sb3.gtrxl_config import GtrxlConfig
from top_erl.algorithms.sb3.gtrxl_policy import GtrxlPolicy, SequenceBuffer
from top_erl.algorithms.sb3.ppo import ADAM_EPSILON, RolloutLearner
from top_erl.algorithms.setup import Setup
from top_erl.models.gtrxl import Context, GatedTransformerConfig

Array = NDArray[Any]


class GtrxlPpo(PPO):  # type: ignore[misc]  # the package may be missing, and is Any then
    """SB3's PPO on sequences; `batch_size` counts steps, as there."""

    policy: GtrxlPolicy
    _last_obs: Any
    _last_episode_starts: Any

    def __init__(
        self,
        env: VecEnv,
        network: GatedTransformerConfig,
        n_steps: int,
        batch_size: int,
        reward_clip: float = math.inf,
        **options: Any,
    ) -> None:
        """Make network and buffer; rewards are held within ±`reward_clip`, `options` are those of SB3's PPO."""
        policy_kwargs = {"network": network, **options.pop("policy_kwargs", {})}
        super().__init__(
            GtrxlPolicy,
            env,
            n_steps=n_steps,
            batch_size=n_steps * env.num_envs,  # which SB3 checks against the rollout, in steps; ours follows
            policy_kwargs=policy_kwargs,
            rollout_buffer_class=SequenceBuffer,
            rollout_buffer_kwargs={"network": network},
            **options,
        )
        self.batch_size, self.reward_clip = batch_size, reward_clip
        self._context = self.policy.empty_context(env.num_envs)

    def collect_rollouts(
        self, env: VecEnv, callback: BaseCallback, rollout_buffer: RolloutBuffer, n_rollout_steps: int
    ) -> bool:
        """Play all environments for some steps; False if the callback said stop."""
        buffer = cast(SequenceBuffer, rollout_buffer)
        self.policy.set_training_mode(False)
        # A rollout starts with a new segment, even inside an episode.
        self._context = self._context.restarted(self._flags(self._last_episode_starts)).cut()
        buffer.reset()
        buffer.begin(self._context)
        callback.on_rollout_start()
        for _ in range(n_rollout_steps):
            before = self._context.restarted(self._flags(self._last_episode_starts))
            with torch.no_grad():
                chosen, values, log_probs, after = self.policy.act(self._tensor(self._last_obs), before)
            actions = chosen.cpu().numpy()
            new_obs, rewards, dones, infos = env.step(self._allowed(actions))
            self.num_timesteps += env.num_envs
            callback.update_locals(locals())
            if not callback.on_step():
                return False
            self._update_info_buffer(infos, dones)
            rewards = np.clip(rewards, -self.reward_clip, self.reward_clip)
            self._bootstrap_truncated(rewards, dones, infos, after)
            buffer.remember(before, after)
            buffer.add(self._last_obs, actions, rewards, self._last_episode_starts, values, log_probs)
            self._last_obs, self._last_episode_starts, self._context = new_obs, dones, after
        with torch.no_grad():
            last_values = self.policy.predict_values(self._tensor(self._last_obs), self._context)
        buffer.compute_returns_and_advantage(last_values=last_values, dones=self._last_episode_starts)
        callback.update_locals(locals())
        callback.on_rollout_end()
        return True

    def _bootstrap_truncated(self, rewards: Array, dones: Array, infos: list[dict[str, Any]], after: Context) -> None:
        """Bootstrap episodes that the time limit truncated: add the value of the last state to the last reward."""
        truncated = [i for i, done in enumerate(dones) if done and infos[i].get("TimeLimit.truncated", False)]
        if not truncated:
            return
        last = np.stack([infos[i]["terminal_observation"] for i in truncated])
        with torch.no_grad():
            values = self.policy.predict_values(self._tensor(last), after.of(truncated))
        rewards[truncated] += self.gamma * values.flatten().cpu().numpy()

    def _allowed(self, actions: Array) -> Array:
        """Actions within the bounds of the environment."""
        space = self.action_space
        return np.clip(actions, space.low, space.high) if isinstance(space, spaces.Box) else actions

    def _tensor(self, obs: Any) -> Tensor:
        """Observations of all environments as a tensor."""
        return cast(Tensor, obs_as_tensor(obs, self.device))

    def _flags(self, values: Any) -> Tensor:
        """Flags of all environments as a tensor, [N]."""
        return torch.as_tensor(np.asarray(values, dtype=bool), device=self.device)

    def _excluded_save_params(self) -> list[str]:
        """The context belongs to environments, not to the model."""
        return [*super()._excluded_save_params(), "_context"]


class GtrxlLearner(RolloutLearner):
    """The network and the updates of GTrXL."""

    config: GtrxlConfig
    has_memory: ClassVar[bool] = True

    def __init__(self, config: GtrxlConfig, setup: Setup) -> None:
        """Build environments, network and optimiser."""
        normalize = NormalizeConfig(observations=config.learn.normalize_observations, rewards=False)
        super().__init__(config, setup, normalize)

    def make_model(self, environments: VecEnv) -> GtrxlPpo:
        """Build the model; policy and critic share the transformer, so there is one learning rate."""
        config, learn = self.config, self.config.learn
        clip_error = learn.critic_clip_of == "error" and learn.critic_clip > 0.0
        return GtrxlPpo(
            environments,
            config.network,
            n_steps=config.collect.steps_per_environment,
            batch_size=learn.batch_size,
            reward_clip=learn.reward_clip,
            n_epochs=learn.epochs,
            learning_rate=learn.rate,
            gamma=learn.discount,
            gae_lambda=learn.gae_lambda,
            clip_range=learn.clip,
            clip_range_vf=None if clip_error else learn.critic_clip or None,
            ent_coef=learn.entropy_weight,
            vf_coef=learn.critic_weight,
            max_grad_norm=learn.max_gradient,
            policy_kwargs={
                "error_clip": learn.critic_clip if clip_error else math.inf,
                "log_std_init": math.log(learn.initial_std),
                "optimizer_kwargs": {"eps": ADAM_EPSILON, "fused": True},
            },
            device=self.setup.device,
        )

    def _diverged(self, network: str, number: int, reason: str) -> Diverged:
        remedy = f"--learn.rate {self.config.learn.rate / 3:.1g}"
        return Diverged(network, number, reason, self.failed_batch(), remedy)
