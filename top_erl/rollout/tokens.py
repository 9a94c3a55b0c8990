"""Played episodes in the form that the replay stores: down-sampled to tokens.

Axes: `B` episodes, `N` control steps, `T = N / stride` tokens, `S` observation entries, `D` degrees of freedom, `P`
primitive parameters, `R` entries of what a goal is compared with.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from top_erl.errors import UserError
from top_erl.rollout.plans import Plans
from top_erl.rollout.replay import EpisodeBatch
from top_erl.tasks import TaskSpec
from top_erl.tasks.contract import Array
from top_erl.tasks.goals import GoalRule, without_goal
from top_erl.trust_region.gaussian import Gaussian


@dataclass(frozen=True)
class Rollout:
    """Exploratory episodes in full, for methods that learn from what they just collected; failed ones are left out."""

    state: Array
    """Raw observation before each step, and the time in seconds, [B, N, S + 1]."""
    reference: Array
    """Positions, then velocities, tracked during each step, [B, N, 2D]."""
    position: Array
    """Measured position at the start, [B, D]."""
    velocity: Array
    """Measured velocity at the start, [B, D]."""
    reward: Array
    """Unscaled reward of each step, [B, N]."""
    params: Tensor
    """Parameters of the primitive, [B, P]."""
    behaviour: Gaussian
    """What they were sampled from."""
    plans: Plans | None = None
    """All plans, if there may be several an episode; the parameters above are then those of the first ones."""
    last: Array | None = None
    """Raw observation after the last step, [B, S], if the task tells it."""


@dataclass(frozen=True)
class TokenRewards:
    """How the rewards of control steps become those of tokens."""

    stride: int = 1
    """Control steps per token."""
    scale: float = 1.0
    """Multiplies each token's reward."""
    shift: float = 0.0
    """Added to each step's reward before that."""
    floor: float | None = None
    """Worse rewards of a step count as this."""

    def __call__(self, paid: Array) -> Array:
        """Rewards as they were paid, [B, N], as the replay counts them, [B, T]."""
        paid = paid if self.floor is None else paid.clip(min=self.floor)
        blocks = paid.reshape(len(paid), paid.shape[1] // self.stride, self.stride)
        counted: Array = (blocks.sum(-1) + self.stride * self.shift) * self.scale
        return counted


class EpisodeTokenizer:
    """Makes tokens of episodes: every `stride`-th state and action, block sums of rewards."""

    def __init__(
        self, spec: TaskSpec, rewards: TokenRewards, *, keep_behaviour: bool = False, goal_rule: GoalRule | None = None
    ) -> None:
        """Make one for episodes of a task.

        Args:
            spec: The facts about the task.
            rewards: How rewards are counted.
            keep_behaviour: Whether the policy that played each episode is kept.
            goal_rule: The task's goals, if what is needed to count episodes for others is kept.
        """
        self.spec, self.rewards = spec, rewards
        self.keep_behaviour, self.goal_rule = keep_behaviour, goal_rule

    def __call__(self, rollout: Rollout) -> EpisodeBatch:
        """Tokens of episodes."""
        stride, plans = self.rewards.stride, rollout.plans
        measured = np.concatenate((rollout.position, rollout.velocity), axis=-1)  # [B, 2D]
        before = np.concatenate((measured[:, None], rollout.reference[:, :-1]), axis=1)  # desired before step i
        return EpisodeBatch(
            _float32(rollout.state[:, ::stride]),
            _float32(before[:, ::stride]),
            _float32(rollout.reference[:, ::stride]),
            _float32(self.rewards(rollout.reward)),
            rollout.behaviour if self.keep_behaviour else None,
            None if plans is None else plans.by_token(len(rollout.reward), self.spec.horizon // stride, stride),
            None if self.goal_rule is None else _float32(self._without_goal(rollout, self.goal_rule)),
        )

    @property
    def goalless_shape(self) -> tuple[int, int] | None:
        """Control steps, and entries of what is kept of each for other goals, (N, R + 1); None if nothing is."""
        if self.goal_rule is None:
            return None
        reached = self.goal_rule.reached(np.zeros(self.spec.observation_dim))
        return self.spec.horizon, len(reached) + 1

    def _without_goal(self, rollout: Rollout, rule: GoalRule) -> Array:
        """What was reached after each step, and what the step paid whatever the goal is, [B, N, R + 1]."""
        last, count = rollout.last, len(rollout.reward)
        if last is None and count:
            raise UserError(
                f"{self.spec.id} has a goal_rule and does not tell the last observation of all its episodes "
                "(EpisodeOutcomes.last; of those that end early there is none): use --learn.hindsight 0."
            )
        last = np.zeros((count, self.spec.observation_dim)) if last is None else last
        observation = np.concatenate((rollout.state[..., :-1], last[:, None]), axis=1)  # [B, N + 1, S]
        return without_goal(self.spec.id, rule, observation, rollout.reward)


def _float32(values: Array) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))
