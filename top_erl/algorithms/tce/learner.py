"""TCE: temporally-correlated episodic reinforcement learning (Li et al., 2024), as a baseline of the paper.

Like BBRL the policy decides once per episode, but it is credited piece by piece. Some instants cut the episode into
segments. The likelihood of a segment is that of the positions at its two ends, a Gaussian that follows from the one
over the primitive's parameters; its advantage is what was paid inside it and how the value changed. A step-wise critic
gives the values.

Axes: `B` episodes, `T` control steps, `K` segments, `D` degrees of freedom, `G` parameters of each, `P = D * G`. The
positions of a pair are flat and DoF-major, [2D]: both instants of the first degree of freedom, then of the second.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from top_erl.algorithms.on_policy.learner import Episodes, OnPolicyLearner, explained_variance, normalized
from top_erl.algorithms.setup import Setup
from top_erl.algorithms.tce.config import AdvantageName, TceConfig
from top_erl.errors import UserError
from top_erl.models import RunningNormalizer
from top_erl.primitives import Primitive, TrajectoryDistribution
from top_erl.seeding import torch_generator
from top_erl.trust_region import Gaussian
from top_erl.trust_region.factor import factorize

# ---------------------------------------------------------------------- segments


def largest_offset(horizon: int, count: int) -> int:
    """Where the first of the instants may lie at most: `count` of them always fit, T // count steps apart."""
    return horizon // count + horizon % count - 1


def segment_points(horizon: int, count: int, offset: int) -> Tensor:
    """Steps that cut an episode, T // count apart, from the offset to the end, long, [K + 1]."""
    return torch.arange(offset, horizon, horizon // count)


def segment_sums(steps: Tensor, points: Tensor, discount: float = 1.0, *, closed: bool = False) -> Tensor:
    """Discounted sums over each segment's steps, [B, T] → [B, K].

    Args:
        steps: A number for every step, [B, T].
        points: The cut, [K + 1].
        discount: γ, counted from each segment's first step.
        closed: Whether the step at a segment's end belongs to it as well as to the next.
    """
    index = torch.arange(steps.shape[1], device=points.device).unsqueeze(1)  # [T, 1]
    since = index - points[:-1]  # [T, K]
    inside = (since >= 0) & (index <= points[1:] if closed else index < points[1:])
    weights = torch.where(inside, discount ** since.clamp_min(0).to(steps.dtype), 0.0)  # [T, K]
    return steps @ weights


# ---------------------------------------------------------------------- advantages and targets


def generalized_advantages(reward: Tensor, value: Tensor, discount: float, trace: float) -> Tensor:
    """Generalised advantage estimation of episodes that end after their last step, [B, T].

    δ_i = r_i + γ V(s_{i+1}) - V(s_i) with V = 0 after the end, and g_i = Σ_{j ≥ i} (γλ)^{j-i} δ_j: one product.

    Args:
        reward: [B, T].
        value: V of the state before each step, [B, T].
        discount: γ.
        trace: λ.
    """
    following = torch.nn.functional.pad(value[:, 1:], (0, 1))
    delta = reward + discount * following - value  # [B, T]
    steps = torch.arange(reward.shape[1], device=reward.device)
    distance = steps.unsqueeze(1) - steps  # j - i, [T, T]
    decay = (discount * trace) ** distance.clamp_min(0).to(reward.dtype)
    return delta @ torch.where(distance >= 0, decay, 0.0)


def segment_advantages(reward: Tensor, value: Tensor, points: Tensor, discount: float) -> Tensor:
    """A_k = Σ_{i=i_k}^{i_{k+1}-1} γ^{i-i_k} r_i + γ^{i_{k+1}-i_k} V(s_{i_{k+1}}) - V(s_{i_k}), [B, K].

    Args:
        reward: [B, T].
        value: V of the state before each step, [B, T]; the state after the last step is never needed.
        points: The cut, [K + 1].
        discount: γ.
    """
    first, last = points[:-1], points[1:]
    carried = discount ** (last - first).to(value.dtype)  # [K]
    return segment_sums(reward, points, discount) + carried * value[:, last] - value[:, first]


# ---------------------------------------------------------------------- likelihoods


@dataclass(frozen=True)
class Pairs:
    """What episodes tracked at both ends of every segment. All float64: neighbouring positions are nearly collinear."""

    primitive: Primitive
    """The movement primitive."""
    basis: Tensor
    """Its basis at both ends of the segments, for trajectories through a state at time 0, [K, 2, 2, G + 2]."""
    tracked: Tensor
    """Positions that were tracked at both ends, [B, K, 2D]."""
    position: Tensor
    """Measured position at the episode's start, [B, D]."""
    velocity: Tensor
    """Measured velocity at the episode's start, [B, D]."""
    regularization: float
    """Added to all variances, as a fraction of the largest one of the whole batch."""

    def distribution(self, gaussian: Gaussian) -> TrajectoryDistribution:
        """Joint Gaussians of the positions at both ends, [B, K, 2D].

        All episodes have the same times, so that a shared covariance of the parameters gives the same K covariances
        for all of them: they have no batch axis.
        """
        gaussian = gaussian.to(torch.float64)
        start = (self.position.unsqueeze(-2), self.velocity.unsqueeze(-2))
        states = self.primitive.segments(self.basis, gaussian.mean.unsqueeze(-2), *start)  # [B, K, 2, 2D]
        states = states.unflatten(-1, (2, -1)).movedim(-3, -1)  # both ends last, [B, K, 2, D, 2]
        factor = gaussian.matrix_factor()
        return TrajectoryDistribution(
            mean=states.flatten(-2),
            design=self.primitive.design(self.basis),  # [K, 2, 2, G]
            factor=factor if gaussian.shared else factor.unsqueeze(-3),
            regularization=self.regularization,
        )

    def log_prob(self, gaussian: Gaussian) -> Tensor:
        """Log-likelihood of every segment, [B, K], in the precision of the Gaussian."""
        joint = self.distribution(gaussian)
        return pair_log_prob(self.tracked, joint.mean_position, joint.position_covariance).to(gaussian.mean.dtype)


def flat_positions(positions: Tensor) -> Tensor:
    """Positions at both ends, [..., 2, D], DoF-major: [..., 2D]."""
    return positions.mT.flatten(-2)


def pair_log_prob(positions: Tensor, mean: Tensor, covariance: Tensor) -> Tensor:
    """Log-density of pairs of positions, [B, K].

    Args:
        positions: [B, K, 2D].
        mean: [B, K, 2D].
        covariance: [B, K, 2D, 2D], or [K, 2D, 2D] if all episodes have the same.
    """
    factor = factorize(covariance, "the covariance of a segment's positions")
    residual = positions - mean  # [B, K, 2D]
    if factor.dim() == 3:  # one solve per segment, with a column per episode
        whitened = torch.linalg.solve_triangular(factor, residual.permute(1, 2, 0), upper=False)  # [K, 2D, B]
        squared_length = whitened.square().sum(-2).mT
    else:
        whitened = torch.linalg.solve_triangular(factor, residual.unsqueeze(-1), upper=False)  # [B, K, 2D, 1]
        squared_length = whitened.square().sum((-2, -1))
    log_scale = factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)  # [K] or [B, K]
    return -0.5 * squared_length - log_scale - 0.5 * positions.shape[-1] * math.log(2 * math.pi)


# ---------------------------------------------------------------------- the learner


class TceLearner(OnPolicyLearner):
    """The updates of TCE."""

    config: TceConfig
    critic_sees_contexts = False  # it sees the states of every step, with statistics of its own

    def __init__(self, config: TceConfig, setup: Setup) -> None:
        """Build networks that see the raw observation and the time."""
        super().__init__(config, setup)
        self.horizon = setup.spec.horizon
        if config.segments.points > self.horizon:
            raise UserError(
                f"segments.points ({config.segments.points}) must not exceed the task's horizon ({self.horizon} steps)."
            )
        self.normalizer = RunningNormalizer(self.state_dim).to(self.device)
        times = torch.arange(1, self.horizon + 1, dtype=torch.float64, device=self.device) * setup.spec.dt
        self.grid = self.primitive.grid(times, times.new_zeros(1))

    def learn(self, episodes: Episodes, iteration: int) -> dict[str, float]:
        """Regress the values of all steps onto their targets, then ascend the advantages of the segments."""
        learn = self.config.learn
        state = self._critic_state(episodes.state)  # [B, T, S]
        with torch.no_grad():
            value = self.critic(state)  # V_old, [B, T]
        step_advantage = generalized_advantages(episodes.reward, value, learn.discount, learn.trace)
        target = step_advantage + value
        points = self.draw_points(iteration)
        advantage = self.credit(episodes.reward, value, step_advantage, points)  # [B, K]
        if learn.normalize_advantage:
            advantage = normalized(advantage)
        pairs = self.pairs(episodes, points)
        critic = self.fit_critic(episodes, state.flatten(0, 1), target.flatten())
        policy = self.fit_policy(episodes, pairs.log_prob, advantage, iteration)
        return self._numbers(critic, policy, explained_variance(value, target))

    @torch.no_grad()
    def _critic_state(self, state: Tensor) -> Tensor:
        """Take states, [B, T, S], into the statistics and normalise them."""
        if not self.config.learn.normalize_states:
            return state
        self.normalizer.update(state)
        return self.normalizer(state)

    def draw_points(self, iteration: int) -> Tensor:
        """Cut all episodes of an iteration at the same steps, [K + 1]."""
        count = self.config.segments.points
        generator = torch_generator(self.seed, "segments", iteration)
        offset = int(torch.randint(largest_offset(self.horizon, count) + 1, (), generator=generator))
        return segment_points(self.horizon, count, offset).to(self.device)

    def credit(self, reward: Tensor, value: Tensor, step_advantage: Tensor, points: Tensor) -> Tensor:
        """Advantages of segments before they are normalised, [B, K], from what is known of every step, [B, T]."""
        kind: AdvantageName = self.config.segments.advantage
        discount = self.config.learn.discount
        if kind == "value_subtraction":
            return segment_advantages(reward, value, points, discount)
        if kind == "accumulate":
            return segment_sums(normalized(step_advantage), points, closed=True)
        rewards = segment_sums(reward, points, discount)
        return rewards - rewards.mean(0)

    def pairs(self, episodes: Episodes, points: Tensor) -> Pairs:
        """What the episodes tracked at the ends of the segments; step i tracks time (i + 1) dt."""
        ends = torch.stack((points[:-1], points[1:]), dim=-1)  # [K, 2]
        position = episodes.reference.chunk(2, dim=-1)[0]  # [B, T, D]
        return Pairs(
            primitive=self.primitive,
            basis=self.grid.basis(torch.zeros_like(points[:-1]), ends),
            tracked=flat_positions(position[:, ends]),
            position=episodes.position,
            velocity=episodes.velocity,
            regularization=self.config.segments.regularization,
        )

    def _modules(self) -> dict[str, nn.Module]:
        return {**super()._modules(), "normalizer": self.normalizer}
