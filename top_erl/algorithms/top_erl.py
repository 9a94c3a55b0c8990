"""TOP-ERL: transformer-based off-policy episodic reinforcement learning, in the order of Sec. 4 of the paper.

One iteration (`TopErlLearner.iterate`):

1. collect episodes with the current policy and store them whole (Sec. 4.1),
2. critic steps: cut episodes into segments, regress the transformer's values onto n-step targets (Sec. 4.2, 4.3),
3. policy steps: re-generate segments from the projected policy, climb the critic's values (Sec. 4.4),
4. move the anchor policy, from which the trust region is measured, towards the policy (Sec. 4.5).

Axes: `C` critics, `B` episodes, `K` segments, `L` actions per segment, `T` stored steps, `D` degrees of freedom,
`P` primitive parameters, `S` state entries. Where this differs from the paper, `docs/deviations.md` says why.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as fn

from top_erl.algorithms.config import TopErlConfig
from top_erl.algorithms.episodic import EpisodicLearner
from top_erl.algorithms.learner import IterationStats
from top_erl.algorithms.optim import adam, adam_w, set_rate
from top_erl.algorithms.regeneration import Regeneration
from top_erl.algorithms.segments import Segments
from top_erl.algorithms.stats import CriticStats, PolicyStats, columns, mean_stats, named_numbers, sum_stats
from top_erl.algorithms.steps import GradientSteps
from top_erl.algorithms.targets import critic_loss, make_target, n_step_returns
from top_erl.devices import send
from top_erl.errors import UserError
from top_erl.models import CriticEnsemble, GaussianPolicy
from top_erl.models.products import low_products
from top_erl.models.tools import frozen, frozen_copy, in_mode, move_towards, seeded
from top_erl.primitives import ProDmp
from top_erl.rollout import EpisodeBatch, EpisodeCollector, EpisodeReplay, Scores
from top_erl.seeding import derive, torch_generator
from top_erl.trust_region import Gaussian, Projected, kl_divergence

_CHUNK_TOKENS = {"cpu": 6144}
"""Tokens per pass through the transformer, by kind of device; elsewhere a batch is one pass."""
_LITTLE_PADDING = 160 * 64**2
"""Padded tokens times width² that are cheaper to compute than sequences of a second length, measured on a CPU."""


class TopErlLearner(EpisodicLearner):
    """The networks and the updates of TOP-ERL."""

    columns = columns()

    def __init__(
        self,
        config: TopErlConfig,
        primitive: ProDmp,
        collector: EpisodeCollector,
        *,
        seed: int,
        total_iterations: int,
        device: torch.device | None = None,
    ) -> None:
        """Build networks, replay and optimisers; all randomness derives from `seed`."""
        self.config, self.primitive, self.collector = config, primitive, collector
        self.seed, self.total_iterations = seed, total_iterations
        self.device = device or torch.device("cpu")
        spec, stride = collector.spec, config.collect.stride
        state_dim, action_dim = spec.observation_dim + 1, 2 * spec.num_dof

        if collector.stored_horizon > config.critic.max_positions:
            raise UserError(
                f"An episode has {collector.stored_horizon} tokens, more than critic.max_positions "
                f"({config.critic.max_positions}): raise that, or collect.stride."
            )
        self.target = make_target(config.learn.target, config.learn.ensemble_size)
        with seeded(derive(seed, "networks", 0)):
            self.policy = GaussianPolicy(config.policy, state_dim, primitive.num_params).to(self.device)
            self.critics = CriticEnsemble(config.critic, state_dim, action_dim, self.target.num_critics).to(self.device)
        self.anchor = frozen_copy(self.policy)
        self.target_critics = frozen_copy(self.critics)

        learn = config.learn
        self.critic_optimizer = adam_w(self.critics, learn.critic_rate, learn.critic_decay)
        self.policy_optimizer = adam(self.policy, learn.policy_rate, learn.policy_decay)

        self.chunk_tokens = _CHUNK_TOKENS.get(self.device.type, 1 << 40)

        self.replay = EpisodeReplay(config.collect.capacity, self.device)
        self.segmentation = config.segments.build()
        self.projection = config.trust_region.build_projection()
        self.entropy_schedule = config.trust_region.build_entropy_schedule()
        self.initial_entropy = self._policy_entropy(state_dim)

        # Stored action j was tracked from time m·j·dt on and describes the reference at (m·j + 1)·dt.
        steps = torch.arange(collector.stored_horizon, dtype=torch.float64, device=self.device) * stride
        grid = primitive.grid((steps + 1) * spec.dt, steps * spec.dt, dtype=torch.float32)
        self.regenerate = Regeneration(primitive, grid)

    def use_low_precision(self) -> None:
        """Multiply the matrices of the critics' blocks in bfloat16 from now on, by the route that is fast here."""
        for critics in (self.critics, self.target_critics):
            critics.set_products(low_products(self.device))

    # ------------------------------------------------------------------ one iteration (Algorithm 1)

    def prefill(self) -> None:
        """Collect the episodes wanted before the first iteration, and standardise inputs by them if asked to."""
        if self.replay.total_added >= self.config.collect.prefill:
            return
        while (missing := self.config.collect.prefill - self.replay.total_added) > 0:
            self.collector.start(self.policy, min(missing, 16))
            self.replay.add(self.collector.finish()[0])
        if self.config.learn.standardize and not self.policy.standardize.fitted:  # a loaded policy keeps its own
            episodes = self.replay.gather(torch.arange(len(self.replay)))
            for policy in (self.policy, self.anchor):
                policy.standardize.fit(episodes.state)
            for critics in (self.critics, self.target_critics):
                critics.fit_standardizers(episodes.state, episodes.action)

    def iterate(self, iteration: int) -> IterationStats:
        """Collect, train the critic, train the policy, move the anchor. Iterations count from 1."""
        count, learn = self.config.collect.episodes, self.config.learn
        generator = torch_generator(self.seed, "update", iteration)
        self.collector.start(self.policy, count, next_count=count)
        scores = None if self.config.collect.overlap else self._store_episodes()

        self._set_learning_rates(iteration)
        bound = self.entropy_bound(iteration)
        critic_steps = learn.critic_steps if iteration >= learn.critic_start else 0
        policy_steps = learn.policy_steps if iteration >= learn.policy_start else 0
        dropout = self.config.critic.dropout > 0.0  # the only use of torch's global generator
        with seeded(derive(self.seed, "dropout", iteration)) if dropout else nullcontext():
            critic_stats = self._critic_steps(critic_steps, generator, bound)
            policy_stats = self._policy_steps(policy_steps, generator, bound)
        if policy_steps:
            move_towards(self.anchor, self.policy, self.config.trust_region.anchor_rate)
        return IterationStats(
            scores or self._store_episodes(),
            named_numbers(mean_stats(critic_stats, CriticStats), mean_stats(policy_stats, PolicyStats)),
        )

    def _set_learning_rates(self, iteration: int) -> None:
        """Let both learning rates fall linearly to their final values."""
        learn = self.config.learn
        factor = 1.0 - (1.0 - learn.final_rate) * min(1.0, iteration / self.total_iterations)
        set_rate(self.critic_optimizer, factor * learn.critic_rate)
        set_rate(self.policy_optimizer, factor * learn.policy_rate)

    def _store_episodes(self) -> Scores:
        episodes, scores = self.collector.finish()
        self.replay.add(episodes)
        return scores

    # ------------------------------------------------------------------ the critic (Sec. 4.2 and 4.3)

    def _critic_steps(self, count: int, generator: torch.Generator, bound: float | None) -> list[CriticStats]:
        """All critic steps of an iteration. The policy stands still meanwhile, so it is projected once for all."""
        projected_replay = cache(lambda: self._projected_replay(bound))  # made by the first step

        def step(batch: EpisodeBatch, drawn: Tensor) -> CriticStats:
            known = projected_replay()
            gaussian = None if known is None else replace(known, mean=known.mean[send(drawn, self.device)])
            return self.critic_step(batch, generator, bound, gaussian)

        learn = self.config.learn
        return GradientSteps("critic", self.replay, learn.batch_size, learn.critic_rate).run(count, generator, step)

    def critic_step(
        self,
        batch: EpisodeBatch,
        generator: torch.Generator,
        entropy_bound: float | None = None,
        gaussian: Gaussian | None = None,
    ) -> CriticStats:
        """Regress V and every Q of random segments onto their targets (Eq. 7), then move the target critics.

        `gaussian` is the projected policy at the episodes' first states, if it is known already.
        """
        segments = self.segmentation.draw(batch.horizon, generator, padded=True).to(self.device)
        with torch.no_grad():
            gaussian = gaussian or self.project(batch, entropy_bound)[1].gaussian
            params = self._sample(gaussian, len(segments.starts), generator)  # [B, K, P]
            extra = self._sample(gaussian, batch.horizon, generator) if self.target.bootstraps_with_q else None
        self.critic_optimizer.zero_grad()
        parts = []
        for rows, share in self._parts(batch, segments):
            part = self._critic_part(batch.part(rows), segments, params[rows], None if extra is None else extra[rows])
            (len(self.critics) * share * part.loss).backward()  # each critic has a mean of its own
            parts.append(part.scaled(share))
            del part  # and its activations, before the next part makes its own
        self.critic_optimizer.step()
        move_towards(self.target_critics, self.critics, self.config.learn.target_rate)
        return sum_stats(parts)

    def _critic_part(
        self, batch: EpisodeBatch, segments: Segments, params: Tensor, bootstrap_params: Tensor | None
    ) -> CriticStats:
        """Loss of a part of the batch, with the gradient's graph."""
        with torch.no_grad():
            target = self.critic_targets(batch, segments, params, bootstrap_params)  # [B, K, L + 1]
        state, action = batch.state[:, segments.starts], batch.action[:, segments.inside]  # padding repeats the last
        critics = in_mode(self.critics, training=True)
        tail = self._tail(batch, segments)
        predictions = critics(state, action, segments.starts, tail)  # [C, B, K, L + 1]
        weight = segments.weight  # [K, L + 1]
        if self.target.bootstraps_with_q:  # V has no target
            weight = fn.pad(weight[:, 1:], (1, 0))
        loss = critic_loss(predictions, target, weight)
        return CriticStats(loss=loss, value=predictions[..., 0].detach().mean(), target=target[..., 1].mean())

    def critic_targets(
        self, batch: EpisodeBatch, segments: Segments, params: Tensor, bootstrap_params: Tensor | None = None
    ) -> Tensor:
        """Targets of `[V, Q_1, …, Q_L]`, [B, K, L + 1] (Eq. 7 and 8).

        Args:
            batch: the episodes.
            segments: the cut.
            params: new primitive parameters per segment, [B, K, P].
            bootstrap_params: new parameters per stored state, [B, T, P], for the Q-target option.
        """
        if bootstrap_params is None:
            value, bootstrap = self._v_targets(batch, segments, params)
        else:
            value = params.new_zeros(params.shape[:2])  # not trained
            bootstrap = self._q_bootstrap(batch, segments.length, bootstrap_params)
        returns = n_step_returns(batch.reward, bootstrap, segments, self.config.learn.discount)
        return torch.cat((value.unsqueeze(-1), returns), dim=-1)

    def sequence_value(self, batch: EpisodeBatch, segments: Segments, params: Tensor) -> Tensor:
        """Target value of new action sequences from the segments' first states, [B, K] (second row of Eq. 7).

        Only the last Q counts: the value after all actions of the segment that lie inside the episode.
        """
        inputs = self._fresh(batch, segments, params)
        counts, tail = segments.last_valid, self._tail(batch, segments)
        return self.target.combine(self.target_critics.sequence_value(*inputs, counts, tail))

    def _v_targets(self, batch: EpisodeBatch, segments: Segments, params: Tensor) -> tuple[Tensor, Tensor]:
        """`sequence_value`, [B, K], and V of every stored state from the target critics, [B, T].

        V is zero before the first state that follows an action of a segment: no one looks there.
        """
        first = segments.first + 1
        states = (batch.state[:, first:], segments.later)
        counts, tail = segments.last_valid, self._tail(batch, segments)
        sequence, alone = self.target_critics.target_values(self._fresh(batch, segments, params), counts, tail, states)
        return self.target.combine(sequence), fn.pad(self.target.combine(alone), (first, 0))

    def _fresh(self, batch: EpisodeBatch, segments: Segments, params: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """First states of the segments, [B, K, S], new actions from there, [B, K, L, 2D], and time indices, [K]."""
        actions = self.regenerate(batch, segments, params, self.config.learn.critic_condition)
        return batch.state[:, segments.starts], actions, segments.starts

    def _q_bootstrap(self, batch: EpisodeBatch, length: int, params: Tensor) -> Tensor:
        """Value of a fresh sequence of `length` actions from every stored state, [B, T] (the Q-target option)."""
        chunk = max(1, self.chunk_tokens // (len(batch) * (length + 1)))
        parts = []
        for starts in torch.arange(batch.horizon, device=self.device).split(chunk):
            segments = Segments(starts, batch.horizon, length)
            parts.append(self.sequence_value(batch, segments, params[:, starts]))
        return torch.cat(parts, dim=1)

    # ------------------------------------------------------------------ the policy (Sec. 4.4)

    def _policy_steps(self, count: int, generator: torch.Generator, bound: float | None) -> list[PolicyStats]:
        """All policy steps of an iteration; the last one measures the trust region too."""
        left = iter(range(count, 0, -1))

        def step(batch: EpisodeBatch, drawn: Tensor) -> PolicyStats:
            return self.policy_step(batch, generator, bound, next(left) == 1)

        learn = self.config.learn
        return GradientSteps("policy", self.replay, learn.batch_size, learn.policy_rate).run(count, generator, step)

    def policy_step(
        self,
        batch: EpisodeBatch,
        generator: torch.Generator,
        entropy_bound: float | None = None,
        measure: bool = True,
    ) -> PolicyStats:
        """Climb the critic's values of re-generated segments (Eq. 9), inside the trust region.

        With `measure`, the statistics say where in the trust region the policy was before the step.
        """
        segments = self.segmentation.draw(batch.horizon, generator, padded=False).to(self.device)
        new, projected, old = self.project(batch, entropy_bound)
        params = self._sample(projected.gaussian, len(segments.starts), generator)  # [B, K, P]
        climb = params.detach().requires_grad_()  # the critic's gradient is gathered here, part by part
        objective = params.new_zeros(())
        with frozen(self.critics):
            for rows, share in self._parts(batch, segments):
                value = share * self._objective(batch.part(rows), segments, climb[rows])
                value.backward()
                objective += value.detach()
                del value  # and its activations, before the next part makes its own
        assert climb.grad is not None
        regression = self.projection.regression_loss(new, projected.gaussian)
        pull = self.config.trust_region.regression_weight * regression

        self.policy_optimizer.zero_grad()
        (pull - (climb.grad * params).sum()).backward()  # d objective / d policy, by the chain rule
        self.policy_optimizer.step()
        stats = PolicyStats(loss=pull.detach() - objective, objective=objective, regression_loss=regression.detach())
        if not measure:
            return stats
        return replace(
            stats,
            entropy=projected.gaussian.detach().entropy().mean(),
            kl_to_anchor=kl_divergence(new.detach(), old).mean(),
            mean_projected=projected.mean_active.float().mean(),
            covariance_projected=projected.covariance_active.float().mean(),
        )

    def _objective(self, batch: EpisodeBatch, segments: Segments, params: Tensor) -> Tensor:
        """Critic's value of all prefixes of the new segments, averaged over episodes and segments."""
        actions = self.regenerate(batch, segments, params, self.config.learn.policy_condition)
        state = batch.state[:, segments.starts]
        prefixes = in_mode(self.critics, training=False).prefix_values(state, actions, segments.starts)  # [C, B, K, L]
        per_segment = prefixes.sum(-1) if self.config.learn.policy_objective == "sum" else prefixes.mean(-1)
        return self.target.combine(per_segment).mean()

    # ------------------------------------------------------------------ shared by both

    def project(self, batch: EpisodeBatch, entropy_bound: float | None) -> tuple[Gaussian, Projected, Gaussian]:
        """The policy at the episodes' first states, its projection into the trust region, and the anchor."""
        first_state = batch.state[:, 0]
        new = self.policy(first_state)
        with torch.no_grad():
            old = batch.behaviour or self.anchor(first_state)
        return new, self.projection.project(new, old, entropy_bound), old

    @torch.no_grad()
    def _projected_replay(self, entropy_bound: float | None) -> Gaussian | None:
        """The projected policy at the first state of every stored episode; None if it differs from batch to batch."""
        if self.policy.contextual or self.config.trust_region.anchor == "behaviour":
            return None  # a covariance per episode costs more than it saves
        return self.project(self.replay.gather_first(), entropy_bound)[1].gaussian

    def _parts(self, batch: EpisodeBatch, segments: Segments) -> Iterator[tuple[slice, float]]:
        """Cut a batch into parts whose activations stay in the processor's cache; rows, and share of the batch."""
        size = max(1, self.chunk_tokens // (len(segments.starts) * (segments.length + 1)))
        for first in range(0, len(batch), size):
            rows = slice(first, min(first + size, len(batch)))
            yield rows, (rows.stop - rows.start) / len(batch)

    def _tail(self, batch: EpisodeBatch, segments: Segments) -> int | None:
        """Actions of the last segment to compute; None: all, padding too."""
        padding = 0 if segments.tail is None else len(batch) * (segments.length - segments.tail)
        return segments.tail if padding * self.config.critic.width**2 > _LITTLE_PADDING else None

    def entropy_bound(self, iteration: int) -> float | None:
        """Lower bound on the policy's entropy at an iteration; None without a schedule."""
        return self.entropy_schedule.bound(
            iteration, self.total_iterations, self.initial_entropy, self.primitive.num_params
        )

    @torch.no_grad()
    def _policy_entropy(self, state_dim: int) -> float:
        """Entropy of the policy as it is now, from which the entropy schedule starts."""
        return float(self.policy(torch.zeros(1, state_dim, device=self.device)).entropy().mean())

    def _sample(self, gaussian: Gaussian, count: int, generator: torch.Generator) -> Tensor:
        """Independent parameters for every episode and segment, [B, K, P] (reparametrised, Eq. 10)."""
        shape = (len(gaussian.mean), count, self.primitive.num_params)
        return gaussian.sample_many(send(torch.randn(shape, generator=generator), self.device))

    # ------------------------------------------------------------------ saving

    def replay_state(self) -> dict[str, Tensor]:
        """The stored episodes."""
        return self.replay.state_dict()

    def load_replay_state(self, state: dict[str, Tensor]) -> None:
        """Take over stored episodes if they look like the ones this run stores."""
        held = len(state["steps"])
        same_stride = not held or state["steps"].shape[1] == self.collector.stored_horizon
        same_anchor = not held or bool(state["gaussians"].numel()) == self.collector.keep_behaviour
        if not (same_stride and same_anchor):
            option = "trust_region.anchor" if same_stride else "collect.stride"
            raise UserError(f"The saved replay was made with another {option}: use the config.yaml it was saved with.")
        self.replay.load_state_dict(state)

    def _modules(self) -> dict[str, nn.Module]:
        critics = {"critics": self.critics, "target_critics": self.target_critics}
        return {"policy": self.policy, "anchor": self.anchor, **critics}
