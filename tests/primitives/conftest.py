"""Recorded trajectories of mp_pytorch 0.1.4, and a few makers that several test files share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from top_erl.primitives import PrimitiveConfig, ProDmp
from top_erl.primitives.basis import NormalizedRbf

DATA = Path(__file__).parent.parent / "data"

Recording = dict[str, Tensor]


@pytest.fixture(scope="session")
def recording() -> Callable[[str], Recording]:
    """Load `tests/data/mp_<name>.npz` as tensors, in the precision it was recorded in."""

    def load(name: str) -> Recording:
        with np.load(DATA / f"mp_{name}.npz") as arrays:
            return {key: torch.from_numpy(np.array(arrays[key])) for key in arrays.files}

    return load


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def rbf_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count evaluations of the basis functions: the list grows by the number of times of each call."""
    calls: list[int] = []
    evaluate = NormalizedRbf.__call__

    def counted(self: NormalizedRbf, times: Tensor) -> Tensor:
        calls.append(times.numel())
        return evaluate(self, times)

    monkeypatch.setattr(NormalizedRbf, "__call__", counted)
    return calls


@pytest.fixture(params=[False, True], ids=["absolute", "relative"])
def prodmp(request: pytest.FixtureRequest) -> ProDmp:
    """A ProDMP of 2 degrees of freedom, once with an absolute and once with a relative goal."""
    config = PrimitiveConfig(num_basis=4, tau=1.0, weights_scale=0.5, goal_scale=0.3, relative_goal=request.param)
    return ProDmp(config, num_dof=2, dt=0.02)
