"""TOP-ERL: transformer-based off-policy episodic reinforcement learning, in the order of Sec. 4 of the paper.

One iteration (`TopErlLearner.iterate`, Algorithm 1):

1. collect episodes with the current policy and store them whole (Sec. 4.1),
2. critic steps: cut episodes into segments, regress the transformer's values onto n-step targets (Sec. 4.2, 4.3),
3. policy steps: re-generate segments from the projected policy, ascend the critic's values (Sec. 4.4),
4. move the anchor policy, from which the trust region is measured, towards the policy (Sec. 4.5).

Axes: `C` critics, `B` episodes, `K` segments, `L` actions per segment, `T` stored steps, `D` degrees of freedom,
`P` primitive parameters, `S` state entries. Where this differs from the paper, `docs/deviations.md` says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

import torch
from torch import Tensor, nn

from top_erl.algorithms.divergence import GradientSteps
from top_erl.algorithms.episodic import EpisodicLearner
from top_erl.algorithms.learner import IterationStats
from top_erl.algorithms.optim import adam, adam_w
from top_erl.algorithms.ranking import CriticRanking, rank_movements
from top_erl.algorithms.saved_state import check_episodes
from top_erl.algorithms.setup import Setup
from top_erl.algorithms.stats import CriticStats, PolicyStats, columns, mean_stats, named_numbers, trust_region_stats
from top_erl.algorithms.top_erl.batches import Batches
from top_erl.algorithms.top_erl.config import TopErlConfig
from top_erl.algorithms.top_erl.hindsight import make_hindsight
from top_erl.algorithms.top_erl.regeneration import Regeneration, check_conditions
from top_erl.algorithms.top_erl.rewards import make_rewards
from top_erl.algorithms.top_erl.segments import Segments
from top_erl.algorithms.top_erl.targets import TARGETS, Future
from top_erl.errors import UserError
from top_erl.hardware.devices import send
from top_erl.models import CriticEnsemble, GaussianPolicy, Sequences, make_critics
from top_erl.models.tools import frozen_copy, in_mode, move_towards, seeded
from top_erl.rollout.collector import Scores
from top_erl.rollout.replay import EpisodeBatch, EpisodeReplay
from top_erl.seeding import derive, torch_generator
from top_erl.trust_region import Gaussian, Projected

_PREFILL_AT_ONCE = 16
"""Episodes that are played together before the first iteration."""


class TopErlLearner(EpisodicLearner):
    """The networks and the updates of TOP-ERL."""

    config: TopErlConfig
    columns = columns()
    ranks_movements = True
    plan_entries = 0
    """Entries that a stored episode has about a plan."""

    def __init__(self, config: TopErlConfig, setup: Setup) -> None:
        """Build networks, replay and optimisers; all randomness derives from the run's seed."""
        self.config = config
        self.target = TARGETS[config.learn.target](config.learn.ensemble_size)
        super().__init__(config, setup)
        learn = config.learn
        check_conditions(
            self.primitive, critic_condition=learn.critic_condition, policy_condition=learn.policy_condition
        )
        self.anchor = frozen_copy(self.policy)
        self.target_critics = frozen_copy(self.critics)
        self.replay = EpisodeReplay(config.collect.capacity, self.device)
        horizon = self.collector.stored_horizon
        self.rewards = make_rewards(config.collect, horizon, self.device)
        self.hindsight = make_hindsight(self.collector.tokenize, learn.hindsight, learn.hindsight_reached)
        self.segmentation = config.segments.build()
        self.regenerate = Regeneration.of_tokens(
            self.primitive, horizon, config.collect.stride, setup.spec.dt, self.device
        )

    def make_networks(self) -> None:
        """Build policy, critics and their optimisers."""
        learn = self.config.learn
        policy = GaussianPolicy(self.config.policy, self.policy_dim, self.primitive.num_params)
        self.policy = policy.to(self.device)
        self.critics = self.make_critics(self.state_dim, 2 * self.collector.spec.num_dof).to(self.device)
        self.critic_optimizer = adam_w(self.critics, learn.critic_rate, learn.critic_decay)
        self.policy_optimizer = adam(self.policy, learn.policy_rate, learn.policy_decay)

    def make_critics(self, state_dim: int, action_dim: int) -> CriticEnsemble:
        """Build the critics; a subclass may build others."""
        tokens, most = self.collector.stored_horizon, self.config.critic.max_positions
        if tokens > most:
            advice = "raise that, or collect.stride"
            raise UserError(f"An episode has {tokens} tokens, more than critic.max_positions ({most}): {advice}.")
        return make_critics(self.config.critic, state_dim, action_dim, self.target.num_critics, self.device)

    def use_bf16(self) -> None:
        """Multiply the matrices of the critics' blocks in bfloat16 from now on."""
        for critics in (self.critics, self.target_critics):
            self.bf16_route = critics.use_bf16()

    # ------------------------------------------------------------------ one iteration (Algorithm 1)

    def prefill(self) -> None:
        """Collect the episodes wanted before the first iteration, and standardise inputs by them if asked to."""
        if self.replay.total_added >= self.config.collect.prefill:
            return
        while (missing := self.config.collect.prefill - self.replay.total_added) > 0:
            self.collector.start(self.policy, min(missing, _PREFILL_AT_ONCE))
            self._store_episodes()
        if self.config.learn.standardize and not self.policy.standardize.fitted:  # a loaded policy keeps its own
            episodes = self.replay.gather(torch.arange(len(self.replay)))
            for policy in (self.policy, self.anchor):
                policy.standardize.fit(self.seen_by_policy(episodes))
            for critics in (self.critics, self.target_critics):
                critics.fit_standardizers(episodes.state, episodes.action)

    def seen_by_policy(self, episodes: EpisodeBatch) -> Tensor:
        """States whose statistics standardise the policy's inputs."""
        return episodes.state[:, 0] if self.config.learn.policy_statistics == "contexts" else episodes.state

    def iterate(self, iteration: int) -> IterationStats:
        """Collect, train the critic, train the policy, move the anchor. Iterations count from 1."""
        collect, learn = self.config.collect, self.config.learn
        generator, bound = torch_generator(self.seed, "update", iteration), self.entropy_bound(iteration)
        self.set_learning_rates(iteration)

        self.collector.start(self.policy, collect.episodes, next_count=collect.episodes)
        scores = None if collect.overlap else self._store_episodes()

        critic_steps = learn.critic_steps if iteration >= learn.critic_start else 0
        policy_steps = learn.policy_steps if iteration >= learn.policy_start else 0
        dropout = self.config.critic.dropout > 0.0  # the only use of torch's global generator
        with seeded(derive(self.seed, "dropout", iteration)) if dropout else nullcontext():
            critic = self.train_critic(critic_steps, generator, bound)
            policy = self.train_policy(policy_steps, generator, bound)
        if policy_steps:
            move_towards(self.anchor, self.policy, self.config.trust_region.anchor_rate)
        return IterationStats(scores or self._store_episodes(), named_numbers(critic, policy))

    def _store_episodes(self) -> Scores:
        episodes, scores = self.collector.finish()
        self.replay.add(episodes)
        return scores

    # ------------------------------------------------------------------ the critic (Sec. 4.2 and 4.3)

    def train_critic(self, count: int, generator: torch.Generator, bound: float | None) -> CriticStats | None:
        """All critic steps of an iteration, each on a batch of its own."""
        learn = self.config.learn
        batches = Batches(self.replay, learn.batch_size, generator, self.hindsight)
        projected: Gaussian | None = None
        if self.rewards is not None and count:
            self.rewards.fit(self.replay.rewards)
        steps: GradientSteps[CriticStats] = GradientSteps("critic", learn.critic_rate, batches.again)
        with steps:
            for _ in range(count):
                batch = batches.draw()
                if (
                    self.hindsight is None
                ):  # the policy stands still: once for all steps; else it is asked for new goals
                    projected = projected or self._project_replay(bound)
                gaussian = projected and replace(projected, mean=projected.mean[send(batches.places, self.device)])
                steps.add(self.critic_step(self.seen_by_critic(batch), generator, bound, gaussian))
                self.collector.go_on()
        return mean_stats(steps.stats, CriticStats)

    def seen_by_critic(self, batch: EpisodeBatch) -> EpisodeBatch:
        """Episodes with their rewards as the critic counts them."""
        return batch if self.rewards is None else replace(batch, reward=self.rewards(batch.reward))

    def critic_step(
        self,
        batch: EpisodeBatch,
        generator: torch.Generator,
        bound: float | None = None,
        gaussian: Gaussian | None = None,
    ) -> CriticStats:
        """Regress V and every Q of random segments onto their targets (Eq. 7), then move the target critics.

        `gaussian` is the projected policy at the episodes' first states, if it is known already.
        """
        segments = self.segmentation.draw(batch.horizon, generator, padded=True).to(self.device)
        with torch.no_grad():
            target = self.critic_target(batch, segments, generator, bound, gaussian)  # [B, K, L + 1]

        actions = batch.action[:, segments.inside]  # [B, K, L, 2D]; padding repeats the last one
        sequences = Sequences(batch.state, segments.starts, actions, segments.counts)
        critics = in_mode(self.critics, training=True)
        loss, value = critics.squared_error(sequences, target, self.target.mask(segments))

        self.critic_optimizer.zero_grad()
        (len(critics) * loss).backward()  # each critic has a mean of its own
        self.critic_optimizer.step()
        move_towards(self.target_critics, self.critics, self.config.learn.target_rate)
        return CriticStats(loss=loss.detach(), value=value, target=target[..., 1].mean())

    def critic_target(
        self,
        batch: EpisodeBatch,
        segments: Segments,
        generator: torch.Generator,
        bound: float | None,
        gaussian: Gaussian | None = None,
    ) -> Tensor:
        """Targets of `[V, Q_1, …, Q_L]`, [B, K, L + 1]; `gaussian` as in `critic_step`."""
        gaussian = gaussian or self.project(batch, bound)[1].gaussian
        params = self.sample(gaussian, segments.count, generator)  # [B, K, P]
        return self.target(batch, segments, self._future(batch, gaussian, params, generator))

    def _future(self, batch: EpisodeBatch, gaussian: Gaussian, params: Tensor, generator: torch.Generator) -> Future:
        """What a target may ask, for a batch and the projected policy at its first states."""
        condition = self.config.learn.critic_condition
        return Future(
            critics=self.target_critics,
            params=params,
            sample=lambda segments: self.sample(gaussian, segments.count, generator),
            sequences=lambda segments, params: self.new_sequences(batch, segments, params, condition),
            discount=self.config.learn.discount,
        )

    # ------------------------------------------------------------------ the policy (Sec. 4.4)

    def train_policy(self, count: int, generator: torch.Generator, bound: float | None) -> PolicyStats | None:
        """All policy steps of an iteration; the last one measures the trust region too."""
        learn = self.config.learn
        batches = Batches(self.replay, learn.batch_size, generator)
        steps: GradientSteps[PolicyStats] = GradientSteps("policy", learn.policy_rate, batches.again)
        with steps:
            for number in range(1, count + 1):
                steps.add(self.policy_step(batches.draw(), generator, bound, measure=number == count))
                self.collector.go_on()
        return mean_stats(steps.stats, PolicyStats)

    def policy_step(
        self, batch: EpisodeBatch, generator: torch.Generator, bound: float | None = None, *, measure: bool = True
    ) -> PolicyStats:
        """Ascend the critic's values of re-generated segments (Eq. 9), inside the trust region.

        With `measure`, the statistics say where in the trust region the policy was before the step (of several cuts, at
        the states of the last).
        """
        objectives, regressions = [], []
        for segments in self.policy_segments(batch.horizon, generator):
            sequences, new, projected, old = self.improved(batch, segments.to(self.device), generator, bound)
            values = in_mode(self.critics, training=False).action_values(sequences)  # Σ over the prefixes, [C, B, K]
            objectives.append(self.target.combine(values / self.divisor(sequences.actions.shape[2])).mean())
            regressions.append(self.projection.regression_loss(new, projected.gaussian))
        objective, regression = torch.stack(objectives).mean(), torch.stack(regressions).mean()
        loss = self.config.trust_region.regression_weight * regression - objective

        self.policy_optimizer.zero_grad()
        loss.backward()
        self.policy_optimizer.step()
        stats = PolicyStats(loss.detach(), objective.detach(), regression.detach())
        return replace(stats, **trust_region_stats(new.detach(), projected, old)) if measure else stats

    def policy_segments(self, horizon: int, generator: torch.Generator) -> Sequence[Segments]:
        """The cuts of a policy step, which count alike: a random one, without a last segment that runs past the end."""
        return [self.segmentation.draw(horizon, generator, padded=False)]

    def divisor(self, length: int) -> float:
        """What the sum over a segment's prefixes is divided by: their number, or nothing (`learn.policy_objective`)."""
        return length if self.config.learn.policy_objective == "mean" else 1.0

    def improved(
        self, batch: EpisodeBatch, segments: Segments, generator: torch.Generator, bound: float | None
    ) -> tuple[Sequences, Gaussian, Projected, Gaussian]:
        """Segments re-generated from the projected policy, and what `project` returns."""
        new, projected, old = self.project(batch, bound)
        params = self.sample(projected.gaussian, segments.count, generator)  # [B, K, P], Eq. 10
        return self.new_sequences(batch, segments, params, self.config.learn.policy_condition), new, projected, old

    # ------------------------------------------------------------------ shared by both

    def project(self, batch: EpisodeBatch, bound: float | None) -> tuple[Gaussian, Projected, Gaussian]:
        """The policy at the episodes' first states, its projection into the trust region, and the anchor."""
        first_state = batch.state[:, 0]
        new = self.policy(first_state)
        with torch.no_grad():
            old = batch.behaviour or self.anchor(first_state)
        return new, self.projection.project(new, old, bound), old

    @torch.no_grad()
    def _project_replay(self, bound: float | None) -> Gaussian | None:
        """The projected policy at the first state of every stored episode; None if it differs from batch to batch."""
        if self.policy.contextual or self.config.trust_region.anchor == "behaviour":
            return None  # a covariance per episode costs more than it saves
        return self.project(self.replay.gather_first(), bound)[1].gaussian

    def sample(self, gaussian: Gaussian, count: int, generator: torch.Generator) -> Tensor:
        """Independent parameters for every episode and segment, [B, K, P] (reparametrised, Eq. 10)."""
        shape = (len(gaussian.mean), count, self.primitive.num_params)
        return gaussian.sample_many(send(torch.randn(shape, generator=generator), self.device))

    def new_sequences(self, batch: EpisodeBatch, segments: Segments, params: Tensor, condition: str) -> Sequences:
        """New actions under parameters, [B, K, P], from the segments' first states on (Sec. 4.3.1)."""
        actions = self.regenerate(batch, segments, params, condition)  # [B, K, L, 2D]
        return Sequences(batch.state, segments.starts, actions, segments.counts)

    # ------------------------------------------------------------------ how well the critic ranks movements

    def rank_movements(self, contexts: int, *, seed: int, stream: str) -> CriticRanking:
        """Sample movements in contexts of a random stream, play them, and see how the critic ranks them."""
        asked = (self.collector, self.policy, self.movement_values, self.config.learn.discount)
        return rank_movements(*asked, contexts=contexts, seed=seed, stream=stream)

    @torch.no_grad()
    def movement_values(self, batch: EpisodeBatch) -> Tensor:
        """Q(s_0, a_0 … a_{L-1}) of episodes, [B]; L is all of an episode, or as much as the critic is trained with."""
        length = max(self.segmentation.lengths(batch.horizon))
        first = Segments(batch.horizon, length, count=1, offset=0, stride=length).to(self.device)
        state, action = send(batch.state, self.device), send(batch.action, self.device)
        sequences = Sequences(state, first.starts, action[:, first.inside], first.counts)
        return self.target.combine(in_mode(self.critics, training=False).last_value(sequences))[:, 0]

    # ------------------------------------------------------------------ divergence and saving

    def replay_state(self) -> dict[str, Tensor]:
        """The stored episodes."""
        return self.replay.state_dict()

    def check_state(self, state: dict[str, Tensor], replay: dict[str, Tensor]) -> None:
        """Refuse saved tensors of other networks, or episodes that are not like the ones this run stores."""
        super().check_state(state, replay)
        if replay:
            size, dof = self.primitive.num_params, self.collector.spec.num_dof
            factor = (size,) if self.policy.diagonal else (size, size)
            check_episodes(
                replay,
                capacity=self.replay.capacity,
                steps=self.collector.stored_horizon,
                widths=(self.state_dim, 2 * dof, 2 * dof, 1),
                gaussian=(size, factor) if self.collector.tokenize.keep_behaviour else None,
                plan=self.plan_entries,
                goalless=self.collector.tokenize.goalless_shape,
            )

    def load_replay_state(self, state: dict[str, Tensor]) -> None:
        """Take over stored episodes."""
        self.replay.load_state_dict(state)

    def _modules(self) -> dict[str, nn.Module]:
        rewards = {} if self.rewards is None else {"rewards": self.rewards}
        critics = {"critics": self.critics, "target_critics": self.target_critics}
        return {"policy": self.policy, "anchor": self.anchor, **critics, **rewards}
