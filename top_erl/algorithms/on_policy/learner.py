"""What the on-policy episodic methods share: episodes are collected, learned from for some epochs, and forgotten.

One iteration: collect, compute advantages with the values as they are, all critic epochs, all policy epochs. Every
epoch is one gradient step on all episodes. The policy ascends the importance-weighted advantage inside a trust region
around the policy that collected the episodes.

Axes: `B` episodes, `T` control steps, `S` state entries (time is the last), `D` degrees of freedom, `P` primitive
parameters.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from top_erl.algorithms.divergence import GradientSteps
from top_erl.algorithms.episodic import EpisodicLearner
from top_erl.algorithms.learner import IterationStats
from top_erl.algorithms.on_policy.config import OnPolicyConfig
from top_erl.algorithms.optim import adam
from top_erl.algorithms.setup import Setup
from top_erl.algorithms.stats import CriticStats, PolicyStats, columns, mean_stats, named_numbers, trust_region_stats
from top_erl.hardware.devices import send
from top_erl.models import GaussianPolicy, ValueNetwork
from top_erl.rollout.tokens import Rollout
from top_erl.seeding import episode_seeds
from top_erl.tasks.contract import Array
from top_erl.trust_region import Gaussian, Projected

_STARTS_AT_ONCE = 16
"""Episodes begun at once to look at their first states; bounds the simulators alive."""

# ---------------------------------------------------------------------- losses


def normalized(advantage: Tensor) -> Tensor:
    """Bring advantages of any shape to zero mean and unit spread; a single one only to zero."""
    spread = advantage.std() if advantage.numel() > 1 else advantage.new_ones(())
    return (advantage - advantage.mean()) / (spread + 1e-8)


def ratio_objective(new_log_prob: Tensor, old_log_prob: Tensor, advantage: Tensor) -> Tensor:
    """Importance-weighted advantage, mean of π_new/π_old · A; all of one shape. Nothing is clipped."""
    return ((new_log_prob - old_log_prob).exp() * advantage).mean()


def value_loss(value: Tensor, target: Tensor) -> Tensor:
    """Mean squared error of values."""
    return (value - target).square().mean()


def explained_variance(value: Tensor, target: Tensor) -> Tensor:
    """Share of the targets' variance that the values explain: 1 at best, 0 for a constant, negative for worse."""
    total = target.var(correction=0).clamp_min(torch.finfo(target.dtype).tiny)
    return 1.0 - (target - value).var(correction=0) / total


# ---------------------------------------------------------------------- the episodes of an iteration


@dataclass(frozen=True)
class Episodes:
    """Fresh episodes as tensors, on the device and in the precision of the networks."""

    state: Tensor
    """Raw observation and time before each step, [B, T, S]."""
    reference: Tensor
    """Positions, then velocities, tracked during each step, float64, [B, T, 2D]."""
    position: Tensor
    """Measured position at the start, float64, [B, D]."""
    velocity: Tensor
    """Measured velocity at the start, float64, [B, D]."""
    reward: Tensor
    """Scaled reward of each step, [B, T]."""
    params: Tensor
    """Parameters of the primitive, [B, P]."""
    behaviour: Gaussian
    """The Gaussian they were sampled from."""

    @classmethod
    def of(cls, rollout: Rollout, reward_scale: float, like: Tensor) -> Episodes:
        """Bring a rollout to the device and precision of a tensor of the networks."""

        def exact(values: Array) -> Tensor:
            return send(torch.from_numpy(np.ascontiguousarray(values)), like.device)

        return cls(
            state=exact(rollout.state).to(like.dtype),
            reference=exact(rollout.reference),
            position=exact(rollout.position),
            velocity=exact(rollout.velocity),
            reward=exact(rollout.reward * reward_scale).to(like.dtype),
            params=rollout.params.to(like),
            behaviour=rollout.behaviour.detach().to(like.dtype),
        )

    @property
    def first_state(self) -> Tensor:
        """[B, S]."""
        return self.state[:, 0]

    def tensors(self) -> dict[str, Tensor]:
        """What is saved of episodes that made a step diverge."""
        names = ("state", "reference", "position", "velocity", "reward", "params")
        return {name: getattr(self, name) for name in names}


# ---------------------------------------------------------------------- the learner


class OnPolicyLearner(EpisodicLearner):
    """Networks, optimisers and epochs; a method adds its advantages, targets and likelihoods in `learn`."""

    config: OnPolicyConfig
    columns = (*columns(), "explained_variance")
    critic_sees_contexts: ClassVar[bool]
    """Whether the critic's inputs are contexts like the policy's, and are standardised with them."""

    def __init__(self, config: OnPolicyConfig, setup: Setup, inputs: Sequence[int] | None = None) -> None:
        """Build networks and optimisers; all randomness derives from the run's seed.

        Args:
            config: Hyper-parameters.
            setup: The run.
            inputs: Entries of the state that both networks see; None: all.
        """
        self.config, self._inputs = config, inputs
        self.dtype = torch.float64 if config.learn.precision == "float64" else torch.float32
        super().__init__(config, setup, self.dtype)

    def make_networks(self) -> None:
        """Build policy, critic and their optimisers."""
        config, learn = self.config, self.config.learn
        policy = GaussianPolicy(config.policy, self.state_dim, self.primitive.num_params, self._inputs)
        critic = ValueNetwork(config.critic, self.state_dim, self._inputs)
        self.policy, self.critic = policy.to(self.device, self.dtype), critic.to(self.device, self.dtype)
        self.policy_optimizer = adam(self.policy, learn.policy_rate, learn.policy_decay)
        self.critic_optimizer = adam(self.critic, learn.critic_rate, learn.critic_decay)

    # ------------------------------------------------------------------ one iteration

    @torch.no_grad()
    def prefill(self) -> None:
        """Standardise the networks' inputs by the first states of some episodes, if asked to; none is played."""
        count = self.config.learn.standardize
        if not count or self.policy.standardize.fitted:  # a loaded policy keeps its own
            return
        seeds = episode_seeds(self.seed, "contexts", 0, count)
        chunks = [seeds[first : first + _STARTS_AT_ONCE] for first in range(0, count, _STARTS_AT_ONCE)]
        observation = np.concatenate([self.collector.good_starts(chunk).observation for chunk in chunks])
        state = torch.from_numpy(np.pad(observation, ((0, 0), (0, 1)))).to(self.device, self.dtype)  # time is 0
        self.policy.standardize.fit(self.policy.select(state))
        if self.critic_sees_contexts:
            self.critic.standardize.fit(self.critic.select(state))

    def iterate(self, iteration: int) -> IterationStats:
        """Collect, then learn from what was collected. Iterations count from 1."""
        count = self.config.collect.episodes
        self.collector.start(self.policy, count, next_count=count)
        rollout, scores = self.collector.finish_rollout()
        self.set_learning_rates(iteration)
        if not len(rollout.reward):  # every episode failed
            return IterationStats(scores, {})
        episodes = Episodes.of(rollout, self.config.collect.reward_scale, self.policy.raw_covariance)
        return IterationStats(scores, self.learn(episodes, iteration))

    @abstractmethod
    def learn(self, episodes: Episodes, iteration: int) -> dict[str, float]:
        """Critic epochs, then policy epochs; the numbers of `columns`."""

    # ------------------------------------------------------------------ the critic

    def fit_critic(self, episodes: Episodes, state: Tensor, target: Tensor) -> CriticStats | None:
        """Regress the values of states, [N, S], onto fixed targets, [N]."""
        learn = self.config.learn
        steps: GradientSteps[CriticStats] = GradientSteps("critic", learn.critic_rate, lambda _: episodes.tensors())
        with steps:
            for _ in range(learn.critic_epochs):
                value = self.critic(state)
                loss = value_loss(value, target)
                self.critic_optimizer.zero_grad()
                loss.backward()
                self.critic_optimizer.step()
                steps.add(CriticStats(loss.detach(), value.detach().mean(), target.mean()))
        return mean_stats(steps.stats, CriticStats)

    # ------------------------------------------------------------------ the policy

    def fit_policy(
        self, episodes: Episodes, log_prob: Callable[[Gaussian], Tensor], advantage: Tensor, iteration: int
    ) -> PolicyStats | None:
        """Ascend the importance-weighted advantage inside the trust region.

        Args:
            episodes: What was collected.
            log_prob: Likelihood of what was done under a policy's Gaussians, in the shape of `advantage`.
            advantage: Advantages of what was done.
            iteration: For the entropy schedule.
        """
        learn, bound = self.config.learn, self.entropy_bound(iteration)
        with torch.no_grad():
            old_log_prob = log_prob(episodes.behaviour)
        steps: GradientSteps[PolicyStats] = GradientSteps("policy", learn.policy_rate, lambda _: episodes.tensors())
        with steps:
            for _ in range(learn.policy_epochs):
                new, projected = self.project(episodes, bound)
                objective = ratio_objective(log_prob(projected.gaussian), old_log_prob, advantage)
                steps.add(self._policy_epoch(episodes, new, projected, objective))
            if self.config.trust_region.set_covariance and learn.policy_epochs:
                with torch.no_grad():
                    self.policy.set_factor(self.project(episodes, bound)[1].gaussian.factor)
        return mean_stats(steps.stats, PolicyStats)

    def _policy_epoch(self, episodes: Episodes, new: Gaussian, projected: Projected, objective: Tensor) -> PolicyStats:
        """One gradient step towards a larger objective, with a pull towards the projection."""
        region = self.config.trust_region
        regression = self.projection.regression_loss(new, projected.gaussian, not region.set_covariance)
        loss = region.regression_weight * regression - objective
        self.policy_optimizer.zero_grad()
        loss.backward()
        self.policy_optimizer.step()
        return PolicyStats(
            loss=loss.detach(),
            objective=objective.detach(),
            regression_loss=regression.detach(),
            **trust_region_stats(new.detach(), projected, episodes.behaviour),
        )

    def project(self, episodes: Episodes, entropy_bound: float | None) -> tuple[Gaussian, Projected]:
        """The policy at the episodes' first states, and its projection towards the one that collected them."""
        new = self.policy(episodes.first_state)
        return new, self.projection.project(new, episodes.behaviour, entropy_bound)

    @staticmethod
    def _numbers(critic: CriticStats | None, policy: PolicyStats | None, explained: Tensor) -> dict[str, float]:
        """The statistics of an iteration under their columns."""
        return {**named_numbers(critic, policy), "explained_variance": float(explained)}

    # ------------------------------------------------------------------ saving

    def _modules(self) -> dict[str, nn.Module]:
        return {"policy": self.policy, "critic": self.critic}
