"""What the on-policy episodic methods share: episodes are collected, learned from for some epochs, and forgotten.

One iteration: collect, compute advantages with the values as they are, all critic epochs, all policy epochs. Every
epoch is one gradient step on all episodes. The policy climbs the importance-weighted advantage inside a trust region
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

from top_erl.algorithms.episodic import EpisodicLearner
from top_erl.algorithms.learner import IterationStats
from top_erl.algorithms.on_policy_config import OnPolicyConfig
from top_erl.algorithms.optim import adam, set_rate
from top_erl.algorithms.parts import RunParts
from top_erl.algorithms.stats import CriticStats, Diverged, PolicyStats, Stats, columns, mean_stats, named_numbers
from top_erl.devices import send
from top_erl.errors import RunStopped
from top_erl.models import GaussianPolicy, ValueNetwork
from top_erl.models.tools import seeded
from top_erl.rollout import Rollout
from top_erl.seeding import derive, episode_seeds
from top_erl.tasks.contract import Array
from top_erl.trust_region import Gaussian, Projected, kl_divergence

LinAlgError = torch.linalg.LinAlgError  # type: ignore[attr-defined]

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

    columns = (*columns(), "explained_variance")
    critic_sees_contexts: ClassVar[bool]
    """Whether the critic's inputs are contexts like the policy's, and are standardised with them."""

    def __init__(self, config: OnPolicyConfig, parts: RunParts, inputs: Sequence[int] | None = None) -> None:
        """Build networks and optimisers; all randomness derives from the run's seed.

        Args:
            config: Hyper-parameters.
            parts: The run.
            inputs: Entries of the state that both networks see; None: all.
        """
        assert parts.collector is not None
        assert parts.primitive is not None
        self.config, self.seed, self.total_iterations = config, parts.seed, parts.total_iterations
        self.collector, self.primitive, self.device = parts.collector, parts.primitive, parts.device
        self.dtype = torch.float64 if config.learn.precision == "float64" else torch.float32
        self.state_dim = parts.spec.observation_dim + 1
        with seeded(derive(parts.seed, "networks", 0)):
            policy = GaussianPolicy(config.policy, self.state_dim, self.primitive.num_params, inputs)
            critic = ValueNetwork(config.critic, self.state_dim, inputs)
        self.policy, self.critic = policy.to(self.device, self.dtype), critic.to(self.device, self.dtype)
        self.policy_optimizer = adam(self.policy, config.learn.policy_rate, config.learn.policy_decay)
        self.critic_optimizer = adam(self.critic, config.learn.critic_rate, config.learn.critic_decay)
        self.projection = config.trust_region.build_projection()
        self.entropy_schedule = config.trust_region.build_entropy_schedule()
        self.initial_entropy = self._policy_entropy()

    # ------------------------------------------------------------------ one iteration

    @torch.no_grad()
    def prefill(self) -> None:
        """Standardise the networks' inputs by the first states of some episodes, if asked to; none is played."""
        count = self.config.learn.standardize
        if not count or self.policy.standardize.fitted:  # a loaded policy keeps its own
            return
        seeds = episode_seeds(self.seed, "contexts", 0, count)
        chunks = [seeds[first : first + _STARTS_AT_ONCE] for first in range(0, count, _STARTS_AT_ONCE)]
        observation = np.concatenate([self.collector.player.begin(chunk).observation for chunk in chunks])
        state = torch.from_numpy(np.pad(observation, ((0, 0), (0, 1)))).to(self.device, self.dtype)  # time is 0
        self.policy.standardize.fit(self.policy.seen(state))
        if self.critic_sees_contexts:
            self.critic.standardize.fit(self.critic.seen(state))

    def iterate(self, iteration: int) -> IterationStats:
        """Collect, then learn from what was collected. Iterations count from 1."""
        count = self.config.collect.episodes
        self.collector.start(self.policy, count, next_count=count)
        rollout, scores = self.collector.finish_rollout()
        self._set_learning_rates(iteration)
        if not len(rollout.reward):  # every episode failed
            return IterationStats(scores, {})
        episodes = Episodes.of(rollout, self.config.collect.reward_scale, self.policy.raw_covariance)
        return IterationStats(scores, self.learn(episodes, iteration))

    @abstractmethod
    def learn(self, episodes: Episodes, iteration: int) -> dict[str, float]:
        """Critic epochs, then policy epochs; the numbers of `columns`."""

    def _set_learning_rates(self, iteration: int) -> None:
        """Let both learning rates fall linearly; the first iteration has them in full."""
        learn = self.config.learn
        progress = min(1.0, (iteration - 1) / (learn.rate_iterations or self.total_iterations))
        factor = 1.0 - (1.0 - learn.final_rate) * progress
        set_rate(self.critic_optimizer, factor * learn.critic_rate)
        set_rate(self.policy_optimizer, factor * learn.policy_rate)

    # ------------------------------------------------------------------ the critic

    def fit_critic(self, episodes: Episodes, state: Tensor, target: Tensor) -> CriticStats | None:
        """Regress the values of states, [N, S], onto fixed targets, [N]."""

        def epoch() -> CriticStats:
            value = self.critic(state)
            loss = value_loss(value, target)
            self.critic_optimizer.zero_grad()
            loss.backward()
            self.critic_optimizer.step()
            return CriticStats(loss.detach(), value.detach().mean(), target.mean())

        return mean_stats(self._epochs("critic", self.config.learn.critic_epochs, epoch, episodes), CriticStats)

    # ------------------------------------------------------------------ the policy

    def climb(
        self, episodes: Episodes, log_prob: Callable[[Gaussian], Tensor], advantage: Tensor, iteration: int
    ) -> PolicyStats | None:
        """Climb the importance-weighted advantage inside the trust region.

        Args:
            episodes: What was collected.
            log_prob: Likelihood of what was done under a policy's Gaussians, in the shape of `advantage`.
            advantage: Advantages of what was done.
            iteration: For the entropy schedule.
        """
        bound, count = self.entropy_bound(iteration), self.config.learn.policy_epochs
        region = self.config.trust_region
        with torch.no_grad():
            old_log_prob = log_prob(episodes.behaviour)

        def epoch() -> PolicyStats:
            new, projected = self.project(episodes, bound)
            objective = ratio_objective(log_prob(projected.gaussian), old_log_prob, advantage)
            pull = self.projection.regression_loss(new, projected.gaussian, not region.set_covariance)
            loss = region.regression_weight * pull - objective
            self.policy_optimizer.zero_grad()
            loss.backward()
            self.policy_optimizer.step()
            return PolicyStats(
                loss=loss.detach(),
                objective=objective.detach(),
                regression_loss=pull.detach(),
                entropy=projected.gaussian.detach().entropy().mean(),
                kl_to_anchor=kl_divergence(new.detach(), episodes.behaviour).mean(),
                mean_projected=projected.mean_active.float().mean(),
                covariance_projected=projected.covariance_active.float().mean(),
            )

        def finish() -> None:
            if region.set_covariance and count:
                with torch.no_grad():
                    self.policy.set_factor(self.project(episodes, bound)[1].gaussian.factor)

        return mean_stats(self._epochs("policy", count, epoch, episodes, finish), PolicyStats)

    def project(self, episodes: Episodes, entropy_bound: float | None) -> tuple[Gaussian, Projected]:
        """The policy at the episodes' first states, and its projection towards the one that collected them."""
        new = self.policy(episodes.first_state)
        return new, self.projection.project(new, episodes.behaviour, entropy_bound)

    def entropy_bound(self, iteration: int) -> float | None:
        """Lower bound on the policy's entropy at an iteration; None without a schedule."""
        return self.entropy_schedule.bound(
            iteration, self.total_iterations, self.initial_entropy, self.primitive.num_params
        )

    @torch.no_grad()
    def _policy_entropy(self) -> float:
        """Entropy of the policy as it is now, from which the entropy schedule starts."""
        state = torch.zeros(1, self.state_dim, dtype=self.dtype, device=self.device)
        return float(self.policy(state).entropy().mean())

    # ------------------------------------------------------------------ shared by both

    def _epochs(
        self,
        kind: str,
        count: int,
        epoch: Callable[[], Stats],
        episodes: Episodes,
        finish: Callable[[], None] = lambda: None,
    ) -> list[Stats]:
        """Do gradient steps, then `finish`; afterwards make sure that no loss is NaN or exploded."""
        stats: list[Stats] = []
        failure: Exception | None = None
        try:
            while len(stats) < count:
                stats.append(epoch())
            finish()
        except (RunStopped, LinAlgError) as error:  # a mean or covariance that cannot be used
            failure = error
        losses = torch.stack([s.loss for s in stats]).tolist() if stats else []  # the only wait for the device
        for number, loss in enumerate(losses, start=1):
            if not abs(loss) < Diverged.LIMIT:
                raise self._diverged(kind, number, f"its loss is {loss:.3g}", episodes)
        if failure is not None:
            raise self._diverged(kind, min(len(stats) + 1, count), str(failure), episodes) from failure
        return stats

    def _diverged(self, kind: str, number: int, reason: str, episodes: Episodes) -> Diverged:
        """Say which step failed, with its episodes."""
        rate = self.config.learn.critic_rate if kind == "critic" else self.config.learn.policy_rate
        return Diverged(kind, number, reason, episodes.tensors(), f"--learn.{kind}-rate {rate / 3:.1g}")

    @staticmethod
    def _numbers(critic: CriticStats | None, policy: PolicyStats | None, explained: Tensor) -> dict[str, float]:
        """The statistics of an iteration under their columns."""
        return {**named_numbers(critic, policy), "explained_variance": float(explained)}

    # ------------------------------------------------------------------ saving

    def _modules(self) -> dict[str, nn.Module]:
        return {"policy": self.policy, "critic": self.critic}
