"""Step-based methods on Stable-Baselines3: an action per control step, no movement primitive.

The configurations and `require_sb3` need no extra; the learners in `ppo.py` and `sac.py` import Stable-Baselines3.
"""

from top_erl.algorithms.step_based.config import (
    NormalizeConfig,
    PpoConfig,
    PpoLearnConfig,
    PpoNetworksConfig,
    SacConfig,
    SacLearnConfig,
    SacNetworksConfig,
    StepCollectConfig,
    StepConfig,
)
from top_erl.algorithms.step_based.extra import require_sb3

__all__ = [
    "NormalizeConfig",
    "PpoConfig",
    "PpoLearnConfig",
    "PpoNetworksConfig",
    "SacConfig",
    "SacLearnConfig",
    "SacNetworksConfig",
    "StepCollectConfig",
    "StepConfig",
    "require_sb3",
]
