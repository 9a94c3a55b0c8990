"""Hyper-parameters that cannot work are refused, with the name of the option."""

from __future__ import annotations

import pytest

from top_erl.algorithms.top_erl.config import CollectConfig, LearnConfig, TopErlConfig, TrustRegionConfig
from top_erl.errors import UserError
from top_erl.trust_region import FrobeniusProjection, KlProjection, NoProjection, W2Projection


@pytest.mark.parametrize(
    "settings",
    [
        {"episodes": 0},
        {"capacity": 0},
        {"stride": 0},
        {"prefill": -1},
        {"episodes": 11, "prefill": 0, "capacity": 10},
        {"prefill": 11, "capacity": 10},
        {"reward_scale": 0.0},
        {"reward_spread": 0.0},
        {"reward_spread": 10.0, "reward_trim": 1.0},
        {"reward_trim": 0.05},
        {"wide_share": 1.5},
        {"wide_factor": 0.0},
    ],
    ids=str,
)
def test_collecting(settings: dict[str, float]) -> None:
    with pytest.raises(UserError, match=r"collect\."):
        CollectConfig(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "settings",
    [
        {"mean_bound": 0.0},
        {"covariance_bound": -1.0},
        {"regression_weight": -0.1},
        {"anchor_rate": 0.0},
        {"anchor_rate": 1.1},
    ],
    ids=str,
)
def test_trust_region(settings: dict[str, float]) -> None:
    with pytest.raises(UserError, match=r"trust_region\."):
        TrustRegionConfig(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "settings",
    [
        {"batch_size": 0},
        {"critic_steps": -1},
        {"policy_steps": -1},
        {"critic_rate": 0.0},
        {"policy_rate": -1.0},
        {"critic_decay": -1.0},
        {"policy_decay": -1.0},
        {"target_rate": 0.0},
        {"target_rate": 1.5},
        {"discount": 0.0},
        {"discount": 1.01},
        {"target": "ensemble", "ensemble_size": 1},
        {"hindsight": 1.5},
        {"hindsight_reached": -0.1},
    ],
    ids=str,
)
def test_learning(settings: dict[str, object]) -> None:
    with pytest.raises(UserError, match=r"learn\."):
        LearnConfig(**settings)  # type: ignore[arg-type]


def test_projections_by_name() -> None:
    bounds = {"mean_bound": 0.1, "covariance_bound": 0.2}
    built = {
        name: TrustRegionConfig(projection=name, **bounds).build_projection()  # type: ignore[arg-type]
        for name in ("kl", "w2", "frobenius", "none")
    }
    assert built == {
        "kl": KlProjection(0.1, 0.2),
        "w2": W2Projection(0.1, 0.2),
        "frobenius": FrobeniusProjection(0.1, 0.2),
        "none": NoProjection(),
    }


def test_authors_constants_are_the_defaults() -> None:
    """What the published method fixes for all tasks, whatever the presets change."""
    learn, trust_region = LearnConfig(), TrustRegionConfig()
    assert (learn.target, learn.target_rate, learn.discount) == ("v", 0.005, 1.0)
    assert (learn.critic_condition, learn.policy_condition, learn.policy_objective) == ("segment", "episode", "sum")
    assert (trust_region.projection, trust_region.anchor, trust_region.regression_weight) == ("kl", "ema", 1.0)


def test_hindsight_needs_an_anchor_that_knows_all_goals() -> None:
    with pytest.raises(UserError, match="anchor ema"):
        TopErlConfig(learn=LearnConfig(hindsight=0.5), trust_region=TrustRegionConfig(anchor="behaviour"))
