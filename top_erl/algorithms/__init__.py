"""Learning algorithms, one file each, with their losses and targets as pure functions beside them."""

from top_erl.algorithms.config import CollectConfig, LearnConfig, TopErlConfig, TrustRegionConfig
from top_erl.algorithms.learner import IterationStats, Learner
from top_erl.algorithms.parts import RunParts
from top_erl.algorithms.segments import SegmentsConfig
from top_erl.algorithms.stats import Diverged
from top_erl.algorithms.top_erl import TopErlLearner

__all__ = [
    "CollectConfig",
    "Diverged",
    "IterationStats",
    "LearnConfig",
    "Learner",
    "RunParts",
    "SegmentsConfig",
    "TopErlConfig",
    "TopErlLearner",
    "TrustRegionConfig",
]
