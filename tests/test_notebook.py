"""The notebook runs from top to bottom.

Its code cells are run in one namespace, in order, as a fresh kernel would. A real kernel (nbclient, ipykernel and some
twenty packages below them) would start a process more and find nothing more, for the notebook has no magics.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest

NOTEBOOK = Path(__file__).parents[1] / "examples/first_steps.ipynb"
FEW = "STEPS = 4_000"


def code_cells() -> list[str]:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def test_it_runs_from_top_to_bottom(capsys: pytest.CaptureFixture[str]) -> None:
    """As it stands, but for the length of the training."""
    mpl.use("Agg", force=True)
    cells = code_cells()
    assert sum("STEPS = 100_000" in cell for cell in cells) == 1
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(cells):
        exec(compile(cell.replace("STEPS = 100_000", FEW), f"{NOTEBOOK.name}, cell {number}", "exec"), names)

    said, plt = capsys.readouterr().out, names["plt"]
    assert "on 100 fresh contexts" in said
    assert len(plt.get_fignums()) == 4
    assert all(axis.lines for number in plt.get_fignums() for axis in plt.figure(number).axes)
    plt.close("all")
    apart = names["moved"].position[0] - names["reference"].position[0]  # a step of 0.02 s after 0.3 rad, at -3 rad/s
    assert np.allclose(apart, 0.3 - 0.02 * 3, atol=0.01)
    assert names["from_each_segment"].max() < 1e-9 < names["from_the_start"].max()
    assert names["rows"][-1]["env_steps"] >= 4_000


def test_what_is_committed_is_small() -> None:
    assert NOTEBOOK.stat().st_size < 300_000
