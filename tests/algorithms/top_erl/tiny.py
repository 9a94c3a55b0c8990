"""A task and a learner so small that a gradient step costs a few milliseconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from top_erl.algorithms.setup import Setup
from top_erl.algorithms.top_erl.config import CollectConfig, LearnConfig, TopErlConfig, TrustRegionConfig
from top_erl.algorithms.top_erl.learner import TopErlLearner
from top_erl.algorithms.top_erl.planning import PlanningLearner
from top_erl.algorithms.top_erl.regeneration import Regeneration
from top_erl.algorithms.top_erl.segments import SegmentsConfig
from top_erl.models import CriticConfig, PolicyConfig
from top_erl.primitives import PrimitiveConfig, make_primitive
from top_erl.primitives.plans import PlanMovements
from top_erl.rollout.collector import EpisodeCollector
from top_erl.rollout.player import LocalPlayer
from top_erl.rollout.replanning import ReplanningCollector
from top_erl.rollout.replay import EpisodeBatch
from top_erl.tasks import EpisodeOutcomes, EpisodeStarts, Task, TaskSpec
from top_erl.tasks.contract import Array
from top_erl.tasks.goals import GoalRule


class TinyGoals(GoalRule):
    """The target of the tiny task."""

    def __init__(self, num_dof: int, sparse: bool) -> None:
        self.entries, self.sparse = tuple(range(num_dof)), sparse

    def reached(self, observation: Array) -> Array:
        return observation[..., len(self.entries) :]

    def as_goal(self, reached: Array) -> Array:
        return reached

    def reward(self, reached: Array, goal: Array) -> Array:
        paid: Array = -np.square(reached - goal[:, None]).sum(-1)  # [B, T]
        if self.sparse:
            paid[:, :-1] = 0.0
        return paid


class TinyTask(Task):
    """The reference is tracked perfectly; the reward is the squared distance to a target, at every step or the last.

    Observation: target (D), position (D). Axes: `B` episodes, `T` steps, `D` degrees of freedom.
    """

    def __init__(self, num_dof: int = 2, horizon: int = 12, sparse: bool = False) -> None:
        self.sparse = sparse
        facts = ("tests/Tiny-v0", 2 * num_dof, num_dof, horizon)
        self.spec = TaskSpec(*facts, dt=0.1, metrics=("distance",), goal_rule=TinyGoals(num_dof, sparse))
        self._target = self._start = np.zeros((0, num_dof))
        self._parts: list[Array] = []

    def begin(self, seeds: Sequence[int]) -> EpisodeStarts:
        drawn = np.stack([np.random.default_rng(seed).uniform(-1.0, 1.0, (3, self.spec.num_dof)) for seed in seeds])
        self._target, self._start, self._parts = drawn[:, 0], 0.3 * drawn[:, 1], []
        return EpisodeStarts(np.concatenate((self._target, self._start), axis=-1), self._start, 0.2 * drawn[:, 2])

    def advance(self, reference: Array) -> EpisodeStarts:
        self._parts.append(reference)
        position, velocity = np.split(reference[:, -1], 2, axis=-1)
        return EpisodeStarts(np.concatenate((self._target, position), axis=-1), position, velocity)

    def play(self, reference: Array) -> EpisodeOutcomes:
        reference = np.concatenate((*self._parts, reference), axis=1)
        position = reference[..., : self.spec.num_dof]  # [B, T, D], after each step
        before = np.concatenate((self._start[:, None], position[:, :-1]), axis=1)
        target = np.broadcast_to(self._target[:, None], position.shape)
        reward = -np.square(position - target).sum(-1)  # [B, T]
        if self.sparse:
            reward[:, :-1] = 0.0
        distance = np.sqrt(np.square(position[:, -1] - self._target).sum(-1))
        last = np.concatenate((self._target, position[:, -1]), axis=-1)
        return EpisodeOutcomes(np.concatenate((target, before), axis=-1), reward, {"distance": distance}, last=last)


def tiny_config(**sections: dict[str, Any]) -> TopErlConfig:
    """A small configuration; each section may be changed, e.g. `learn={"target": "q"}`."""
    base = TopErlConfig(
        collect=CollectConfig(episodes=2, prefill=4, capacity=64),
        policy=PolicyConfig(hidden=(8,)),
        critic=CriticConfig(width=8, heads=2, layers=2, max_positions=16),
        segments=SegmentsConfig(),
        trust_region=TrustRegionConfig(),
        learn=LearnConfig(batch_size=3, critic_steps=3, policy_steps=2),
    )
    return replace(base, **{name: replace(getattr(base, name), **changes) for name, changes in sections.items()})


def tiny_learner(
    config: TopErlConfig | None = None,
    *,
    task: Task | None = None,
    seed: int = 0,
    total_iterations: int = 10,
    learner: type[TopErlLearner] = TopErlLearner,
    **primitive: Any,
) -> TopErlLearner:
    """A learner of a task, by default the tiny one, without episodes as yet."""
    config, task = config or tiny_config(), task or TinyTask()
    spec = task.spec
    settings = {"num_basis": 2, "tau": spec.duration, "weights_scale": 0.7, "goal_scale": 0.4} | primitive
    made = make_primitive(PrimitiveConfig(**settings), spec.num_dof, spec.dt)  # type: ignore[arg-type]
    options: dict[str, Any] = {
        "seed": seed,
        "stride": config.collect.stride,
        "reward_scale": config.collect.reward_scale,
        "reward_shift": config.collect.reward_shift,
        "reward_floor": config.collect.reward_floor,
        "keep_behaviour": config.trust_region.anchor == "behaviour",
        "wide_share": config.collect.wide_share,
        "wide_factor": config.collect.wide_factor,
        "goal_rule": task.spec.goal_rule if config.stored.goalless else None,
    }
    collector = EpisodeCollector(LocalPlayer(task), spec, made, **options)
    if (plan := config.plan).replans(spec.horizon):
        movements = PlanMovements(made, spec.horizon, every=plan.every, clock=plan.clock, tau=plan.tau)
        options |= {"every": plan.every, "random": plan.random, "reference_input": plan.reference_input}
        collector = ReplanningCollector(LocalPlayer(task), spec, movements, **options)
        learner = PlanningLearner if learner is TopErlLearner else learner
    setup = Setup(
        task=task,
        spec=spec,
        seed=seed,
        total_iterations=total_iterations,
        device=torch.device("cpu"),
        collector=collector,
        primitive=made,
    )
    return learner(config, setup)


@torch.no_grad()
def disturb(learner: TopErlLearner, seed: int = 1) -> None:
    """Move all four networks apart, so that bounds are active and no two of them can be mistaken."""
    generator = torch.Generator().manual_seed(seed)
    for module, size in (
        (learner.policy, 0.3),
        (learner.anchor, 0.1),
        (learner.critics, 0.3),
        (learner.target_critics, 0.3),
    ):
        for parameter in module.parameters():
            parameter.add_(size * torch.randn(parameter.shape, generator=generator))


def to_double(learner: TopErlLearner) -> None:
    """Let a learner compute in float64 from now on; torch's default type must be float64 as well."""
    for module in (learner.policy, learner.anchor, learner.critics, learner.target_critics):
        module.double()
    spec = learner.collector.spec
    steps = torch.arange(learner.collector.stored_horizon, dtype=torch.float64) * learner.config.collect.stride
    grid = learner.primitive.grid((steps + 1) * spec.dt, steps * spec.dt)
    learner.regenerate = Regeneration(learner.primitive, grid)
    if isinstance(learner, PlanningLearner):
        stride = learner.config.collect.stride
        learner.plan_grid = learner.collector.movements.grid(stride, torch.device("cpu"), torch.float64)


def batch_of(learner: TopErlLearner, *episodes: int) -> EpisodeBatch:
    """Stored episodes by their place in the replay, in torch's default type."""
    batch = learner.replay.gather(torch.tensor(episodes))
    dtype = torch.get_default_dtype()
    parts = (part.to(dtype) for part in (batch.state, batch.reference, batch.action, batch.reward))
    return EpisodeBatch(*parts, None if batch.behaviour is None else batch.behaviour.to(dtype))


def weights(module: nn.Module) -> dict[str, Tensor]:
    """A copy of all parameters."""
    return {name: parameter.detach().clone() for name, parameter in module.named_parameters()}


def gradients(module: nn.Module) -> dict[str, Tensor]:
    """A copy of all gradients; zero where there is none."""
    return {
        name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()
        for name, parameter in module.named_parameters()
    }


def snapshot(learner: TopErlLearner) -> dict[str, Tensor]:
    """A copy of everything that training changes."""
    return {name: value.clone() for name, value in learner.state_dict().items()}


def assert_same(first: dict[str, Tensor], second: dict[str, Tensor]) -> None:
    """Two snapshots agree bit for bit."""
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


def started(seed: int = 0, **sections: dict[str, Any]) -> TopErlLearner:
    """A tiny learner whose replay holds its first episodes."""
    learner = tiny_learner(tiny_config(**sections), seed=seed)
    learner.prefill()
    return learner
