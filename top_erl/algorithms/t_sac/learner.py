"""T-SAC: soft actor-critic with transformer critics over segments (Tian et al., 2026, arXiv:2503.03660).

An iteration plays `collect.steps` control steps and keeps their trajectories; then come `learn.calls` updates:

1. Draw trajectories; value all their states by the target critics, with one action of the policy each (`state_values`).
   These values stay as they are during the update.
2. One critic step per start of segments: the critics' answers for all prefixes against n-step targets (`critic_step`).
3. Draw trajectories anew; one policy step per step of the episodes: −min(Q_1, Q_2) of one action, less its entropy
   (`policy_step`).

Every iteration begins with fresh episodes, and everything random derives from the run's seed and the iteration, so that
networks, optimisers, replay and counters are the whole state.

Axes: `B` trajectories, `T` steps, `L` steps of a segment, `C` = 2 critics, `S` features of a state, `A` action entries.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as fn

from top_erl.algorithms.divergence import GradientSteps
from top_erl.algorithms.learner import IterationStats
from top_erl.algorithms.optim import adam_w, flatten_state, restore_state, set_rate
from top_erl.algorithms.saved_state import check_state
from top_erl.algorithms.setup import Setup
from top_erl.algorithms.stats import CriticStats, SoftPolicyStats, columns, mean_stats, named_numbers
from top_erl.algorithms.stepwise.environments import StepEnvironments
from top_erl.algorithms.stepwise.learner import EnvironmentLearner
from top_erl.algorithms.t_sac.collecting import play, scaled
from top_erl.algorithms.t_sac.config import TSacConfig, TSacLearnConfig
from top_erl.algorithms.t_sac.replay import Trajectories, TrajectoryReplay
from top_erl.algorithms.t_sac.targets import (
    coefficient_loss,
    combined,
    critic_loss,
    masked_mean,
    n_step_targets,
    policy_loss,
    without_end,
)
from top_erl.hardware.devices import send
from top_erl.models.step_critic import StepCritic
from top_erl.models.step_policy import StepPolicy
from top_erl.models.tools import frozen, frozen_copy, move_towards, seeded
from top_erl.seeding import derive, torch_generator


class EntropyCoefficient(nn.Module):
    """α = softplus(raw), and how many policy steps have been made."""

    def __init__(self, config: TSacLearnConfig) -> None:
        """Start from the configured value."""
        super().__init__()
        self.config = config
        start = max(config.entropy_coefficient, 1e-8)
        self.raw = nn.Parameter(torch.tensor([start + math.log(-math.expm1(-start))]))  # softplus^-1
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))
        self.steps: Tensor

    def forward(self) -> Tensor:
        """The coefficient, [1], without a gradient."""
        if self.config.entropy == "fixed":
            return torch.full_like(self.raw, self.config.entropy_coefficient).detach()
        return fn.softplus(self.raw).detach()

    @property
    def moves(self) -> bool:
        """Whether it is learned by now."""
        return self.config.entropy == "auto" and int(self.steps) > self.config.entropy_start


class TSacLearner(EnvironmentLearner):
    """The networks, the replay and the updates of T-SAC."""

    config: TSacConfig
    columns: ClassVar[tuple[str, ...]] = columns(SoftPolicyStats)

    def __init__(self, config: TSacConfig, setup: Setup) -> None:
        """Build environments, networks, optimisers and replay; all randomness derives from `setup.seed`."""
        super().__init__(config, setup)
        learn, device = config.learn, setup.device
        environments = self.pool.take(config.collect.environments)
        self.environments = StepEnvironments(environments, self.observer, config.collect, setup.seed)
        self.action_space = environments[0].action_space
        state_dim, action_dim = self.observer.size, self.action_space.shape[0]
        token_dim = action_dim + config.critic.action_time
        longest = min(learn.longest, self.spec.horizon)
        with seeded(derive(setup.seed, "networks", 0)):
            self.policy = StepPolicy(config.policy, state_dim, action_dim).to(device)
            critics = [StepCritic(config.critic, state_dim, token_dim, longest) for _ in range(2)]
        self.critics = nn.ModuleList(critics).to(device)
        self.target_critics = frozen_copy(self.critics)
        self.coefficient = EntropyCoefficient(learn).to(device)
        self.target_entropy = -float(action_dim)
        self.policy_optimizer = adam_w(self.policy, learn.policy_rate, learn.policy_decay)
        first, second = learn.critic_betas
        self.critic_optimizer = adam_w(self.critics, learn.critic_rate, learn.critic_decay, (first, second))
        self.entropy_optimizer = adam_w(self.coefficient, learn.policy_rate, 0.0)
        self.replay = TrajectoryReplay(config.replay.capacity, self.spec.horizon, state_dim, action_dim)

    # ------------------------------------------------------------------ one iteration

    def iterate(self, iteration: int) -> IterationStats:
        """Play and learn. Iterations count from 1."""
        self._collect(iteration)
        learn = self.config.learn
        if learn.standardize and iteration == 1:
            self._fit_standardizers()
        multiplier = learn.rate_multiplier(iteration, self.total_iterations)
        set_rate(self.critic_optimizer, learn.critic_rate * multiplier)
        set_rate(self.policy_optimizer, learn.policy_rate * multiplier)
        generator = torch_generator(self.setup.seed, "updates", iteration)
        critic: list[CriticStats] = []
        policy: list[SoftPolicyStats] = []
        for _ in range(learn.calls):
            if iteration > learn.critic_start:
                critic += self.train_critics(self._draw(generator), generator)
            if iteration > learn.policy_start:
                policy += self.train_policy(self._draw(generator), generator)
        numbers = named_numbers(mean_stats(critic, CriticStats), mean_stats(policy, SoftPolicyStats))
        return IterationStats(self.environments.scores(), numbers)

    def _collect(self, iteration: int) -> None:
        """Play the policy with exploration, and keep the trajectories."""
        collect = self.config.collect
        self.environments.begin(self.episodes_collected, collect.steps_per_environment)
        generator = torch_generator(self.setup.seed, "exploration", iteration)

        @torch.no_grad()
        def explore(features: NDArray[np.float32]) -> NDArray[np.float32]:
            noise = self._noise(len(features), generator=generator)
            return self.policy.sample(self._features(features), noise)[0].cpu().numpy()

        self.replay.add(play(self.environments, collect.steps_per_environment, explore, self.spec.horizon))
        self.episodes_collected = self.environments.next_episode
        self.env_steps += collect.steps

    def _draw(self, generator: torch.Generator) -> Trajectories:
        """Trajectories of an update."""
        return self.replay.draw(self.config.learn.batch_size, generator, self.setup.device)

    def _fit_standardizers(self) -> None:
        """Standardise the states that all networks see."""
        states = send(self.replay.states(), self.setup.device)
        self.policy.standardize.fit(states)
        for critic in (*self.critics, *self.target_critics):
            assert isinstance(critic, StepCritic)
            critic.standardize_state.fit(states)

    # ------------------------------------------------------------------ the critics

    def train_critics(self, batch: Trajectories, generator: torch.Generator) -> list[CriticStats]:
        """One step per start of segments; targets are made once."""
        learn = self.config.learn
        following = self.state_values(batch, generator)  # [B, T + 1]
        with GradientSteps[CriticStats]("critic", learn.critic_rate, lambda _: batch.tensors()) as steps:
            for starts in self._starts(batch, learn.critic_starts, generator):
                length = int(torch.randint(1, learn.longest + 1, (1,), generator=generator))
                steps.add(self.critic_step(batch, following, starts, length))
        return steps.stats

    @torch.no_grad()
    def state_values(self, batch: Trajectories, generator: torch.Generator) -> Tensor:
        """V̄ of all states, [B, T + 1]: the target critics' value of one action of the policy, 0 after the end."""
        noise = self._noise(*batch.state.shape[:2], generator=generator)
        action, _ = self.policy.sample(batch.state, noise)  # [B, T + 1, A]
        times = torch.arange(batch.state.shape[1], device=action.device)
        tokens = self._tokens(action, times)
        values = self._ask(self.target_critics, batch.state.flatten(0, 1), tokens.flatten(0, 1).unsqueeze(1))
        values = values.squeeze(-1).unflatten(1, batch.state.shape[:2])  # [C, B, T + 1]
        value = combined(values, self.config.learn.combine, generator)
        return without_end(value, batch.length, batch.ended)

    def critic_step(self, batch: Trajectories, following: Tensor, starts: Tensor, length: int) -> CriticStats:
        """One AdamW step of both critics, for segments of up to `length` steps from the steps `starts` on, [B]."""
        learn, horizon = self.config.learn, batch.action.shape[1]
        length = min(length, horizon - int(starts.min()))
        times = starts[:, None] + torch.arange(length, device=starts.device)  # [B, L]
        row, inside = torch.arange(len(batch), device=starts.device)[:, None], times.clamp(max=horizon - 1)
        targets = n_step_targets(batch.reward[row, inside], following[row, inside + 1], learn.discount)
        counts = (times < batch.length[:, None]).to(targets.dtype)  # [B, L]
        tokens = self._tokens(batch.action[row, inside], inside)
        values = self._ask(self.critics, batch.state[row[:, 0], starts], tokens)
        loss = critic_loss(values, targets, counts)
        (len(values) * loss).backward()  # each critic has a mean of its own
        self._move(self.critic_optimizer, *self.critics)
        move_towards(self.target_critics, self.critics, learn.target_rate)
        first = counts[:, 0]
        value = masked_mean(values.detach()[..., 0].mean(0), first)
        return CriticStats(loss.detach(), value, masked_mean(targets[:, 0], first))

    # ------------------------------------------------------------------ the policy

    def train_policy(self, batch: Trajectories, generator: torch.Generator) -> list[SoftPolicyStats]:
        """One step per step of the episodes."""
        learn = self.config.learn
        with GradientSteps[SoftPolicyStats]("policy", learn.policy_rate, lambda _: batch.tensors()) as steps:
            for starts in self._starts(batch, learn.policy_starts, generator):
                steps.add(self.policy_step(batch, starts, self._noise(len(batch), generator=generator)))
        return steps.stats

    def policy_step(self, batch: Trajectories, starts: Tensor, noise: Tensor) -> SoftPolicyStats:
        """One AdamW step of the policy, and one of the entropy coefficient, at the steps `starts` of episodes, [B]."""
        state, coefficient = batch.state[torch.arange(len(batch), device=starts.device), starts], self.coefficient()
        counts = (starts < batch.length).to(state.dtype)  # [B]
        action, log_prob = self.policy.sample(state, noise)
        tokens = self._tokens(action.unsqueeze(1), starts.unsqueeze(1))
        with frozen(self.critics):
            values = self._ask(self.critics, state, tokens).squeeze(-1)  # [C, B]
        loss = policy_loss(values, log_prob, coefficient, counts)
        loss.backward()
        self._move(self.policy_optimizer, self.policy)
        self.coefficient.steps += 1
        if self.coefficient.moves:
            coefficient_loss(self.coefficient.raw, log_prob, self.target_entropy, counts).backward()
            self._move(self.entropy_optimizer)
        objective = masked_mean(values.detach().amin(0), counts)
        entropy = masked_mean(-log_prob.detach(), counts)
        return SoftPolicyStats(loss.detach(), objective, entropy, coefficient.squeeze(0))

    # ------------------------------------------------------------------ pieces

    def _starts(self, batch: Trajectories, most: int, generator: torch.Generator) -> list[Tensor]:
        """Steps of the episodes, [B] each, at most so many: in random order, in common or each its own.

        Where all trajectories share a start, a step of the networks sees one instant of the episodes only, which few
        trajectories do not make up for. No step comes twice, but for episodes that end before the others.
        """
        longest, rows = int(batch.length.max()), len(batch)
        order = torch.randperm(longest, generator=generator)[:most]
        if self.config.learn.starts == "common":
            starts = order[:, None].expand(-1, rows)
        else:  # an episode that ends sooner begins anew
            ahead = torch.randint(longest, (rows,), generator=generator)
            starts = (order[:, None] + ahead) % longest % batch.length.cpu()
        return list(send(starts, self.setup.device))

    def _tokens(self, actions: Tensor, times: Tensor) -> Tensor:
        """What the critics see of actions, [..., L, A], at steps of the episode, [L] or [..., L]."""
        if not self.config.critic.action_time:
            return actions
        share = (times / self.spec.horizon).to(actions).unsqueeze(-1)  # [L, 1]
        return torch.cat((actions, share.expand(*actions.shape[:-1], 1)), dim=-1)

    @staticmethod
    def _ask(critics: nn.ModuleList, state: Tensor, tokens: Tensor) -> Tensor:
        """Both critics' values of all prefixes, [C, B, L]."""
        return torch.stack([critic(state, tokens) for critic in critics])

    def _noise(self, *shape: int, generator: torch.Generator) -> Tensor:
        """Standard normal noise of actions, [..., A]; drawn on the CPU, so that devices agree."""
        return send(torch.randn(*shape, self.action_space.shape[0], generator=generator), self.setup.device)

    def _features(self, features: NDArray[np.float32]) -> Tensor:
        return send(torch.from_numpy(features), self.setup.device)

    def _move(self, optimizer: torch.optim.Optimizer, *networks: nn.Module) -> None:
        """Take a step along the gradients, each network's bounded by itself, and forget them."""
        if self.config.learn.max_gradient:
            for network in networks:
                nn.utils.clip_grad_norm_(network.parameters(), self.config.learn.max_gradient)
        optimizer.step()
        optimizer.zero_grad()

    # ------------------------------------------------------------------ the policy without exploration

    @torch.no_grad()
    def act(self, observation: NDArray[np.float64], step: int) -> NDArray[Any]:
        """Choose actions without exploration, [B, A]; see `StepwiseLearner`."""
        features = np.empty((len(observation), self.observer.size), dtype=np.float32)
        self.observer.write(observation, step, features)
        return scaled(self.policy.mode(self._features(features)).cpu().numpy(), self.action_space)

    # ------------------------------------------------------------------ saving

    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        """The optimisers by name."""
        return {
            "policy_optimizer": self.policy_optimizer,
            "critic_optimizer": self.critic_optimizer,
            "entropy_optimizer": self.entropy_optimizer,
        }

    def state_dict(self) -> dict[str, Tensor]:
        """Networks, optimisers, entropy coefficient."""
        return flatten_state(self._modules(), self.optimizers())

    def check_state(self, state: dict[str, Tensor], replay: dict[str, Tensor]) -> None:
        """Refuse saved tensors of other networks, or of another replay."""
        check_state(state, self.state_dict(), self.optimizers())
        if replay:
            self.replay.check_state(replay)

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take over a saved state."""
        restore_state(state, self._modules(), self.optimizers())

    def replay_state(self) -> dict[str, Tensor]:
        """The trajectories in the replay."""
        return self.replay.state_dict()

    def load_replay_state(self, state: dict[str, Tensor]) -> None:
        """Take over a saved replay."""
        self.replay.load_state_dict(state)

    def _modules(self) -> dict[str, nn.Module]:
        return {
            "policy": self.policy,
            "critics": self.critics,
            "target_critics": self.target_critics,
            "coefficient": self.coefficient,
        }
