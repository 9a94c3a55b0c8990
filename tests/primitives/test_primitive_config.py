"""Settings say what to do when they are wrong."""

from __future__ import annotations

from typing import Any

import pytest

from top_erl.errors import UserError
from top_erl.primitives import DmpConfig, ProDmpConfig, ProMpConfig


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_dof": 0}, "ProDmpConfig.num_dof is 0; set it to a whole number, 1 or more"),
        ({"num_basis": 2.5}, "num_basis is 2.5; set it to a whole number"),
        ({"tau": 0.0}, "tau is 0.0; set it to a number above 0"),
        ({"alpha": float("inf")}, "alpha is inf"),
        ({"goal_scale": float("nan")}, "goal_scale is nan; set it to a finite number"),
        ({"dt": 2.0}, "dt is 2.0 but tau is 1.0; set dt"),
        ({"num_basis": 3, "num_basis_outside": 1}, "needs at least 4; raise num_basis"),
        ({"alpha": 500.0}, "keep it at 1000 or below"),
        ({"table_length_factor": 0}, "table_length_factor is 0"),
    ],
)
def test_prodmp_settings(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        ProDmpConfig(**{"num_dof": 2, "dt": 0.01, **changes})


def test_dmp_settings() -> None:
    with pytest.raises(UserError, match=r"DmpConfig.dt is -0.1; set it to a number above 0"):
        DmpConfig(num_dof=1, dt=-0.1)


def test_promp_settings() -> None:
    with pytest.raises(UserError, match="set num_basis_outside, or num_zero_start"):
        ProMpConfig(num_dof=1, num_basis=5, num_basis_outside=1, num_zero_start=1)
    with pytest.raises(UserError, match="weights_scale"):
        ProMpConfig(num_dof=1, weights_scale=float("nan"))
