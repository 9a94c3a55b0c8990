"""TOP-ERL with several plans an episode: h steps of a plan are executed before the next one is made.

The critic is the same: it values a state and the actions after it, whoever made them, so segments may cross the borders
of plans. What changes follows from where plans start:

- Every state of an episode may be the start of a plan. The policy is asked at the states of the segments, and sees the
  reference there as well, since a new plan goes on from it.
- New actions of a segment are those of a plan that starts there. They are valued to the segment's end, and the policy
  ascends the values of plans of all lengths, as if plans were executed whole: what the next plans will do better is
  left out. With `plan.look plan` they end where the next plan begins: V is regressed onto the value after h actions,
  and the policy ascends the values of prefixes up to h.
- The trust region holds at each of these states.

With h = T only first states are starts of plans, and this is the method as published; `TopErlLearner` is used then.

Axes: `C` critics, `B` episodes, `K` segments, `L` actions per segment, `T` stored steps, `S` state entries, `D` degrees
of freedom, `P` primitive parameters, `n` episodes that may replan.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from top_erl.algorithms.setup import Setup
from top_erl.algorithms.top_erl.config import TopErlConfig
from top_erl.algorithms.top_erl.learner import TopErlLearner
from top_erl.algorithms.top_erl.segments import Segments, plan_starts, rests_of_episode
from top_erl.algorithms.top_erl.targets import Future
from top_erl.config.plan import PlanConfig
from top_erl.errors import UserError
from top_erl.hardware.devices import send
from top_erl.models import Sequences
from top_erl.models.tools import frozen_copy
from top_erl.rollout.replanning import Judge, ReplanningCollector
from top_erl.rollout.replay import EpisodeBatch
from top_erl.tasks.contract import Array
from top_erl.trust_region import Gaussian, Projected


class PlanningLearner(TopErlLearner):
    """The updates of TOP-ERL where a plan may start at any state."""

    collector: ReplanningCollector

    def __init__(self, config: TopErlConfig, setup: Setup) -> None:
        """Build what `TopErlLearner` does, and the matrices of plans from every state."""
        if config.trust_region.anchor == "behaviour":
            raise UserError(
                "With several plans an episode the policy is asked at states where it has not acted, so there is no "
                "behaviour to measure from: use --trust-region.anchor ema."
            )
        super().__init__(config, setup)
        self.plan_entries = 1 + 2 * self.primitive.num_params
        self.plan_tokens = config.plan.every // config.collect.stride
        self.plan_grid = self.collector.movements.grid(config.collect.stride, self.device)
        self.seen_tokens = self.plan_tokens if config.plan.look == "plan" else self.collector.stored_horizon
        self.plan_lengths = self._plan_lengths(config.plan)
        if config.plan.by_value:
            self.collector.make_judge = self.make_judge

    # ------------------------------------------------------------------ the two steps

    def critic_target(
        self,
        batch: EpisodeBatch,
        segments: Segments,
        generator: torch.Generator,
        bound: float | None,
        gaussian: Gaussian | None = None,
    ) -> Tensor:
        """Targets of `[V, Q_1, …, Q_L]`, [B, K, L + 1]: V of a state is that of a new plan from there."""
        future = Future(
            critics=self.target_critics,
            params=self.sample_at(batch, segments, generator, bound),
            sample=lambda others: self.sample_at(batch, others, generator, bound),
            sequences=lambda others, params: self.new_plans(batch, others, params),
            discount=self.config.learn.discount,
        )
        return self.target(batch, segments, future)

    def policy_segments(self, horizon: int, generator: torch.Generator) -> Sequence[Segments]:
        """Where plans start: a cut as the critic's would rarely show the policy late states.

        A random state within every 2h steps, from which a plan is valued to the end.
        With `plan.look plan` two within h steps.
        """
        if self.config.plan.look == "end":
            return rests_of_episode(horizon, 2 * self.plan_tokens, generator)
        return [plan_starts(horizon, self.plan_lengths, max(1, self.plan_tokens // 2), generator)]

    def divisor(self, length: int) -> float:
        """As with one plan; but a plan counts as much as any other, however near the end it starts."""
        if self.config.plan.look == "end" and self.config.learn.policy_objective == "sum":
            return length / self.collector.stored_horizon  # that of the whole episode is summed
        return super().divisor(length)

    def _plan_lengths(self, plan: PlanConfig) -> list[int]:
        """Tokens that are executed of a plan: h, less of a last one that the end cuts off, any at random instants."""
        if plan.random or plan.by_value:
            return list(range(1, self.plan_tokens + 1))
        rest = self.collector.stored_horizon % self.plan_tokens
        return [rest, self.plan_tokens] if rest else [self.plan_tokens]

    def improved(
        self, batch: EpisodeBatch, segments: Segments, generator: torch.Generator, bound: float | None
    ) -> tuple[Sequences, Gaussian, Projected, Gaussian]:
        """New plans of the projected policy from the segments' first states, and what `project_at` returns."""
        new, projected, old = self.project_at(batch, segments, bound)
        return self.new_plans(batch, segments, self._sampled(projected, segments, generator)), new, projected, old

    # ------------------------------------------------------------------ shared by both

    def project_at(
        self, batch: EpisodeBatch, segments: Segments, bound: float | None
    ) -> tuple[Gaussian, Projected, Gaussian]:
        """The policy at the segments' first states, [B·K], its projection into the trust region, and the anchor."""
        seen = self.seen_by_policy(batch)[:, segments.starts].flatten(0, 1)  # [B·K, S] or [B·K, S + 2D]
        new = self.policy(seen)
        with torch.no_grad():
            old = self.anchor(seen)
        return new, self.projection.project(new, old, bound), old

    def seen_by_policy(self, episodes: EpisodeBatch) -> Tensor:
        """What the policy sees at every state, [B, T, S], or with the reference there, [B, T, S + 2D]."""
        if not self.collector.plan_inputs:
            return episodes.state
        return torch.cat((episodes.state, episodes.reference), dim=-1)

    def sample_at(
        self, batch: EpisodeBatch, segments: Segments, generator: torch.Generator, bound: float | None
    ) -> Tensor:
        """Parameters of a new plan from every segment's first state, [B, K, P]."""
        return self._sampled(self.project_at(batch, segments, bound)[1], segments, generator)

    def _sampled(self, projected: Projected, segments: Segments, generator: torch.Generator) -> Tensor:
        gaussian = projected.gaussian
        noise = torch.randn(gaussian.mean.shape, generator=generator)
        return gaussian.sample(send(noise, self.device)).unflatten(0, (-1, segments.count))

    def new_plans(self, batch: EpisodeBatch, segments: Segments, params: Tensor) -> Sequences:
        """Actions of plans from the segments' first states, [B, K, P], as many as they are valued for at most."""
        cut = segments.shortened(self.seen_tokens)
        position, velocity = batch.reference[:, cut.starts].chunk(2, dim=-1)  # [B, K, D] each
        basis = self.plan_grid.basis(cut.starts, cut.inside)
        first = batch.reference[:, :1].chunk(2, dim=-1)[0]  # [B, 1, D]: positions at the episodes' starts
        origin = first if self.collector.movements.needs_origin else None
        actions = self.primitive.segments(basis, params, position, velocity, origin)  # [B, K, L or h, 2D]
        return Sequences(batch.state, cut.starts, actions, cut.counts)

    def _project_replay(self, bound: float | None) -> None:
        """The policy is asked at other states in every step."""

    # ------------------------------------------------------------------ plans by their value

    def make_judge(self) -> Judge:
        """Let the critics as they are now decide between going on and a new plan."""
        critics, stride = frozen_copy(self.critics), self.config.collect.stride

        @torch.no_grad()
        def judge(state: Array, step: int, old: Array, new: Array) -> NDArray[np.bool_]:
            token, count = step // stride, min(self.plan_tokens, (old.shape[1] + stride - 1) // stride)
            states = torch.zeros(len(state), self.collector.stored_horizon, self.state_dim)
            states[:, token] = torch.from_numpy(state)  # [n, S]
            both = np.stack((old, new), axis=1)[:, :, : count * stride : stride]  # [n, 2, count, 2D]
            sequences = Sequences(
                states.to(self.device),
                torch.full((2,), token, device=self.device),
                torch.from_numpy(both).to(device=self.device, dtype=states.dtype),
                torch.full((2,), count, device=self.device),
            )
            value = self.target.combine(critics.last_value(sequences))  # [n, 2]
            return np.asarray((value[:, 1] > value[:, 0]).cpu())

        return judge
