"""The example in C follows references as the runtime does."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.export.conftest import MakeAgent
from top_erl.export.references import export_references
from top_erl.runtime import PlannedReference

SOURCE = Path(__file__).parents[2] / "examples" / "robot_c" / "follow.c"
COMPILER = shutil.which("gcc") or shutil.which("cc")


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
def test_follows_at_1_khz(make_agent: MakeAgent, tmp_path: Path) -> None:
    agent, follow, table = make_agent(), tmp_path / "follow", tmp_path / "references.csv"
    build = [str(COMPILER), "-O2", "-std=c99", "-Wall", "-Wextra", "-Werror", str(SOURCE), "-o", str(follow), "-lm"]
    subprocess.run(build, check=True)
    observation = agent.training.task.begin([1, 2]).observation
    (tmp_path / "contexts.csv").write_text("".join(",".join(map(repr, row)) + "\n" for row in observation.tolist()))
    assert export_references(agent, tmp_path / "contexts.csv", table) == 2
    rows = np.loadtxt(table, delimiter=",", skiprows=1)
    states = rows[rows[:, 0] == 1][:, 2:]  # [T + 1, 2D]
    reference = PlannedReference(states[1:, :5], states[1:, 5:], states[0, :5], states[0, 5:], 0.02)
    done = subprocess.run([follow, table, "1", "1000"], check=True, capture_output=True, text=True)
    made = np.loadtxt(done.stdout.splitlines(), delimiter=",")
    assert made.shape == (1001, 11)
    wanted = [np.concatenate(((tick / 1000,), *reference.at(tick / 1000))) for tick in range(1001)]
    np.testing.assert_allclose(made, wanted, rtol=0, atol=1e-6)
    assert np.abs(made[:, 1:6] - made[0, 1:6]).max() > 0.05  # it moves
    wrong = subprocess.run([follow, table, "7", "1000"], check=False, capture_output=True, text=True)
    assert (wrong.returncode, wrong.stderr) == (2, "follow: there is no such context in the file\n")
