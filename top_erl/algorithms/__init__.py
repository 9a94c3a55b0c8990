"""Learning algorithms, one file each, with their losses and targets as pure functions beside them."""

from top_erl.algorithms.config import CollectConfig, LearnConfig, TopErlConfig, TrustRegionConfig
from top_erl.algorithms.segments import SegmentsConfig
from top_erl.algorithms.stats import Diverged, IterationStats
from top_erl.algorithms.top_erl import TopErlLearner

__all__ = [
    "CollectConfig",
    "Diverged",
    "IterationStats",
    "LearnConfig",
    "SegmentsConfig",
    "TopErlConfig",
    "TopErlLearner",
    "TrustRegionConfig",
]
