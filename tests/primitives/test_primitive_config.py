"""Settings say what to do when they are wrong."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from top_erl.config.primitive import PrimitiveConfig
from top_erl.errors import UserError
from top_erl.experiment.configs import load_config
from top_erl.primitives import make_primitive

RESULTS = Path(__file__).parents[2] / "results"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_basis": 2.5}, "primitive.num_basis is 2.5; set it to a whole number, 1 or more"),
        ({"tau": 0.0}, "primitive.tau is 0.0; set it to a number above 0"),
        ({"alpha": float("inf")}, "alpha is inf"),
        ({"goal_scale": float("nan")}, "goal_scale is nan; set it to a finite number"),
        ({"num_basis": 3, "num_basis_outside": 1}, "needs at least 4; raise num_basis"),
        ({"table_length_factor": 0}, "table_length_factor is 0"),
        ({"degree": 2}, "degree is 2; set it to a whole number, 3 or more"),
        ({"settling": 0.9}, "settling is 0.9; set it to a number of 1 or more"),
        ({"num_zero_start": -1}, "num_zero_start is -1; set it to a whole number, 0 or more"),
    ],
)
def test_values(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        PrimitiveConfig(**changes)


@pytest.mark.parametrize(
    ("changes", "dof", "dt", "message"),
    [
        ({}, 0, 0.01, "num_dof is 0; a primitive moves at least 1"),
        ({}, 2, 2.0, "dt is 2.0 but tau is 1.0; set dt"),
        ({}, 2, 0.0, "dt is 0.0 but tau is 1.0; set dt, the control step, above 0"),
        ({"kind": "dmp"}, 1, -0.1, "dt is -0.1; set it to the control step"),
        ({"alpha": 500.0}, 2, 0.01, "keep it at 1000 or below"),
        ({"kind": "promp", "num_basis_outside": 1, "num_zero_start": 1}, 1, 0.1, "num_basis_outside, or num_zero_st"),
        ({"kind": "bspline", "degree": 5, "num_basis": 2}, 1, 0.1, "of degree 5 needs at least 3; raise num_basis or"),
        ({"kind": "prodpm"}, 1, 0.1, "Unknown primitive.kind 'prodpm'; did you mean 'prodmp'?"),
    ],
)
def test_what_depends_on_the_kind(changes: dict[str, Any], dof: int, dt: float, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_primitive(PrimitiveConfig(**changes), dof, dt)


def test_settings_of_other_kinds_are_ignored() -> None:
    """So that `--primitive.kind` can be changed by itself, whatever a task has set."""
    odd = {"relative_goal": True, "num_zero_goal": 2, "table_length_factor": 7, "auto_scale_basis": False}
    for kind in ("prodmp", "promp", "dmp", "bspline"):
        assert make_primitive(PrimitiveConfig(kind=kind, **odd), 2, 0.1).num_dof == 2  # type: ignore[arg-type]


def test_every_setting_is_explained() -> None:
    source = Path(sys.modules[PrimitiveConfig.__module__].__file__ or "").read_text(encoding="utf-8")
    for field in fields(PrimitiveConfig):
        after = source.split(f"\n    {field.name}: ")[1]
        assert after.splitlines()[1].startswith('    """'), field.name


def test_no_torch_is_needed() -> None:
    code = "import sys, top_erl.config.primitive; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_configurations_of_finished_runs_still_load() -> None:
    """They name eight of the settings; the others have the values that were built in then."""
    texts = {path: path.read_text(encoding="utf-8") for path in RESULTS.rglob("config.yaml")}
    found = [path for path, text in texts.items() if "primitive:" in text and "table_length_factor:" not in text]
    assert len(found) > 50
    for path in found:
        primitive = load_config(path).primitive  # type: ignore[attr-defined]
        assert (primitive.kind, primitive.table_length_factor, primitive.auto_scale_basis) == ("prodmp", 5, True)
