"""Small surroundings for on-policy learners: what a run hands over, and a bandit whose optimum is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from top_erl.algorithms.on_policy.learner import Episodes, OnPolicyLearner
from top_erl.algorithms.setup import Setup
from top_erl.primitives import PrimitiveConfig, make_primitive
from top_erl.rollout.collector import EpisodeCollector
from top_erl.rollout.player import LocalPlayer
from top_erl.tasks import EpisodeOutcomes, EpisodeStarts, Task, TaskSpec
from top_erl.tasks.contract import Array


def make_setup(task: Task, *, seed: int = 0, total_iterations: int = 10, **primitive: Any) -> Setup:
    """What a run would hand to a learner of the task."""
    spec = task.spec
    settings = {"num_basis": 2, "tau": spec.duration, "weights_scale": 0.7, "goal_scale": 0.4} | primitive
    made = make_primitive(PrimitiveConfig(**settings), spec.num_dof, spec.dt)  # type: ignore[arg-type]
    return Setup(
        task=task,
        spec=spec,
        seed=seed,
        total_iterations=total_iterations,
        device=torch.device("cpu"),
        collector=EpisodeCollector(LocalPlayer(task), spec, made, seed=seed),
        primitive=made,
    )


def collected(learner: OnPolicyLearner, count: int) -> Episodes:
    """Episodes of the policy as it is."""
    learner.collector.start(learner.policy, count)
    rollout, _ = learner.collector.finish_rollout()
    return Episodes.of(rollout, learner.config.collect.reward_scale, learner.policy.raw_covariance)


@torch.no_grad()
def disturb(learner: OnPolicyLearner, size: float = 0.3, seed: int = 1) -> None:
    """Move both networks, so that the trust region is active and values are far from zero."""
    generator = torch.Generator().manual_seed(seed)
    for module in (learner.policy, learner.critic):
        for parameter in module.parameters():
            parameter.add_(size * torch.randn(parameter.shape, generator=generator))


class Bandit(Task):
    """One context; the return is minus the squared distance of the primitive's parameters from the best ones.

    The parameters are read off the reference, on which they depend linearly.
    """

    def __init__(self, best: Sequence[float], num_dof: int = 2, horizon: int = 6) -> None:
        self.spec = TaskSpec("tests/Bandit-v0", 2, num_dof, horizon, dt=0.1, metrics=("distance",))
        self.best = np.array(best)
        num_basis = len(best) // num_dof - 1
        primitive = make_setup(self, num_basis=num_basis).primitive
        assert primitive is not None
        assert primitive.num_params == len(best)
        times = torch.arange(1, horizon + 1, dtype=torch.float64) * self.spec.dt
        rest = torch.zeros(num_dof, dtype=torch.float64)
        units = torch.eye(len(best), dtype=torch.float64)
        response = primitive.trajectory(units, times, 0.0, rest, rest).position.flatten(1)  # [P, T D]
        self._solve = np.linalg.pinv(response.numpy().T)  # [P, T D]

    def begin(self, seeds: Sequence[int]) -> EpisodeStarts:
        count, dof = len(seeds), self.spec.num_dof
        return EpisodeStarts(np.ones((count, 2)), np.zeros((count, dof)), np.zeros((count, dof)))

    def play(self, reference: Array) -> EpisodeOutcomes:
        count, horizon = reference.shape[:2]
        params = reference[..., : self.spec.num_dof].reshape(count, -1) @ self._solve.T  # [B, P]
        squared = np.square(params - self.best).sum(-1)
        reward = np.zeros((count, horizon))
        reward[:, -1] = -squared
        return EpisodeOutcomes(np.ones((count, horizon, 2)), reward, {"distance": np.sqrt(squared)})


def gradients_of(module: torch.nn.Module) -> dict[str, Tensor]:
    """A copy of all gradients."""
    found = {name: parameter.grad for name, parameter in module.named_parameters()}
    return {name: grad.clone() for name, grad in found.items() if grad is not None}
