"""The running statistics of `VecNormalize` as plain tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.vec_env import VecNormalize
from torch import Tensor

_MOMENTS = ("mean", "var", "count")


def normalizer_state(normalizer: VecNormalize) -> dict[str, Tensor]:
    """Mean, variance and count of observations and returns, as `which.moment`."""
    return {
        f"{name}.{moment}": torch.tensor(getattr(statistics, moment), dtype=torch.float64)
        for name, statistics in _statistics(normalizer).items()
        for moment in _MOMENTS
    }


def restore_normalizer(normalizer: VecNormalize, state: Mapping[str, Tensor]) -> None:
    """Put back what `normalizer_state` made."""
    for name, statistics in _statistics(normalizer).items():
        for moment in _MOMENTS:
            saved = state[f"{name}.{moment}"].cpu().numpy().astype(np.float64)
            if saved.shape != np.shape(getattr(statistics, moment)):
                raise ValueError(f"the saved {moment} of {name} has shape {saved.shape}")
            setattr(statistics, moment, saved.copy() if saved.ndim else float(saved))


def _statistics(normalizer: VecNormalize) -> dict[str, Any]:
    """The running statistics by name; observations have none if they are not normalised."""
    kept = {"returns": normalizer.ret_rms}
    return {"observations": normalizer.obs_rms, **kept} if normalizer.norm_obs else kept
