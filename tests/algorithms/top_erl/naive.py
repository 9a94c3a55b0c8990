"""TOP-ERL's two losses once more, as plainly as possible: loops over episodes, segments and steps, no batching.

Everything is written from the method's description. Only the networks, the primitive's `trajectory` and the order in
which random numbers are drawn are shared with the library. Sequences that run past the end of an episode are cut
there, instead of being padded and masked.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import torch
from scipy.optimize import brentq
from torch import Tensor, nn

from top_erl.algorithms.top_erl.learner import TopErlLearner
from top_erl.models import CriticEnsemble, Sequences, TransformerCritic
from top_erl.rollout.replay import EpisodeBatch


@dataclass
class CriticResult:
    """One critic step."""

    losses: list[Tensor]
    """Mean squared error of each critic."""
    targets: list[list[list[float]]]
    """By episode and segment: V, Q_1, …, as far as they lie inside the episode."""
    value: float
    """Mean predicted state value."""


@dataclass
class PolicyResult:
    """One policy step."""

    loss: Tensor
    objective: Tensor
    regression: Tensor
    entropy: float
    kl_to_anchor: float
    mean_projected: float
    covariance_projected: float


class NaiveTopErl:
    """A copy of a learner's networks with its own way to compute the losses."""

    def __init__(self, learner: TopErlLearner) -> None:
        self.config, self.primitive = learner.config, learner.primitive
        self.dt, self.stride = learner.collector.spec.dt, learner.config.collect.stride
        self.policy, self.anchor = copy.deepcopy(learner.policy), copy.deepcopy(learner.anchor)
        self.critics, self.target_critics = _plain(learner.critics), _plain(learner.target_critics)

    # ---- cutting episodes

    def cut(self, horizon: int, generator: torch.Generator) -> tuple[int, int]:
        """Length and offset of the segments."""
        segments = self.config.segments
        if segments.kind == "rests":
            chance = float(torch.rand((), generator=generator))
            start = 0 if chance < segments.whole else int(torch.randint(horizon, (), generator=generator))
            return horizon - start, start
        if segments.kind == "random":
            lengths: list[int] = []
            for count in range(1, segments.count + 1):
                length = horizon // count
                if length > 0 and length not in lengths:
                    lengths.append(length)
            lengths.sort()
        elif segments.kind == "fixed_count":
            lengths = [horizon // segments.count]
        else:
            lengths = [round(horizon * segments.fraction)]
        length = lengths[int(torch.randint(len(lengths), (), generator=generator))]
        largest = length - 1
        while largest + length > horizon:  # a whole segment must fit
            largest -= 1
        return length, int(torch.randint(largest + 1, (), generator=generator))

    # ---- the policy's Gaussian, its projection and samples

    def gaussians(self, batch: EpisodeBatch, bound: float | None) -> list[ProjectedOne]:
        """New, old and projected Gaussian of every episode."""
        result = []
        for b in range(len(batch)):
            first = batch.state[b : b + 1, 0]
            new = self.policy(first)
            with torch.no_grad():
                old = self.anchor(first)
            old_mean, old_factor = old.mean[0], _single(old.matrix_factor())
            if batch.behaviour is not None:
                old_mean, old_factor = batch.behaviour.mean[b], batch.behaviour.matrix_factor()[b]
            result.append(
                ProjectedOne(self.config.trust_region, new.mean[0], _single(new.matrix_factor()), old_mean, old_factor)
            )
            if bound is not None:
                result[-1].widen(bound)
        return result

    # ---- actions

    def actions(
        self, batch: EpisodeBatch, b: int, first: int, count: int, params: Tensor, from_segment: bool
    ) -> Tensor:
        """Desired positions and velocities of `count` steps of episode b, [count, 2D]."""
        start = first if from_segment else 0
        dofs = self.primitive.num_dof
        position, velocity = batch.reference[b, start, :dofs], batch.reference[b, start, dofs:]
        if self.primitive.config.relative_goal:
            # The primitive adds the position it starts from; the goal was meant from the episode's first position.
            columns = self.primitive.num_columns
            shifted = list(params)
            for d in range(dofs):
                goal_scale = float(self.primitive.scale[-1])
                shift = (position[d] - batch.reference[b, 0, d]) / goal_scale
                shifted[d * columns + columns - 1] = shifted[d * columns + columns - 1] - shift
            params = torch.stack(shifted)
        times = torch.tensor(
            [(self.stride * (first + j) + 1) * self.dt for j in range(count)], dtype=torch.float64
        )  # stored action j is the reference one control step after its state
        reference = self.primitive.trajectory(
            params, times, init_time=self.stride * start * self.dt, init_position=position, init_velocity=velocity
        )
        return torch.cat((reference.position, reference.velocity), dim=-1)

    # ---- values

    def combine(self, values: list[Tensor]) -> Tensor:
        """One estimate of several critics."""
        if self.config.learn.target in ("v", "q"):
            assert len(values) == 1
            return values[0]
        if self.config.learn.target == "clipped":
            assert len(values) == 2
            return values[0] if float(values[0].detach()) < float(values[1].detach()) else values[1]
        assert len(values) == self.config.learn.ensemble_size
        return sum(values) / len(values)  # type: ignore[return-value]

    def state_value(self, batch: EpisodeBatch, b: int, index: int) -> float:
        """V of a stored state by the target critics; zero beyond the end."""
        if index >= batch.horizon:
            return 0.0
        action = batch.action[b, index].unsqueeze(0)  # any: V comes before it
        return float(
            self.combine([_values(critic, batch, b, index, action)[0] for critic in self.target_critics.members])
        )

    def fresh_value(self, batch: EpisodeBatch, b: int, index: int, length: int, params: Tensor) -> float:
        """Q of a new sequence from a stored state, after its last action inside the episode; zero beyond the end."""
        if index >= batch.horizon:
            return 0.0
        count = min(length, batch.horizon - index)
        actions = self.actions(batch, b, index, count, params, self.config.learn.critic_condition == "segment")
        values = [_values(critic, batch, b, index, actions)[-1] for critic in self.target_critics.members]
        return float(self.combine(values))

    # ---- the two losses

    def critic_step(self, batch: EpisodeBatch, generator: torch.Generator, bound: float | None = None) -> CriticResult:
        """Targets and loss of one critic step."""
        horizon, gamma = batch.horizon, self.config.learn.discount
        length, offset = self.cut(horizon, generator)
        starts = [index for index in range(horizon) if index >= offset and (index - offset) % length == 0]
        with torch.no_grad():
            policies = self.gaussians(batch, bound)
            noise = torch.randn(len(batch), len(starts), self.primitive.num_params, generator=generator)
            bootstrap_with_q = self.config.learn.target == "q"
            if bootstrap_with_q:
                more_noise = torch.randn(len(batch), horizon, self.primitive.num_params, generator=generator)
            targets: list[list[list[float]]] = []
            for b in range(len(batch)):
                future = []
                for index in range(horizon + length + 1):
                    if not bootstrap_with_q:
                        future.append(self.state_value(batch, b, index))
                    elif index < horizon:
                        future.append(
                            self.fresh_value(batch, b, index, length, policies[b].sample(more_noise[b, index]))
                        )
                    else:
                        future.append(0.0)
                rows = []
                for k, start in enumerate(starts):
                    row = [self.fresh_value(batch, b, start, length, policies[b].sample(noise[b, k]))]
                    for n in range(1, length + 1):
                        if start + n > horizon:
                            break
                        row.append(
                            sum(gamma**i * float(batch.reward[b, start + i]) for i in range(n))
                            + gamma**n * future[start + n]
                        )
                    rows.append(row)
                targets.append(rows)

        losses, predicted_values = [], []
        for critic in self.critics.members:
            total: Tensor = torch.zeros(())
            for b in range(len(batch)):
                for k, start in enumerate(starts):
                    count = len(targets[b][k]) - 1
                    predicted = _values(critic, batch, b, start, batch.action[b, start : start + count])
                    predicted_values.append(float(predicted[0].detach()))
                    for output in range(count + 1):
                        if output == 0 and bootstrap_with_q:
                            continue  # V is not used, hence not trained
                        total = total + (predicted[output] - targets[b][k][output]) ** 2
            losses.append(total / (len(batch) * len(starts) * (length + 1)))  # padded outputs count as zero
        return CriticResult(losses, targets, sum(predicted_values) / len(predicted_values))

    def policy_step(self, batch: EpisodeBatch, generator: torch.Generator, bound: float | None = None) -> PolicyResult:
        """Loss of one policy step."""
        learn = self.config.learn
        length, offset = self.cut(batch.horizon, generator)
        starts = []
        while offset + length <= batch.horizon:
            starts.append(offset)
            offset += length
        policies = self.gaussians(batch, bound)
        noise = torch.randn(len(batch), len(starts), self.primitive.num_params, generator=generator)
        objective: Tensor = torch.zeros(())
        for b in range(len(batch)):
            for k, start in enumerate(starts):
                params = policies[b].sample(noise[b, k])
                actions = self.actions(batch, b, start, length, params, learn.policy_condition == "segment")
                sums = []
                for critic in self.critics.members:
                    values = _values(critic.eval(), batch, b, start, actions)
                    total = values[1]
                    for n in range(2, length + 1):
                        total = total + values[n]
                    sums.append(total if learn.policy_objective == "sum" else total / length)
                objective = objective + self.combine(sums) / (len(batch) * len(starts))
        regression: Tensor = torch.zeros(())
        for one in policies:
            regression = regression + one.regression() / len(batch)
        loss = -objective + self.config.trust_region.regression_weight * regression
        return PolicyResult(
            loss,
            objective,
            regression,
            entropy=sum(_entropy(one.factor) for one in policies) / len(batch),
            kl_to_anchor=sum(one.kl_to_anchor() for one in policies) / len(batch),
            mean_projected=sum(one.mean_active for one in policies) / len(batch),
            covariance_projected=sum(one.covariance_active for one in policies) / len(batch),
        )


class ProjectedOne:
    """The trust region of a single Gaussian, by explicit formulas in float64."""

    def __init__(self, config: object, mean: Tensor, factor: Tensor, old_mean: Tensor, old_factor: Tensor) -> None:
        self.kind: str = config.projection  # type: ignore[attr-defined]
        self.type = mean.dtype
        self.new_mean, self.new_factor = mean.double(), factor.double()
        self.old_mean, self.old_factor = old_mean.detach().double(), old_factor.detach().double()
        self.mean_active = self.covariance_active = False
        self.mean, self.factor = self.new_mean, self.new_factor
        if self.kind != "none":
            self._project_mean(config.mean_bound)  # type: ignore[attr-defined]
            self._project_covariance(config.covariance_bound)  # type: ignore[attr-defined]

    def sample(self, noise: Tensor) -> Tensor:
        """One set of parameters, [P]."""
        return (self.mean + self.factor @ noise.double()).to(self.type)

    def widen(self, bound: float) -> None:
        """Raise the entropy to the bound."""
        size = len(self.mean)
        missing = bound - (0.5 * size * math.log(2 * math.pi * math.e) + self.factor.diagonal().log().sum())
        if float(missing.detach()) > 0.0:
            self.factor = self.factor * torch.exp(missing / size)

    def regression(self) -> Tensor:
        """Distance of the new Gaussian from its projection, taken as a constant."""
        if self.kind == "none":
            return torch.zeros(())
        mean, factor = self.mean.detach(), self.factor.detach()
        gap = self.new_mean - mean
        if self.kind == "kl":
            loss = 0.5 * gap @ torch.linalg.inv(factor @ factor.T) @ gap + _kl(
                self.new_factor @ self.new_factor.T, factor @ factor.T
            )
        elif self.kind == "w2":
            loss = gap @ gap + ((_root(self.new_factor) - _root(factor)) ** 2).sum()
        else:
            loss = gap @ gap + ((self.new_factor - factor) ** 2).sum()
        return loss.to(self.type)

    def kl_to_anchor(self) -> float:
        """KL(new ‖ old)."""
        old = self.old_factor @ self.old_factor.T
        gap = self.new_mean - self.old_mean
        total = 0.5 * gap @ torch.linalg.inv(old) @ gap + _kl(self.new_factor @ self.new_factor.T, old)
        return float(total.detach())

    def _project_mean(self, bound: float) -> None:
        gap = self.new_mean - self.old_mean
        if self.kind == "kl":
            distance = 0.5 * gap @ torch.linalg.inv(self.old_factor @ self.old_factor.T) @ gap
        else:
            distance = gap @ gap
        self.mean_active = float(distance.detach()) > bound
        if self.mean_active:
            omega = torch.sqrt(distance / bound) - 1.0  # Lagrange multiplier
            self.mean = (self.new_mean + omega * self.old_mean) / (1.0 + omega)

    def _project_covariance(self, bound: float) -> None:
        new, old = self.new_factor @ self.new_factor.T, self.old_factor @ self.old_factor.T
        if self.kind == "kl":
            self.covariance_active = float(_kl(new, old).detach()) > bound
            projected = self._kl_covariance(new, old, bound) if self.covariance_active else new
        elif self.kind == "w2":
            new_root, old_root = _root(self.new_factor), _root(self.old_factor)
            distance = torch.trace(new + old - 2.0 * old_root @ new_root)
            self.covariance_active = float(distance.detach()) > bound
            eta = torch.sqrt(distance / bound) - 1.0
            root = (new_root + eta * old_root) / (1.0 + eta)
            projected = root @ root
        else:
            distance = ((new - old) ** 2).sum()
            self.covariance_active = float(distance.detach()) > bound
            eta = torch.sqrt(distance / bound) - 1.0
            projected = (new + eta * old) / (1.0 + eta)
        if self.covariance_active:
            self.factor = torch.linalg.cholesky(projected)

    def _kl_covariance(self, new: Tensor, old: Tensor, bound: float) -> Tensor:
        """Precision interpolation with the multiplier that reaches the bound, found by bracketing."""
        new_precision, old_precision = torch.linalg.inv(new), torch.linalg.inv(old)

        def between(eta: Tensor) -> Tensor:
            return torch.linalg.inv((new_precision + eta * old_precision) / (1.0 + eta))

        def excess(eta: float) -> float:
            with torch.no_grad():
                return float(_kl(between(torch.tensor(eta, dtype=torch.float64)), old)) - bound

        root = torch.tensor(brentq(excess, 0.0, 1e6, xtol=1e-13), dtype=torch.float64)
        with torch.enable_grad():
            probe = root.clone().requires_grad_()
            (slope,) = torch.autograd.grad(_kl(between(probe), old), probe)
        # The root moves with the new covariance: dη = −dκ / κ'(η). One Newton step carries that gradient.
        return between(root - (_kl(between(root), old) - bound) / slope.detach())


def _kl(a: Tensor, b: Tensor) -> Tensor:
    """Covariance part of the KL divergence of two covariances, in the textbook form."""
    return 0.5 * (torch.trace(torch.linalg.inv(b) @ a) - len(a) + torch.logdet(b) - torch.logdet(a))


def _root(factor: Tensor) -> Tensor:
    """Symmetric square root of L Lᵀ; its gradient needs distinct eigenvalues."""
    values, vectors = torch.linalg.eigh(factor @ factor.T)
    return vectors @ torch.diag(torch.sqrt(values)) @ vectors.T


def _entropy(factor: Tensor) -> float:
    size = len(factor)
    return 0.5 * size * math.log(2 * math.pi * math.e) + sum(
        math.log(float(factor[i, i].detach())) for i in range(size)
    )


def _single(factor: Tensor) -> Tensor:
    """The factor of one state, whether shared or not."""
    return factor if factor.dim() == 2 else factor[0]


def _plain(ensemble: CriticEnsemble) -> CriticEnsemble:
    """Plain critics, whatever the backend, with the same weights."""
    members = []
    for member in ensemble.members:
        sizes = (member.state_encoder.in_features, member.action_encoder.in_features)  # type: ignore[union-attr]
        plain = TransformerCritic(member.config, *sizes)  # type: ignore[arg-type]
        plain.to(member.head.weight.dtype).load_state_dict(member.state_dict())  # type: ignore[union-attr, arg-type]
        members.append(plain)
    return CriticEnsemble(members)


def _values(critic: nn.Module, batch: EpisodeBatch, b: int, start: int, actions: Tensor) -> Tensor:
    """[V, Q_1, …] of one sequence, [len(actions) + 1]."""
    sequences = Sequences(
        batch.state[b : b + 1],
        starts=torch.tensor([start]),
        actions=actions.reshape(1, 1, *actions.shape),
        counts=torch.tensor([len(actions)]),
    )
    return critic(sequences)[0, 0]
