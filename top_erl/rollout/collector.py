"""Collecting episodes: context → policy → primitive → reference → task → stored episode (Sec. 4.1).

Axes: `B` episodes, `T` control steps, `D` degrees of freedom, `P` primitive parameters.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from top_erl.errors import RunStopped, UserError
from top_erl.models.policy import GaussianPolicy
from top_erl.primitives import Primitive, Reference
from top_erl.rollout.plans import Plans
from top_erl.rollout.player import Picture, Player
from top_erl.rollout.playing import startable
from top_erl.rollout.replay import EpisodeBatch
from top_erl.rollout.tokens import EpisodeTokenizer, Rollout, TokenRewards
from top_erl.seeding import derive, episode_seeds
from top_erl.tasks import EpisodeOutcomes, EpisodeStarts, TaskSpec
from top_erl.tasks.contract import Array, EpisodeFailure
from top_erl.tasks.goals import GoalRule
from top_erl.trust_region.gaussian import Gaussian

_LOG = logging.getLogger("top_erl")

MOST_FAILURES = 16
"""Episodes in a row that fail before the run stops."""

_EVALUATION_CHUNK = 16  # episodes begun at once in an evaluation; bounds the simulators alive


@dataclass(frozen=True)
class Scores:
    """How a batch of episodes went."""

    returns: Array
    """Sum of the unscaled rewards, [B]."""
    metrics: dict[str, Array]
    """Task metrics at the last step, each [B]."""
    failures: int = 0
    """Episodes that could not be played to the end; they are not among the others."""


@dataclass(frozen=True)
class Planned:
    """Episodes that are being played."""

    seeds: list[int]
    starts: EpisodeStarts
    reference: Array
    """What they track, [B, T, 2D]."""
    params: Tensor
    """Parameters of the primitive, [B, P]."""
    behaviour: Gaussian
    """What they were sampled from."""
    plans: Plans | None = None
    """As in `Rollout`."""


class EpisodeCollector:
    """Plays the policy's episodes and brings them into the learner's form."""

    def __init__(
        self,
        player: Player,
        spec: TaskSpec,
        primitive: Primitive,
        *,
        seed: int,
        stride: int = 1,
        reward_scale: float = 1.0,
        reward_shift: float = 0.0,
        reward_floor: float | None = None,
        keep_behaviour: bool = False,
        wide_share: float = 0.0,
        wide_factor: float = 1.0,
        goal_rule: GoalRule | None = None,
    ) -> None:
        """Tie a player and a primitive together; `seed` names the run's random streams."""
        check_stride(spec, stride)
        self.player, self.spec, self.primitive = player, spec, primitive
        self.seed, self.stride = seed, stride
        rewards = TokenRewards(stride, reward_scale, reward_shift, reward_floor)
        self.tokenize = EpisodeTokenizer(spec, rewards, keep_behaviour=keep_behaviour, goal_rule=goal_rule)
        self.wide_share, self.wide_factor = wide_share, wide_factor
        self.episodes_collected = 0
        self._failed_in_a_row = 0
        self._pending: Planned | None = None
        self._times = torch.arange(1, spec.horizon + 1, dtype=torch.float64) * spec.dt  # [T]

    @property
    def stored_horizon(self) -> int:
        """Steps of a stored episode."""
        return self.spec.horizon // self.stride

    @property
    def plan_inputs(self) -> int:
        """Entries that the policy sees besides the state."""
        return 0

    def go_on(self) -> None:
        """Do what is due for the episodes being played: here nothing, one plan lasts to the end."""

    def start(self, policy: GaussianPolicy, count: int, next_count: int = 0) -> None:
        """Begin `count` exploratory episodes; with workers they are played while the caller goes on."""
        first = self.episodes_collected
        seeds = episode_seeds(self.seed, "training", first, count)
        starts = self.player.begin(seeds)
        noise = self.exploration(policy.num_params, range(first, first + count))
        reference, params, gaussian = self._references(policy, starts, noise)
        following = episode_seeds(self.seed, "training", first + count, next_count)
        self.player.play(reference, following)
        self._pending = Planned(seeds, starts, reference, params, gaussian)

    def exploration(self, size: int, episodes: Sequence[int], step: int = 0) -> Tensor:
        """Noise of a plan that starts at a control step, for episodes by their numbers, [B, size]."""
        stream = f"exploration at step {step}" if step else "exploration"
        generators = [np.random.default_rng(derive(self.seed, stream, number)) for number in episodes]
        rows = [generator.standard_normal(size, dtype=np.float32) for generator in generators]
        factors = [self.wide_factor if self.is_wide(number) else 1.0 for number in episodes]
        return torch.from_numpy(np.stack(rows) * np.array(factors, dtype=np.float32)[:, None])

    def is_wide(self, number: int) -> bool:
        """Whether an episode explores with wider noise; so many of any consecutive ones do as their share says."""
        return int((number + 1) * self.wide_share) > int(number * self.wide_share)

    def finish(self) -> tuple[EpisodeBatch, Scores]:
        """Wait for the episodes begun by `start`; they come in the form that the replay stores."""
        rollout, scores = self.finish_rollout()
        return self.stored(rollout), scores

    def finish_rollout(self) -> tuple[Rollout, Scores]:
        """Wait for the episodes begun by `start`; they come in full."""
        if self._pending is None:
            raise RuntimeError("finish() without start()")
        pending, self._pending = self._pending, None
        outcomes = self.player.outcomes()
        number = self.episodes_collected
        good = self._good(outcomes, [f"Episode {number + i}" for i in range(len(pending.seeds))])
        self.episodes_collected += len(pending.seeds)
        return self._rollout(pending, outcomes, good)

    def play(self, policy: GaussianPolicy, seeds: Sequence[int], noise: Tensor | None = None) -> tuple[Rollout, Scores]:
        """Play the policy's mean, or samples with noise, [B, P], on the given seeds; no training episodes.

        Those that fail are left out, and do not count among failures in a row: a seed may be asked for many times.
        """
        pending, outcomes = self._played(policy, seeds, noise)
        _warn_of(outcomes.failures.values())
        good = [index for index in range(len(seeds)) if index not in outcomes.failures]
        return self._rollout(pending, outcomes, good)

    def _played(
        self, policy: GaussianPolicy, seeds: Sequence[int], noise: Tensor | None = None
    ) -> tuple[Planned, EpisodeOutcomes]:
        """Play the policy's mean, or samples with noise, [B, P], to the end."""
        starts = self.player.begin(seeds)
        reference, params, gaussian = self._references(policy, starts, noise)
        self.player.play(reference)
        return Planned(list(seeds), starts, reference, params, gaussian), self.player.outcomes()

    def _rollout(self, pending: Planned, outcomes: EpisodeOutcomes, good: list[int]) -> tuple[Rollout, Scores]:
        """The episodes that were played to the end, in full."""
        count, horizon = len(good), self.spec.horizon
        time = np.broadcast_to(np.arange(horizon)[:, None] * self.spec.dt, (count, horizon, 1))
        rollout = Rollout(
            state=np.concatenate((outcomes.observation[good], time), axis=-1),
            reference=pending.reference[good],
            position=pending.starts.position[good],
            velocity=pending.starts.velocity[good],
            reward=outcomes.reward[good],
            params=pending.params[good],
            behaviour=pending.behaviour.rows(good),
            plans=None if pending.plans is None else pending.plans.of(good),
            last=None if outcomes.last is None else outcomes.last[good],
        )
        return rollout, _scores(outcomes, good)

    def evaluate(self, policy: GaussianPolicy, seeds: Sequence[int]) -> Scores:
        """Play the policy's mean on the given seeds."""
        chunks = []
        for first in range(0, len(seeds), _EVALUATION_CHUNK):
            chunk = list(seeds[first : first + _EVALUATION_CHUNK])
            _, outcomes = self._played(policy, chunk)
            names = [f"Evaluation episode {first + i}" for i in range(len(chunk))]
            chunks.append(_scores(outcomes, self._good(outcomes, names)))
        return joined_scores(self.spec, chunks)

    def good_starts(self, seeds: Sequence[int]) -> EpisodeStarts:
        """First instants of episodes that are not played, [B, ...]; without those that fail."""
        starts = self.player.begin(seeds)
        _warn_of(starts.failures.values())
        good = startable(starts)
        if not good:
            raise RunStopped(f"None of {len(seeds)} episodes of {self.spec.id} could be begun: mend the environment.")
        return EpisodeStarts(starts.observation[good], starts.position[good], starts.velocity[good])

    def film(self, policy: GaussianPolicy, seed: int, every: int) -> list[Picture]:
        """Play the policy's mean; pictures after each `every`-th step and after the last."""
        starts = self.player.begin([seed])
        if starts.failures:
            raise RunStopped(f"{starts.failures[0].sentence}: there is nothing to film.")
        reference, _, _ = self._references(policy, starts, noise=None)
        return self.player.frames(seed, reference[0], every)

    @torch.no_grad()
    def plan(
        self, policy: GaussianPolicy, starts: EpisodeStarts, noise: Tensor | None = None
    ) -> tuple[Reference, Tensor, Gaussian]:
        """Movements of the policy's mean, or of samples, [B, T, D]; their parameters, [B, P], and distribution."""
        like = policy.raw_covariance  # tells device and precision
        count = len(starts.observation)
        first_state = np.concatenate((starts.observation, np.zeros((count, 1))), axis=1)  # time is 0
        gaussian = policy(torch.as_tensor(first_state, dtype=like.dtype, device=like.device))
        params = gaussian.mean if noise is None else gaussian.sample(noise.to(like))  # [B, P]
        reference = self.primitive.trajectory(
            params.double().cpu(),
            self._times,
            init_time=0.0,
            init_position=torch.from_numpy(starts.position),
            init_velocity=torch.from_numpy(starts.velocity),
        )
        return reference, params, gaussian

    def _references(
        self, policy: GaussianPolicy, starts: EpisodeStarts, noise: Tensor | None
    ) -> tuple[Array, Tensor, Gaussian]:
        """`plan` for playing: references, [B, T, 2D], that can be played, parameters and distribution."""
        reference, params, gaussian = self.plan(policy, starts, noise)
        return playable(reference.stacked()), params, gaussian

    def _good(self, outcomes: EpisodeOutcomes, names: Sequence[str]) -> list[int]:
        """Episodes that were played to the end; says so of each that was not, and stops after too many in a row."""
        failures = outcomes.failures
        good = [index for index in range(len(outcomes.reward)) if index not in failures]
        if (
            not good and not self.episodes_collected
        ):  # not one that agrees with the spec: a task that is defined wrongly
            for failure in failures.values():
                if failure.contradicts_spec:
                    raise UserError(f"{failure.sentence}.")
        for index in range(len(outcomes.reward)):
            if index in failures:
                self._left_out(failures[index], names[index])
            else:
                self._failed_in_a_row = 0
        return good

    def _left_out(self, failure: EpisodeFailure, name: str) -> None:
        """Say that an episode is left out, or stop if there were too many in a row."""
        self._failed_in_a_row += 1
        if self._failed_in_a_row < MOST_FAILURES:
            _LOG.warning("%s. %s is left out, and the run goes on.", failure.sentence, name)
            return
        raise TooManyFailures(failure)

    def stored(self, rollout: Rollout) -> EpisodeBatch:
        """Episodes in the form that the replay stores."""
        return self.tokenize(rollout)


def check_stride(spec: TaskSpec, stride: int) -> None:
    """Refuse a stride that would leave part of an episode over."""
    if spec.horizon % stride:
        raise UserError(
            f"collect.stride ({stride}) must divide the task's horizon ({spec.horizon} steps) without remainder."
        )


class TooManyFailures(RunStopped):
    """Nothing but failures for a while."""

    def __init__(self, last: EpisodeFailure) -> None:
        """Say what the last one was."""
        super().__init__(
            f"{last.sentence}. {MOST_FAILURES} episodes in a row have failed: mend the environment, then resume; "
            f"nothing saved is lost.\n\n{last.traceback}".rstrip()
        )


def joined_scores(spec: TaskSpec, parts: Sequence[Scores]) -> Scores:
    """Several batches as one, if there is a good episode in any of them."""
    failures, good = sum(part.failures for part in parts), [part for part in parts if len(part.returns)]
    if not good:
        raise RunStopped(f"None of the {failures} episodes of {spec.id} could be played to the end.")
    return Scores(
        np.concatenate([part.returns for part in good]),
        {name: np.concatenate([part.metrics[name] for part in good]) for name in good[0].metrics},
        failures,
    )


def _warn_of(failures: Iterable[EpisodeFailure]) -> None:
    """Say once of every failure that is unlike the others that an episode is left out."""
    for sentence in dict.fromkeys(why.sentence for why in failures):
        _LOG.warning("%s. It is left out.", sentence)


def _scores(outcomes: EpisodeOutcomes, good: list[int]) -> Scores:
    metrics = {name: np.asarray(value)[good] for name, value in outcomes.metrics.items()}
    return Scores(outcomes.reward[good].sum(-1), metrics, len(outcomes.failures))


def playable(reference: Tensor) -> Array:
    """References, [..., 2D], as an array; those of a policy that has diverged stop the run."""
    desired: Array = reference.numpy()
    if not np.isfinite(desired).all():
        raise RunStopped("The policy has diverged: its reference trajectories contain NaN or infinity.")
    return desired
