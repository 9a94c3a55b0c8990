"""Table 1: numbers against hand-made runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.report.figures.conftest import Make
from tests.report.synthetic import BOX_DENSE, HOPPER
from top_erl.errors import UserError
from top_erl.report.figures.style import NothingToDraw
from top_erl.report.figures.table1 import make_table, seconds_per_iteration, table1
from top_erl.report.records import RunRecord


def _score(run: RunRecord, last: float) -> RunRecord:
    """Give a run a last evaluation."""
    values = run.columns["evaluation_success"]
    values[np.flatnonzero(np.isfinite(values))[-1]] = last
    return run


def test_success_is_in_per_cent_with_half_its_interval(make: Make) -> None:
    runs = make("top_erl", [BOX_DENSE], 2, "v", seconds=2.5)
    _score(runs[0], 0.6), _score(runs[1], 0.8)
    table = make_table(runs)
    assert table.header == [
        "",
        "critics",
        "Box Pushing (dense): seconds / iteration",
        "Box Pushing (dense): success in %",
    ]
    # two seeds: the interval reaches from one to the other, 60 to 80
    assert table.rows == [["V target", "1", "2.50", "70.0 ± 10.0"]]
    assert "2 runs, 2 seeds." in " ".join(table.notes)


def test_rows_follow_the_legend_and_gaps_are_marked(make: Make) -> None:
    ensemble = {"learn": {"target": "ensemble", "ensemble_size": 5}}
    runs = make("sac", [BOX_DENSE], 1) + make("top_erl", [HOPPER], 1, "ensemble", algorithm=ensemble, rows=9)
    table = make_table([*runs, *make("top_erl", [BOX_DENSE], 1, "mine", algorithm={"learn": {"target": "mine"}})])
    assert [row[:2] for row in table.rows] == [["TOP-ERL · mine", "-"], ["SAC", "-"], ["V ensemble", "5"]]
    assert [row[2:4] for row in table.rows][:2] == [["-", "-"], ["-", "-"]]  # no jump
    assert table.rows[2][4:] == ["-", "-"]  # no box
    assert "±" not in table.rows[2][3]  # a single seed
    assert "1 of 3 runs is unfinished; of these the last evaluation counts." in table.notes


def test_seconds_are_medians(make: Make) -> None:
    runs = make("top_erl", [BOX_DENSE], 3)
    for run, pace in zip(runs, (1.0, 2.0, 9.0), strict=True):
        run.columns["wall_time"] = pace * run.columns["iteration"]
    runs[0].columns["wall_time"][5:] += 1000.0  # the machine slept
    assert seconds_per_iteration(runs) == 2.0
    assert seconds_per_iteration(runs[:1]) == 1.0
    del runs[0].columns["wall_time"]
    assert np.isnan(seconds_per_iteration(runs[:1]))
    assert make_table(runs[:1]).rows[0][2] == "-"


def test_markdown_and_latex(make: Make, tmp_path: Path) -> None:
    runs = make("top_erl", [BOX_DENSE], 2, "a_b|c&50%")
    _score(runs[0], 0.6), _score(runs[1], 0.8)
    markdown, latex = table1(runs, tmp_path / "table1")
    assert (markdown.name, latex.name) == ("table1.md", "table1.tex")
    head, rule, row, *_ = markdown.read_text(encoding="utf-8").splitlines()
    assert rule == "| --- | ---: | ---: | ---: |"
    assert row == "| TOP-ERL · a_b\\|c&50% | 1 | 1.50 | 70.0 ± 10.0 |"
    lines = latex.read_text(encoding="utf-8").splitlines()
    assert lines[1:3] == [r"\begin{tabular}{lrrr}", r"\toprule"]
    assert lines[5] == r"TOP-ERL $\cdot$ a\_b|c\&50\% & 1 & 1.50 & 70.0 $\pm$ 10.0 \\"
    assert lines[-2:] == [r"\bottomrule", r"\end{tabular}"]
    assert head.count("|") == 5


def test_a_table_that_cannot_be(tmp_path: Path, make: Make) -> None:
    with pytest.raises(NothingToDraw, match="no run has evaluated its policy yet"):
        table1([], tmp_path / "a")
    with pytest.raises(UserError, match=r"Cannot write .*a.md: No such file"):
        table1(make("sac", [BOX_DENSE], 1), tmp_path / "no" / "a")
