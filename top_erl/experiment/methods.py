"""The learning methods by name."""

from __future__ import annotations

METHODS = {
    "top_erl": "TOP-ERL: off-policy episodic RL, a transformer critic over action segments (the paper's method).",
    "tce": "TCE: on-policy episodic RL that credits segments of the movement, with a step-wise critic.",
    "bbrl_cov": "BBRL: black-box policy search over whole movements, full covariance.",
    "bbrl_std": "BBRL with a diagonal covariance.",
    "ppo": "PPO: on-policy, an action every step (Stable-Baselines3).",
    "gsde": "PPO with exploration noise that depends on the state (gSDE).",
    "gtrxl": "PPO with a gated transformer-XL that remembers past steps (GTrXL).",
    "sac": "SAC: off-policy, an action every step (Stable-Baselines3).",
    "pink": "SAC with pink exploration noise (PINK).",
}
"""Every method with one line about it."""

STEP_BASED = ("ppo", "gsde", "gtrxl", "sac", "pink")
"""Methods that choose an action every step; they need the extra `baselines`."""
