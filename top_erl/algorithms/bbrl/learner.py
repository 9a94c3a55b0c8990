"""BBRL: black-box episodic reinforcement learning (Otto et al., 2023), as a baseline of the paper.

An episode is one decision: the context goes in, the primitive's parameters come out, the return is the reward. Nothing
of what happens in between is used. `bbrl_std` has a diagonal covariance, `bbrl_cov` a full one.

Axes: `B` episodes, `P` primitive parameters.
"""

from __future__ import annotations

import torch

from top_erl.algorithms.bbrl.config import BbrlConfig
from top_erl.algorithms.on_policy.learner import Episodes, OnPolicyLearner, explained_variance, normalized
from top_erl.algorithms.setup import Setup
from top_erl.tasks import TaskSpec


class BbrlLearner(OnPolicyLearner):
    """The updates of BBRL."""

    critic_sees_contexts = True

    def __init__(self, config: BbrlConfig, setup: Setup) -> None:
        """Build networks that see the context."""
        super().__init__(config, setup, inputs=context_entries(setup.spec))

    def learn(self, episodes: Episodes, iteration: int) -> dict[str, float]:
        """Regress the value of contexts onto returns, then ascend the advantage of the parameters that were tried."""
        context = episodes.first_state  # the networks pick its entries
        returns = episodes.reward.sum(-1)  # R_i, [B]
        with torch.no_grad():
            value = self.critic(context)  # [B]
        advantage = returns - value  # A_i = R_i - V_old(s_i)
        if self.config.learn.normalize_advantage:
            advantage = normalized(advantage)
        critic = self.fit_critic(episodes, context, returns)
        policy = self.fit_policy(episodes, lambda gaussian: gaussian.log_prob(episodes.params), advantage, iteration)
        return self._numbers(critic, policy, explained_variance(value, returns))


def context_entries(spec: TaskSpec) -> tuple[int, ...]:
    """Entries of a first state that make up the context; its time is always 0 and never one of them."""
    return tuple(range(spec.observation_dim)) if spec.context_mask is None else spec.context_mask
