"""Presets of GTrXL.

`paper` carries the numbers of the paper's tables; the authors published no configuration of it. The paper's
implementation is based on RLlib's, so sizes of the network that no table gives are RLlib's defaults; what concerns PPO
and is not in the tables is Stable-Baselines3's default. The length of a run and the meaning of the time limit are those
of the other step-based methods (`preset_step_based.py`). `laptop` is for two CPU cores.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from top_erl.algorithms.step_based.config import StepCollectConfig
from top_erl.algorithms.step_based.gtrxl_config import GtrxlConfig, GtrxlLearnConfig
from top_erl.experiment.config import EvaluationConfig
from top_erl.experiment.step_based_tables import TOTAL_STEPS, family
from top_erl.models.gtrxl import GatedTransformerConfig
from top_erl.tasks import TaskSpec

GtrxlPreset = tuple[GtrxlConfig, None, int, EvaluationConfig]

_MOST_ENVIRONMENTS = 20
"""Environments stepped together, at most: enough for the network to work in batches."""
_EVALUATIONS = 100
"""Evaluations of a run at paper scale."""
_LAPTOP_ITERATION = 4000
"""Control steps per iteration at laptop scale, about."""
_LAPTOP_RETURN = 10.0
"""What returns are scaled to. Policy and critic share the network: values of 50 drown the policy's gradient, and values
of 3 teach it little; found by experiment on the via-point reacher and on Box Pushing."""
_LAPTOP_BOX_RETURN = 1500.0
"""Size of Box Pushing's returns for a policy that starts with random torques, far below those of smooth movements."""


@dataclass(frozen=True)
class PaperNumbers:
    """The GTrXL column of a table, where tables differ."""

    samples: int
    """Control steps per iteration."""
    discount: float
    epochs: int
    """Policy and critic alike."""
    rate: float
    """Policy and critic alike."""
    batch: int
    reward_scale: float
    """The row "normalized rewards"."""
    critic_clip: float
    clip: float


_BOX_DENSE = PaperNumbers(
    samples=8000, discount=0.99, epochs=5, rate=2e-4, batch=1000, reward_scale=0.1, critic_clip=10.0, clip=0.1
)
PAPER: dict[str, PaperNumbers] = {
    "top_erl/BoxPushingDense": _BOX_DENSE,
    "top_erl/BoxPushingSparse": replace(_BOX_DENSE, discount=1.0),
    "top_erl/HopperJump": PaperNumbers(
        samples=10_000, discount=1.0, epochs=10, rate=5e-4, batch=1024, reward_scale=1.0, critic_clip=1.0, clip=0.2
    ),
    "metaworld/": PaperNumbers(
        samples=19_000, discount=0.99, epochs=5, rate=2e-4, batch=1024, reward_scale=0.05, critic_clip=10.0, clip=0.1
    ),
}
"""By the beginning of the task's id."""


def gtrxl_preset(spec: TaskSpec, scale: str) -> GtrxlPreset:
    """GTrXL's settings for a task."""
    return _laptop(spec) if scale == "laptop" else _paper(spec)


def _paper(spec: TaskSpec) -> GtrxlPreset:
    """The tables' numbers for the task's family; those of Meta-World, the broadest, for any other task."""
    numbers, total = PAPER[family(spec.id)], TOTAL_STEPS[family(spec.id)]
    samples = max(numbers.samples, spec.horizon)
    algorithm = GtrxlConfig(
        collect=StepCollectConfig(
            environments=_environments(samples, spec.horizon),
            steps=samples,
            bootstrap=numbers.discount < 1.0,
            reward_scale=numbers.reward_scale,
        ),
        network=GatedTransformerConfig(
            width=64,  # not in the tables: RLlib's default, and what four heads of 16 make
            heads=4,
            head_width=16,
            layers=4,
            mlp_width=32,  # not in the tables: RLlib's default
            sequence_length=5,
            memory_length=50,  # not in the tables: RLlib's default
            gate_bias=2.0,  # not in the tables: RLlib's default, and the GTrXL paper's value
        ),
        learn=GtrxlLearnConfig(
            initial_std=1.0,
            normalize_observations=False,
            reward_clip=10.0,
            epochs=numbers.epochs,
            batch_size=numbers.batch,
            rate=numbers.rate,
            discount=numbers.discount,
            gae_lambda=0.95,
            clip=numbers.clip,
            critic_clip=numbers.critic_clip,
            critic_clip_of="error",  # as RLlib means it
            entropy_weight=0.0,
            critic_weight=0.5,  # not in the tables: Stable-Baselines3's default
            max_gradient=0.5,  # not in the tables: Stable-Baselines3's default
        ),
    )
    interval = max(1, total // samples // _EVALUATIONS)
    return algorithm, None, total, EvaluationConfig(interval=interval, episodes=152)


def _environments(samples: int, horizon: int) -> int:
    """As many environments as can share the samples evenly, whole episodes if possible."""
    counts = [n for n in range(1, _MOST_ENVIRONMENTS + 1) if samples % n == 0 and samples // n >= horizon]
    whole = [n for n in counts if samples // n % horizon == 0]
    return max(whole or counts)


def _laptop(spec: TaskSpec) -> GtrxlPreset:
    """A small network with a short memory that sees the time, normalised observations, scaled returns, larger steps."""
    environments = 16 if spec.horizon <= 250 else 8
    episodes = max(1, round(_LAPTOP_ITERATION / (environments * spec.horizon)))
    size = _LAPTOP_BOX_RETURN if family(spec.id).startswith("top_erl/BoxPushing") else spec.return_size
    algorithm = GtrxlConfig(
        collect=StepCollectConfig(
            environments=environments,
            steps=environments * episodes * spec.horizon,
            observe_time=True,
            bootstrap=False,
            reward_scale=_LAPTOP_RETURN / size,
        ),
        network=GatedTransformerConfig(width=32, heads=2, head_width=16, layers=2, mlp_width=32, memory_length=5),
        learn=GtrxlLearnConfig(
            initial_std=0.5, normalize_observations=True, epochs=10, batch_size=500, rate=5e-4, clip=0.2
        ),
    )
    steps = 1000 * max(4, min(16, 800 // spec.horizon)) * spec.horizon  # as many as TOP-ERL's run on the same task
    return algorithm, None, steps, EvaluationConfig(interval=5, episodes=100 if spec.horizon <= 50 else 20)
