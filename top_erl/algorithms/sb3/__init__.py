"""Step-based methods on Stable-Baselines3: an action per control step, no movement primitive.

Configurations and presets need no extra; the learners import Stable-Baselines3.
"""

from top_erl.algorithms.sb3.method import GSDE, GTRXL, PINK, PPO, SAC, GtrxlRun, PpoRun, SacRun

__all__ = ["GSDE", "GTRXL", "PINK", "PPO", "SAC", "GtrxlRun", "PpoRun", "SacRun"]
