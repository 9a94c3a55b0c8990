"""Collecting episodes of several plans: the policy is asked again in the middle, all episodes of a batch in lock-step.

Between two instants at which any episode replans, all are advanced by the same number of steps, so that a worker gets
one message for its whole share. The policy, and the critic that judges plans, are copies made when the episodes begin:
it does not matter what is learned meanwhile, nor when somebody looks for what the workers have answered.

Axes: `B` episodes, `n` some of them, `T` control steps, `S` observation entries, `D` degrees of freedom, `P` primitive
parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from top_erl.errors import RunStopped, UserError
from top_erl.models.policy import GaussianPolicy
from top_erl.models.tools import frozen_copy
from top_erl.primitives import Reference
from top_erl.primitives.plans import PlanMovements
from top_erl.rollout.collector import EpisodeCollector, Planned, Scores, playable
from top_erl.rollout.plans import Plans
from top_erl.rollout.player import Picture, Player
from top_erl.rollout.tokens import Rollout
from top_erl.seeding import derive, episode_seeds
from top_erl.tasks import EpisodeOutcomes, EpisodeStarts, TaskSpec
from top_erl.tasks.contract import Array
from top_erl.trust_region.gaussian import Gaussian

Judge = Callable[[Array, int, Array, Array], NDArray[np.bool_]]
"""Says which new plans are better than going on, [n]: given states, [n, S + 1], the control step, and the references
from there on under the old and the new plans, [n, T - step, 2D] each."""
Noise = Callable[[Sequence[int], int], Tensor | None]
"""Noise of some episodes' plans at a control step, [n, P]; None: the policy's mean."""


@dataclass
class _OnTheWay:
    """Episodes that are being played, plan after plan."""

    policy: GaussianPolicy
    seeds: list[int]
    starts: EpisodeStarts
    noise: Noise
    times: list[list[int]]  # control steps at which each episode replans, ascending
    judge: Judge | None
    next_seeds: list[int]
    reference: Array  # [B, T, 2D], to the end under the plans so far
    step: int = 0
    sent: int = 0  # steps that have been handed to the player
    plans: list[Plans] = field(default_factory=list)

    def due(self) -> list[int]:
        """Episodes that replan now."""
        return [row for row, times in enumerate(self.times) if self.step == 0 or self.step in times]

    def next_stop(self, horizon: int) -> int:
        """The next step at which somebody replans, or the end."""
        return min((step for times in self.times for step in times if step > self.step), default=horizon)


class ReplanningCollector(EpisodeCollector):
    """Plays episodes whose plans follow each other, each from the reference that the one before has reached."""

    def __init__(
        self,
        player: Player,
        spec: TaskSpec,
        movements: PlanMovements,
        *,
        every: int,
        random: bool = False,
        reference_input: bool = True,
        **options: Any,
    ) -> None:
        """Tie a player and the movements of plans together.

        Args:
            player: Who plays; its task plays in parts.
            spec: The facts about the task.
            movements: What parameters mean, wherever a plan starts.
            every: Control steps between two plans.
            random: Whether they are so many on average only, while exploring.
            reference_input: Whether the policy sees the reference where a plan starts.
            options: The other options of `EpisodeCollector`.
        """
        super().__init__(player, spec, movements.primitive, **options)
        self.movements, self.every, self.random = movements, every, random
        self.reference_input = reference_input
        self.make_judge: Callable[[], Judge] | None = None
        """Makes what decides, while exploring, whether a new plan is taken at all; None: it always is."""
        self._way: _OnTheWay | None = None

    @property
    def plan_inputs(self) -> int:
        """Entries that the policy sees besides the state: position and velocity of the reference."""
        return 2 * self.spec.num_dof if self.reference_input else 0

    # ------------------------------------------------------------------ collecting

    def start(self, policy: GaussianPolicy, count: int, next_count: int = 0) -> None:
        """Begin `count` exploratory episodes; with workers they are played while the caller goes on."""
        first = self.episodes_collected
        numbers = range(first, first + count)
        times = [self._random_times(number) if self.random else self._even_times() for number in numbers]
        self._way = self._begun(
            policy,
            episode_seeds(self.seed, "training", first, count),
            lambda rows, step: self.exploration(policy.num_params, [first + row for row in rows], step),
            times,
            self.make_judge() if self.make_judge is not None else None,
            episode_seeds(self.seed, "training", first + count, next_count),
        )
        self._pending = None

    def go_on(self) -> None:
        """Make the plans that are due, if the players have come so far; does not wait for them."""
        while self._way is not None and self._way.sent < self.spec.horizon and self.player.answered():
            self._replan(self._way, self.player.instant())

    def finish_rollout(self) -> tuple[Rollout, Scores]:
        """Wait for the episodes begun by `start`; they come in full."""
        if self._way is not None:
            way, self._way = self._way, None
            self._pending = self._to_the_end(way)
        return super().finish_rollout()

    def _played(
        self, policy: GaussianPolicy, seeds: Sequence[int], noise: Tensor | None = None
    ) -> tuple[Planned, EpisodeOutcomes]:
        """Play the policy's mean, or samples with noise, [B, P], the same in all plans of an episode."""
        times = [self._even_times() for _ in seeds]
        way = self._begun(
            policy, list(seeds), lambda rows, step: None if noise is None else noise[list(rows)], times, None, []
        )
        return self._to_the_end(way), self.player.outcomes()

    def film(self, policy: GaussianPolicy, seed: int, every: int) -> list[Picture]:
        """Play the policy's mean; pictures after each `every`-th step and after the last."""
        pending, outcomes = self._played(policy, [seed])
        if outcomes.failures:
            raise RunStopped(f"{outcomes.failures[0].sentence}: there is nothing to film.")
        return self.player.frames(seed, pending.reference[0], every)

    # ------------------------------------------------------------------ plans

    def plan(
        self, policy: GaussianPolicy, starts: EpisodeStarts, noise: Tensor | None = None
    ) -> tuple[Reference, Tensor, Gaussian]:
        """The first plans of episodes, [B, T, D]; their parameters, [B, P], and distribution."""
        current = np.concatenate((starts.position, starts.velocity), axis=-1)
        return self.next_plan(policy, 0, starts.observation, current, noise, starts.position)

    @torch.no_grad()
    def next_plan(
        self,
        policy: GaussianPolicy,
        step: int,
        observation: Array,
        current: Array,
        noise: Tensor | None = None,
        origin: Array | None = None,
    ) -> tuple[Reference, Tensor, Gaussian]:
        """Plans of the policy's mean, or of samples, to the end of the episode, [B, T - step, D].

        Args:
            policy: The policy.
            step: Control steps made before.
            observation: Raw observations now, [B, S].
            current: The reference that is being tracked: positions, then velocities, [B, 2D].
            noise: What samples are made of, [B, P]; None: the mean.
            origin: Positions at the episodes' starts, [B, D], if `movements.needs_origin`.

        Returns:
            The references, their parameters, [B, P], and the distribution they come from.
        """
        like = policy.raw_covariance  # tells device and precision
        seen = torch.as_tensor(self._policy_input(step, observation, current), dtype=like.dtype, device=like.device)
        gaussian = policy(seen)
        params = gaussian.mean if noise is None else gaussian.sample(noise.to(like))  # [B, P]
        position, velocity = torch.from_numpy(current).chunk(2, dim=-1)
        start = None if origin is None else torch.from_numpy(origin)
        desired = self.movements.reference(step, params.double().cpu(), position, velocity, start)
        return Reference(*desired.chunk(2, dim=-1)), params, gaussian

    def _policy_input(self, step: int, observation: Array, current: Array) -> Array:
        """State and time, and perhaps the reference, [B, S + 1] or [B, S + 1 + 2D]."""
        time = np.full((len(observation), 1), step * self.spec.dt)
        return np.concatenate((observation, time, *([current] if self.reference_input else [])), axis=-1)

    def _even_times(self) -> list[int]:
        return list(range(self.every, self.spec.horizon, self.every))

    def _random_times(self, number: int) -> list[int]:
        """Instants of an episode by its number: at each token a new plan begins with probability stride / h."""
        tokens = np.arange(self.stride, self.spec.horizon, self.stride)
        chance = np.random.default_rng(derive(self.seed, "replanning", number)).random(len(tokens))
        return [int(step) for step in tokens[chance < self.stride / self.every]]

    # ------------------------------------------------------------------ on the way

    def _begun(
        self,
        policy: GaussianPolicy,
        seeds: list[int],
        noise: Noise,
        times: list[list[int]],
        judge: Judge | None,
        next_seeds: list[int],
    ) -> _OnTheWay:
        """Begin episodes and send them off with their first plans."""
        starts = self.player.begin(seeds)
        reference = np.zeros((len(seeds), self.spec.horizon, 2 * self.spec.num_dof))
        way = _OnTheWay(frozen_copy(policy), seeds, starts, noise, times, judge, next_seeds, reference)
        self._replan(way, starts)
        return way

    def _replan(self, way: _OnTheWay, now: EpisodeStarts) -> None:
        """Make the plans that are due at an instant, and hand out the steps up to the next one."""
        way.step = way.sent
        rows = way.due()
        if way.step:  # whoever could not begin keeps a first plan, so that every episode has one
            rows = [row for row in rows if row not in now.failures]
        if rows:
            self._make_plans(way, now, rows)
        stop = way.next_stop(self.spec.horizon)
        part, way.sent = way.reference[:, way.step : stop], stop
        if stop == self.spec.horizon:
            self.player.play(part, way.next_seeds)
        else:
            self.player.advance(part)

    def _make_plans(self, way: _OnTheWay, now: EpisodeStarts, rows: list[int]) -> None:
        """Ask the policy for new plans of some episodes; where they are taken, the references change from here on."""
        step, observation = way.step, now.observation[rows]
        measured = np.concatenate((way.starts.position, way.starts.velocity), axis=-1)
        current = (way.reference[:, step - 1] if step else measured)[rows]
        noise, origin = way.noise(rows, step), way.starts.position[rows]
        reference, params, gaussian = self.next_plan(way.policy, step, observation, current, noise, origin)
        desired = playable(reference.stacked())
        if step and way.judge is not None:
            time = np.full((len(rows), 1), step * self.spec.dt)
            state = np.concatenate((observation, time), axis=-1)
            taken = np.flatnonzero(way.judge(state, step, way.reference[rows, step:], desired)).tolist()
        else:
            taken = list(range(len(rows)))
        kept = np.array([rows[index] for index in taken], dtype=np.int64)
        way.reference[kept, step:] = desired[taken]
        way.plans.append(Plans(kept, np.full(len(kept), step), params[taken], gaussian.rows(taken)))

    def _to_the_end(self, way: _OnTheWay) -> Planned:
        """Wait for all parts but the last, which is being played when this returns."""
        while way.sent < self.spec.horizon:
            self._replan(way, self.player.instant())
        plans, first = Plans.joined(way.plans), way.plans[0]
        return Planned(way.seeds, way.starts, way.reference, first.params, first.behaviour, plans)


def plan_every(collector: EpisodeCollector) -> int:
    """Control steps between two plans of an episode; 0 if it has one."""
    return collector.every if isinstance(collector, ReplanningCollector) else 0


def check_parts(plays_in_parts: bool, id: str) -> None:
    """Refuse a task that plays whole episodes only."""
    if not plays_in_parts:
        raise UserError(
            f"{id} plays whole episodes only, so nobody can replan in the middle: give its class a method "
            "advance(reference), or use --plan.every 0."
        )
