"""Hyper-parameters of BBRL."""

from __future__ import annotations

from dataclasses import dataclass, field

from top_erl.algorithms.on_policy.config import OnPolicyConfig, OnPolicyTrustRegionConfig


@dataclass(frozen=True)
class BbrlConfig(OnPolicyConfig):
    """All of BBRL's hyper-parameters but the movement primitive's; `policy.covariance` makes it Std or Cov."""

    trust_region: OnPolicyTrustRegionConfig = field(
        default_factory=lambda: OnPolicyTrustRegionConfig(regression_weight=10.0, set_covariance=True)
    )
    """How far the policy may move."""
