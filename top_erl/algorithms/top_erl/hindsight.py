"""Stored episodes counted as if they had had other goals (hindsight experience replay; not in the paper).

A critic that has seen each movement with one goal must tell apart what the movement does from what the goal pays, with
one number an episode. But what a movement pays for any other goal is known, without playing it again. So it sees each
with many: some are the goals of other episodes, some are what the movement itself has reached, where good returns are.

Axes: `B` episodes, `T` tokens, `N` control steps, `R` entries of what was reached, `G` entries of a goal.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from top_erl.rollout.replay import EpisodeBatch
from top_erl.rollout.tokens import EpisodeTokenizer, TokenRewards
from top_erl.tasks.goals import Array, GoalRule


def make_hindsight(tokenize: EpisodeTokenizer, share: float, reached: float) -> Hindsight | None:
    """Exchange goals of episodes as a tokenizer makes them; None if it keeps nothing for that."""
    rule = tokenize.goal_rule
    return None if rule is None else Hindsight(rule, tokenize.rewards, share, reached)


class Hindsight:
    """Exchanges goals in batches."""

    def __init__(self, rule: GoalRule, rewards: TokenRewards, share: float, reached: float) -> None:
        """Exchange the goals of a share of the episodes.

        Args:
            rule: The task's goals.
            rewards: How rewards are counted.
            share: Share of episodes that get another goal.
            reached: Share of these that get what they have reached at their end; the others get the goal of another.
        """
        self._rule, self._rewards = rule, rewards
        self._share, self._reached = share, reached

    def __call__(self, batch: EpisodeBatch, generator: torch.Generator) -> EpisodeBatch:
        """The batch with other goals in its states, and rewards that follow from them."""
        assert batch.goalless is not None
        entries = list(self._rule.entries)
        chance = torch.rand(len(batch), generator=generator)
        others = torch.randint(len(batch), (len(batch),), generator=generator)
        exchanged = (chance < self._share).numpy()
        ends = (chance < self._share * self._reached).numpy()

        goalless = batch.goalless.double().cpu().numpy()
        path, rest = goalless[..., :-1], goalless[..., -1]  # [B, N, R] and [B, N]
        goal = batch.state[:, 0, entries].double().cpu().numpy()[others.numpy()]  # [B, G]
        goal[ends] = self._rule.as_goal(path[ends, -1])
        reward = self._rewards(rest + self._rule.reward(path, goal))  # [B, T]

        rows = torch.from_numpy(np.flatnonzero(exchanged)).to(batch.state.device)
        state, kept = batch.state.clone(), batch.reward.clone()
        observation = state[rows, :, :-1].double().cpu().numpy()  # [b, T, S]; the time comes last
        state[rows, :, :-1] = _like(state, self._rule.with_goal(observation, goal[exchanged]))
        kept[rows] = _like(kept, reward[exchanged])
        return replace(batch, state=state, reward=kept)


def _like(tensor: Tensor, values: Array) -> Tensor:
    return torch.from_numpy(values).to(tensor)
