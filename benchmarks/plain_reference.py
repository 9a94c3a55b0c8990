"""The same update written plainly: what a careful first implementation in PyTorch does.

The plain critic with full passes for every target, movement-primitive bases looked up for every trajectory of the
batch, the policy projected at every step, stock optimisers, a loop over parameters for the target network. What the
authors' code does too is done: the critic's weights are frozen in policy steps, a covariance that all episodes share is
projected once a step. Same numbers as `TopErlLearner`, given the same random numbers (a test compares them).

Axes: `B` episodes, `K` segments, `L` actions per segment, `T` steps, `D` degrees of freedom, `P` primitive parameters.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor
from torch.nn import functional as fn

from top_erl.algorithms.top_erl.learner import TopErlLearner
from top_erl.algorithms.top_erl.segments import Segments
from top_erl.models import Sequences, TransformerCritic
from top_erl.rollout.replay import EpisodeBatch
from top_erl.trust_region import Gaussian


class PlainUpdates:
    """Critic and policy steps on copies of a learner's networks (V-target, KL projection)."""

    def __init__(self, learner: TopErlLearner) -> None:
        """Copy the networks."""
        self.learner = learner
        self.policy, self.anchor = copy.deepcopy(learner.policy), copy.deepcopy(learner.anchor)
        self.critic, self.target = (_plain(critics.members[0]) for critics in (learner.critics, learner.target_critics))
        learn = learner.config.learn
        matrices = [p for p in self.critic.parameters() if p.dim() >= 2]
        vectors = [p for p in self.critic.parameters() if p.dim() < 2]
        self.critic_optimizer = torch.optim.AdamW(
            [{"params": matrices, "weight_decay": learn.critic_decay}, {"params": vectors, "weight_decay": 0.0}],
            lr=learn.critic_rate,
        )
        self.policy_optimizer = torch.optim.Adam(
            self.policy.parameters(), lr=learn.policy_rate, weight_decay=learn.policy_decay
        )

    def critic_step(self, batch: EpisodeBatch, generator: torch.Generator) -> Tensor:
        """One critic step; returns its loss."""
        segments = self.learner.segmentation.draw(batch.horizon, generator, padded=True)
        with torch.no_grad():
            targets = self._targets(batch, segments, generator)
        inside = segments.actions.clamp(max=batch.horizon - 1)
        values = self.critic(Sequences(batch.state, segments.starts, batch.action[:, inside], segments.counts))
        loss = fn.mse_loss(values * segments.mask, targets * segments.mask)
        self.critic_optimizer.zero_grad()
        loss.backward()
        self.critic_optimizer.step()
        rate = self.learner.config.learn.target_rate
        with torch.no_grad():
            for slow, fast in zip(self.target.parameters(), self.critic.parameters(), strict=True):
                slow.mul_(1 - rate).add_(rate * fast)
        return loss.detach()

    def policy_step(self, batch: EpisodeBatch, generator: torch.Generator) -> Tensor:
        """One policy step; returns its loss."""
        segments = self.learner.segmentation.draw(batch.horizon, generator, padded=False)
        new, projected = self._project(batch)
        actions = self._actions(batch, segments, projected, generator, at_segment=False)
        sequences = Sequences(batch.state, segments.starts, actions, segments.counts)
        objective = self.critic.action_values(sequences).mean()
        loss = self.learner.projection.regression_loss(new, projected) - objective
        self.policy_optimizer.zero_grad()
        loss.backward()
        self.policy_optimizer.step()
        return loss.detach()

    def _targets(self, batch: EpisodeBatch, segments: Segments, generator: torch.Generator) -> Tensor:
        """[V, Q_1, …, Q_L] targets by full passes, [B, K, L + 1]."""
        _, projected = self._project(batch)
        actions = self._actions(batch, segments, projected, generator, at_segment=True)
        sequences = Sequences(batch.state, segments.starts, actions, segments.counts)
        value_target = self.target.last_value(sequences).unsqueeze(-1)  # [B, K, 1]
        future = self.target.state_value(batch.state, torch.arange(batch.horizon))  # [B, T]
        future = torch.cat([future, torch.zeros(len(batch), segments.length + 1)], dim=1)
        reward = torch.cat([batch.reward, torch.zeros(len(batch), segments.length)], dim=1)
        returns = []
        for steps in range(1, segments.length + 1):
            index = segments.starts[:, None] + torch.arange(steps)
            returns.append(reward[:, index].sum(-1) + future[:, segments.starts + steps])
        return torch.cat([value_target, torch.stack(returns, dim=2)], dim=2)

    def _project(self, batch: EpisodeBatch) -> tuple[Gaussian, Gaussian]:
        first = batch.state[:, 0]
        new = self.policy(first)
        with torch.no_grad():
            old = self.anchor(first)
        return new, self.learner.projection.project(new, old).gaussian

    def _actions(
        self,
        batch: EpisodeBatch,
        segments: Segments,
        gaussian: Gaussian,
        generator: torch.Generator,
        *,
        at_segment: bool,
    ) -> Tensor:
        """Actions of new parameters through the primitive's general path, times given for every trajectory."""
        primitive, spec = self.learner.primitive, self.learner.collector.spec
        count = len(segments.starts)
        noise = torch.randn((len(batch), count, primitive.num_params), generator=generator)
        params = gaussian.sample_many(noise)
        starts = segments.starts if at_segment else torch.zeros_like(segments.starts)
        position, velocity = batch.reference[:, starts].chunk(2, dim=-1)
        inside = segments.actions.clamp(max=batch.horizon - 1)
        times = ((inside + 1) * spec.dt).expand(len(batch), -1, -1).contiguous()  # [B, K, L]
        begin = (starts * spec.dt).expand(len(batch), -1).contiguous()  # [B, K]
        origin = batch.reference[:, :1, : spec.num_dof].expand(-1, count, -1)
        return primitive.trajectory(params, times, begin, position, velocity, origin).stacked()


def _plain(critic: TransformerCritic) -> TransformerCritic:
    """The same critic with the plain backend."""
    state_dim, action_dim = critic.state_encoder.in_features, critic.action_encoder.in_features
    plain = TransformerCritic(critic.config, state_dim, action_dim)
    plain.load_state_dict(critic.state_dict())
    return plain
