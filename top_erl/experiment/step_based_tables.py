"""The paper's four tables of hyper-parameters: the columns of PPO, gSDE, SAC and PINK.

There is no other source for these methods. The keys are beginnings of task ids.
"""

from __future__ import annotations

from dataclasses import dataclass

from top_erl.algorithms.step_based.config import Activation

TOTAL_STEPS = {
    "top_erl/BoxPushingDense": 114_000_000,
    "top_erl/BoxPushingSparse": 57_000_000,
    "top_erl/HopperJump": 48_000_000,
    "metaworld/": 60_800_000,
}
"""Control steps of TCE's runs (authors' configurations); no source gives those of step-based runs."""

FIXED_START = "top_erl/BoxPushingFixedStart"
"""Beginning of the ids of Box Pushing's variants with a fixed start, which share their family's numbers."""


def family(task_id: str) -> str:
    """Beginning of the ids whose numbers a task has; Meta-World's, the broadest, for a task of no family."""
    task_id = task_id.replace(FIXED_START, "top_erl/BoxPushing")
    return next((prefix for prefix in TOTAL_STEPS if task_id.startswith(prefix)), "metaworld/")


@dataclass(frozen=True)
class PpoNumbers:
    """PPO's or gSDE's column of a table."""

    samples: int
    """Control steps per iteration."""
    environments: int
    """Not in the tables: a divisor of the samples that leaves each environment whole episodes (or nearly)."""
    gae_lambda: float = 0.95
    discount: float = 0.99
    policy_rate: float = 3e-4
    critic_rate: float = 3e-4
    batch: int = 500
    normalize: bool = True
    """Observations and rewards alike."""
    clip: float = 0.2
    """Importance ratio and critic alike."""
    final_clip: float = 1.0
    clip_fall: float = 1.0
    entropy: float = 0.0
    hidden: tuple[int, ...] = (128, 128)
    """Policy and critic alike."""
    initial_std: float = 1.0
    sde_every: int = 0
    """SDE sampling frequency; 0: PPO."""


PPO: dict[str, PpoNumbers] = {
    "top_erl/BoxPushingDense": PpoNumbers(
        samples=48_000,
        environments=40,
        discount=1.0,
        policy_rate=5e-5,
        critic_rate=1e-4,
        batch=1200,  # 40 minibatches
        hidden=(512, 512),
    ),
    "top_erl/BoxPushingSparse": PpoNumbers(
        samples=48_000,
        environments=40,
        discount=1.0,
        policy_rate=5e-4,
        critic_rate=1e-4,
        batch=1200,  # 40 minibatches
        hidden=(512, 512),
    ),
    "top_erl/HopperJump": PpoNumbers(
        samples=8000,
        environments=16,
        discount=1.0,
        batch=200,  # 40 minibatches
        hidden=(32, 32),
    ),
    "metaworld/": PpoNumbers(samples=16_000, environments=16, batch=500),  # 32 minibatches
}
"""PPO's column, by the beginning of the task's id."""

_SDE_BOX = PpoNumbers(
    samples=80_000,
    environments=40,
    discount=1.0,
    policy_rate=1e-4,
    critic_rate=1e-4,
    batch=2000,
    entropy=0.01,
    hidden=(256, 256),
    initial_std=0.05,
    sde_every=4,
)
SDE: dict[str, PpoNumbers] = {
    "top_erl/BoxPushingDense": _SDE_BOX,
    "top_erl/BoxPushingSparse": _SDE_BOX,
    "top_erl/HopperJump": PpoNumbers(
        samples=8192,
        environments=8,
        gae_lambda=0.99,
        discount=0.999,
        policy_rate=9.5e-5,
        critic_rate=9.5e-5,
        batch=128,
        normalize=False,  # the table's reward clip of 10 is idle then, as in Stable-Baselines3
        clip=0.4,
        final_clip=0.0,  # lin_0.4
        entropy=0.0025,
        hidden=(256, 256),
        initial_std=0.1,
        sde_every=8,
    ),
    "metaworld/": PpoNumbers(
        samples=16_000,
        environments=16,
        policy_rate=1e-3,
        critic_rate=1e-3,
        batch=500,
        clip=0.3,
        final_clip=0.01 / 0.3,  # lin_0.3, with the table's footnote: to 0.01 in the first quarter of the run
        clip_fall=0.25,
        initial_std=0.5,
        sde_every=4,
    ),
}
"""gSDE's column."""


@dataclass(frozen=True)
class SacNumbers:
    """SAC's or PINK's column of a table."""

    samples: int
    """Control steps between rounds of gradient steps."""
    gradient_steps: int
    """The table's epochs."""
    environments: int
    """Not in the tables: a divisor of the samples."""
    rate: float = 3e-4
    """Policy and critic alike."""
    batch: int = 512
    buffer: int = 2_000_000
    learning_starts: int = 100_000
    hidden: tuple[int, ...] = (256, 256)
    """Policy and critics alike."""
    activation: Activation = "relu"


_SAC_BOX = SacNumbers(samples=8, gradient_steps=1, environments=8, activation="tanh")
SAC: dict[str, SacNumbers] = {
    "top_erl/BoxPushingDense": _SAC_BOX,
    "top_erl/BoxPushingSparse": _SAC_BOX,
    "top_erl/HopperJump": SacNumbers(
        samples=1000,
        gradient_steps=1000,
        environments=4,
        rate=1e-4,
        batch=256,
        buffer=1_000_000,
        learning_starts=10_000,
    ),
    "metaworld/": SacNumbers(
        samples=1000, gradient_steps=1000, environments=2, batch=256, buffer=1_000_000, learning_starts=10_000
    ),
}
"""SAC's column."""

PINK: dict[str, SacNumbers] = {
    "top_erl/BoxPushingDense": _SAC_BOX,
    "top_erl/BoxPushingSparse": _SAC_BOX,
    "top_erl/HopperJump": SacNumbers(
        samples=1, gradient_steps=1, environments=1, rate=2e-4, batch=256, buffer=1_000_000, hidden=(32, 32)
    ),
    "metaworld/": SacNumbers(samples=4, gradient_steps=1, environments=4),
}
"""PINK's column."""
