"""The same update written plainly: what a careful first implementation in PyTorch does.

Full transformer passes for every target, movement-primitive bases looked up for every trajectory of the batch, the
covariance projected once per copy, stock optimisers, a loop over parameters for the target network. Same numbers as
`TopErlLearner`, given the same random numbers (a test compares them); only slower.

Axes: `B` episodes, `K` segments, `L` actions per segment, `T` steps, `D` degrees of freedom, `P` primitive parameters.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional as fn

from top_erl.algorithms import TopErlLearner
from top_erl.algorithms.segments import Segments
from top_erl.models import TransformerCritic
from top_erl.rollout import EpisodeBatch
from top_erl.trust_region import Gaussian


def plain_values(critic: TransformerCritic, state: Tensor, actions: Tensor | None, starts: Tensor) -> Tensor:
    """All outputs of the transformer for each segment, [B, K, L + 1]; without actions just V, [B, K, 1]."""
    length = 0 if actions is None else actions.shape[2]
    index = starts[:, None] + torch.arange(max(length, 1))
    place = critic.position_table(index.clamp(max=critic.config.max_positions - 1))  # [K, L, E]
    tokens = critic.state_encoder(state).unsqueeze(2) + place[:, :1]
    if actions is not None:
        tokens = torch.cat([tokens, critic.action_encoder(actions) + place], dim=2)
    batch, count, size, width = tokens.shape
    tokens = tokens.reshape(batch * count, size, width)
    for block in critic.blocks:
        tokens = _plain_block(block, tokens)
    return critic.head(critic.norm_out(tokens)).reshape(batch, count, size)


def _plain_block(block: nn.Module, tokens: Tensor) -> Tensor:
    count, size, width = tokens.shape
    query, key, value = block.query_key_value(block.norm_attention(tokens)).split(width, dim=2)
    query = query.view(count, size, block.heads, -1).transpose(1, 2)
    key = key.view(count, size, block.heads, -1).transpose(1, 2)
    value = value.view(count, size, block.heads, -1).transpose(1, 2)
    mixed = fn.scaled_dot_product_attention(query, key, value, is_causal=True)
    mixed = mixed.transpose(1, 2).contiguous().view(count, size, width)
    tokens = tokens + block.attention_out(mixed)
    return tokens + block.mlp_out(fn.gelu(block.mlp_in(block.norm_mlp(tokens))))


class PlainUpdates:
    """Critic and policy steps on copies of a learner's networks (V-target, KL projection)."""

    def __init__(self, learner: TopErlLearner, *, projection_per_copy: bool = True) -> None:
        """Copy the networks; `projection_per_copy` False projects a shared covariance once instead."""
        self.learner = learner
        self.per_copy = projection_per_copy
        self.policy, self.anchor = copy.deepcopy(learner.policy), copy.deepcopy(learner.anchor)
        self.critic: TransformerCritic = copy.deepcopy(learner.critics.members[0])
        self.target: TransformerCritic = copy.deepcopy(learner.target_critics.members[0])
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
        values = plain_values(self.critic, batch.state[:, segments.starts], batch.action[:, inside], segments.starts)
        mask = torch.cat([torch.ones(len(segments.starts), 1), segments.valid.float()], dim=1)
        loss = fn.mse_loss(values * mask, targets * mask)
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
        values = plain_values(self.critic, batch.state[:, segments.starts], actions, segments.starts)
        objective = values[:, :, 1:].sum(-1).mean()
        loss = self.learner.projection.regression_loss(new, projected) - objective
        self.policy_optimizer.zero_grad()
        self.critic_optimizer.zero_grad()
        loss.backward()
        self.policy_optimizer.step()
        return loss.detach()

    def _targets(self, batch: EpisodeBatch, segments: Segments, generator: torch.Generator) -> Tensor:
        """[V, Q_1, …, Q_L] targets by full passes, [B, K, L + 1]."""
        _, projected = self._project(batch)
        actions = self._actions(batch, segments, projected, generator, at_segment=True)
        values = plain_values(self.target, batch.state[:, segments.starts], actions, segments.starts)
        last = segments.last_valid.expand(len(batch), -1).unsqueeze(-1)
        value_target = values.gather(2, last)  # [B, K, 1]
        future = plain_values(self.target, batch.state, None, torch.arange(batch.horizon)).squeeze(-1)  # [B, T]
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
        if self.per_copy:
            new, old = (Gaussian(g.mean, g.factor.expand(len(batch), -1, -1).contiguous()) for g in (new, old))
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
