"""A few hundred steps on a task with one number to learn must help."""

from __future__ import annotations

import pytest

from top_erl.seeding import episode_seeds

from .tiny import TinyTask, tiny_config, tiny_learner

ITERATIONS = 35


@pytest.mark.parametrize("target", ["v", "clipped"])
def test_training_improves_the_return(target: str) -> None:
    config = tiny_config(
        collect={"episodes": 4, "prefill": 32, "capacity": 500},
        policy={"hidden": (32,), "initial_std": 0.5},
        critic={"width": 16, "heads": 2, "layers": 1},
        segments={"count": 3},
        trust_region={"mean_bound": 0.2, "covariance_bound": 0.02, "anchor_rate": 0.3},
        learn={
            "target": target,
            "batch_size": 32,
            "critic_steps": 15,
            "policy_steps": 8,
            "policy_start": 5,
            "critic_rate": 3e-3,
            "policy_rate": 3e-3,
            "target_rate": 0.05,
        },
    )
    learner = tiny_learner(config, task=TinyTask(num_dof=1, horizon=10, sparse=True), total_iterations=ITERATIONS)
    seeds = episode_seeds(0, "evaluation", 0, 20)
    learner.prefill()
    before = learner.collector.evaluate(learner.policy, seeds).returns.mean()
    for iteration in range(1, ITERATIONS + 1):
        learner.iterate(iteration)
    after = learner.collector.evaluate(learner.policy, seeds).returns.mean()
    assert after > 0.3 * before  # minus the squared distance: at most 30 % is left
