"""Trust regions for Gaussian policies: KL, Wasserstein-2 and Frobenius projections, and entropy bounds.

    projected = KlProjection(mean_bound=0.005, covariance_bound=0.0005).project(new, old).gaussian

Plain PyTorch; usable without the rest of the library.
"""

from top_erl.trust_region.entropy import (
    EntropySchedule,
    ExponentialEntropyBound,
    LinearEntropyBound,
    NoEntropyBound,
    apply_entropy_bound,
    entropy_schedule,
)
from top_erl.trust_region.factor import FactorizationError
from top_erl.trust_region.gaussian import Gaussian, kl_covariance_part, kl_divergence, kl_mean_part
from top_erl.trust_region.projection import (
    BoundedProjection,
    FrobeniusProjection,
    KlProjection,
    NoProjection,
    Projected,
    Projection,
    W2Projection,
)

__all__ = [
    "BoundedProjection",
    "EntropySchedule",
    "ExponentialEntropyBound",
    "FactorizationError",
    "FrobeniusProjection",
    "Gaussian",
    "KlProjection",
    "LinearEntropyBound",
    "NoEntropyBound",
    "NoProjection",
    "Projected",
    "Projection",
    "W2Projection",
    "apply_entropy_bound",
    "entropy_schedule",
    "kl_covariance_part",
    "kl_divergence",
    "kl_mean_part",
]
