"""A configuration with one part changed."""

from __future__ import annotations

from dataclasses import replace

from top_erl.experiment.config import RunConfig


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
