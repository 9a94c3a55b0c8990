"""A configuration with one part changed, and the options of a small run on the command line."""

from __future__ import annotations

from dataclasses import replace

from top_erl.config.run import RunConfig

SMALL = [
    "--task=tests.rollout.toy_tasks:ToyTask",
    "--policy.hidden=8",
    "--critic.width=8",
    "--critic.heads=2",
    "--critic.layers=1",
    "--segments.count=2",
    "--collect.episodes=3",
    "--collect.prefill=4",
    "--collect.capacity=20",
    "--collect.stride=2",
    "--learn.batch-size=4",
    "--learn.critic-steps=2",
    "--learn.policy-steps=2",
    "--evaluation.interval=7",
    "--evaluation.episodes=3",
    "--checkpoint.interval=3",
    "--log.no-tensorboard",
    "--threads=1",
    "--workers=0",
]
"""Options of a run that takes a second."""


def with_collect(config: RunConfig, **changes: object) -> RunConfig:
    """The configuration with other settings of `collect`."""
    collect = replace(config.algorithm.collect, **changes)  # type: ignore[arg-type]
    return replace(config, algorithm=replace(config.algorithm, collect=collect))


def with_learn(config: RunConfig, **changes: object) -> RunConfig:
    """The configuration with other settings of `learn`."""
    learn = replace(config.algorithm.learn, **changes)  # type: ignore[arg-type]
    return replace(config, algorithm=replace(config.algorithm, learn=learn))


def with_trust_region(config: RunConfig, **changes: object) -> RunConfig:
    """The configuration with other settings of `trust_region`."""
    region = replace(config.algorithm.trust_region, **changes)  # type: ignore[arg-type]
    return replace(config, algorithm=replace(config.algorithm, trust_region=region))
