"""The losses with several plans an episode once more, in loops: every segment's start is the start of a plan.

Written from the description, as `naive.py` is; networks, `trajectory` of a primitive of the right duration, and the
order in which random numbers are drawn are shared with the library, and the trust region of one Gaussian with
`naive.py`.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from top_erl.primitives import make_primitive
from top_erl.rollout.replay import EpisodeBatch

from .naive import CriticResult, NaiveTopErl, PolicyResult, ProjectedOne, _entropy, _single, _values


class NaivePlans(NaiveTopErl):
    """The two losses for h < T."""

    def plan_at(self, batch: EpisodeBatch, b: int, index: int, bound: float | None) -> ProjectedOne:
        """The policy of a plan that starts at a stored state, projected."""
        seen = batch.state[b, index]
        if self.config.plan.reference_input:
            seen = torch.cat((seen, batch.reference[b, index]))
        new = self.policy(seen.unsqueeze(0))
        with torch.no_grad():
            old = self.anchor(seen.unsqueeze(0))
        one = ProjectedOne(
            self.config.trust_region,
            new.mean[0],
            _single(new.matrix_factor()),
            old.mean[0],
            _single(old.matrix_factor()),
        )
        if bound is not None:
            one.widen(bound)
        return one

    def plan_actions(self, batch: EpisodeBatch, b: int, index: int, length: int, params: Tensor) -> Tensor:
        """Actions that a plan is valued for, inside the episode and the segment."""
        plan, stride, dt = self.config.plan, self.stride, self.dt
        count = min(length, batch.horizon - index)
        if plan.look == "plan":
            count = min(count, plan.every // stride)
        dofs, start = self.primitive.num_dof, stride * index
        position, velocity = batch.reference[b, index, :dofs], batch.reference[b, index, dofs:]
        primitive, origin, goal_origin = self.primitive, start * dt, batch.reference[b, 0, :dofs]
        if plan.clock != "episode":
            rest = max(stride * batch.horizon - start, plan.every) * dt
            tau = rest if plan.clock == "rest" else plan.tau or self.primitive.config.tau
            primitive = make_primitive(replace(self.primitive.config, tau=tau), dofs, dt)
            origin, goal_origin = 0.0, position
        elapsed = origin - start * dt  # of the movement's time, from the episode's
        times = [(stride * (index + j) + 1) * dt + elapsed for j in range(count)]
        reference = primitive.trajectory(
            params, torch.tensor(times, dtype=torch.float64), origin, position, velocity, goal_origin=goal_origin
        )
        return torch.cat((reference.position, reference.velocity), dim=-1)

    def plan_value(self, batch: EpisodeBatch, b: int, index: int, length: int, params: Tensor) -> float:
        """Q of a new plan after what it is valued for."""
        actions = self.plan_actions(batch, b, index, length, params)
        return float(self.combine([_values(one, batch, b, index, actions)[-1] for one in self.target_critics.members]))

    def critic_step(self, batch: EpisodeBatch, generator: torch.Generator, bound: float | None = None) -> CriticResult:
        """Targets and loss of one critic step."""
        horizon, gamma, size = batch.horizon, self.config.learn.discount, self.primitive.num_params
        length, offset = self.cut(horizon, generator)
        starts = list(range(offset, horizon, length))
        with torch.no_grad():
            noise = torch.randn(len(batch) * len(starts), size, generator=generator).reshape(len(batch), -1, size)
            with_q = self.config.learn.target == "q"
            more = torch.randn(len(batch) * horizon, size, generator=generator) if with_q else None
            targets: list[list[list[float]]] = []
            for b in range(len(batch)):
                future = [0.0] * (horizon + length + 1)
                for index in range(horizon):
                    if more is None:
                        future[index] = self.state_value(batch, b, index)
                    else:
                        params = self.plan_at(batch, b, index, bound).sample(more[b * horizon + index])
                        future[index] = self.plan_value(batch, b, index, length, params)
                rows = []
                for k, start in enumerate(starts):
                    params = self.plan_at(batch, b, start, bound).sample(noise[b, k])
                    row = [self.plan_value(batch, b, start, length, params)]
                    total = 0.0
                    for n in range(min(length, horizon - start)):
                        total += gamma**n * float(batch.reward[b, start + n])
                        row.append(total + gamma ** (n + 1) * future[start + n + 1])
                    rows.append(row)
                targets.append(rows)
        losses, firsts = [], []
        for critic in self.critics.members:
            loss: Tensor = torch.zeros(())
            for b in range(len(batch)):
                for k, start in enumerate(starts):
                    row = targets[b][k]
                    predicted = _values(critic, batch, b, start, batch.action[b, start : start + len(row) - 1])
                    firsts.append(float(predicted[0].detach()))
                    for output in range(1 if with_q else 0, len(row)):
                        loss = loss + (predicted[output] - row[output]) ** 2
            losses.append(loss / (len(batch) * len(starts) * (length + 1)))
        return CriticResult(losses, targets, sum(firsts) / len(firsts))

    def policy_cuts(self, horizon: int, generator: torch.Generator) -> list[tuple[int, list[int]]]:
        """How long the plans of a policy step are valued for, and where they start; every entry counts alike."""
        plan = self.config.plan
        most = plan.every // self.stride
        if plan.look == "end":  # to the end, from a state within every 2h steps
            cuts = []
            for first in range(0, horizon, 2 * most):
                start = first + int(torch.randint(min(2 * most, horizon - first), (), generator=generator))
                cuts.append((horizon - start, [start]))
            return cuts
        lengths = [*range(1, most + 1)] if plan.random or plan.by_value else sorted({most, horizon % most or most})
        length = lengths[int(torch.randint(len(lengths), (), generator=generator))]
        apart = max(1, most // 2)  # about two within h steps
        first = int(torch.randint(min(apart, horizon - length + 1), (), generator=generator))
        return [(length, list(range(first, horizon - length + 1, apart)))]

    def policy_step(self, batch: EpisodeBatch, generator: torch.Generator, bound: float | None = None) -> PolicyResult:
        """Loss of one policy step; the trust region is measured at the last cut's plans."""
        objective: Tensor = torch.zeros(())
        regression: Tensor = torch.zeros(())
        cuts = self.policy_cuts(batch.horizon, generator)
        plans: list[ProjectedOne] = []
        for length, starts in cuts:
            values, plans = self.cut_values(batch, length, starts, generator, bound)
            for value, one in zip(values, plans, strict=True):
                objective = objective + value / (len(plans) * len(cuts))
                regression = regression + one.regression() / (len(plans) * len(cuts))
        return PolicyResult(
            self.config.trust_region.regression_weight * regression - objective,
            objective,
            regression,
            entropy=sum(_entropy(one.factor) for one in plans) / len(plans),
            kl_to_anchor=sum(one.kl_to_anchor() for one in plans) / len(plans),
            mean_projected=sum(one.mean_active for one in plans) / len(plans),
            covariance_projected=sum(one.covariance_active for one in plans) / len(plans),
        )

    def cut_values(
        self, batch: EpisodeBatch, length: int, starts: list[int], generator: torch.Generator, bound: float | None
    ) -> tuple[list[Tensor], list[ProjectedOne]]:
        """The critics' values of new plans, and the policies they come from."""
        learn, size = self.config.learn, self.primitive.num_params
        noise = torch.randn(len(batch) * len(starts), size, generator=generator).reshape(len(batch), -1, size)
        found, plans = [], []
        for b in range(len(batch)):
            for k, start in enumerate(starts):
                one = self.plan_at(batch, b, start, bound)
                actions = self.plan_actions(batch, b, start, length, one.sample(noise[b, k]))
                sums = []
                for critic in self.critics.members:
                    total: Tensor = torch.zeros(())
                    for value in _values(critic.eval(), batch, b, start, actions)[1:]:
                        total = total + value
                    mean = total / len(actions)
                    whole = batch.horizon if self.config.plan.look == "end" else len(actions)
                    sums.append(whole * mean if learn.policy_objective == "sum" else mean)
                found.append(self.combine(sums))
                plans.append(one)
        return found, plans
