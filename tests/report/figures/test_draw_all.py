"""One call draws what a collection has runs for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.report.figures.conftest import Make
from tests.report.synthetic import BOX_DENSE
from top_erl.errors import UserError
from top_erl.report.figures import FIGURES, draw_all
from top_erl.report.records import Collection, RunRecord

pytest.importorskip("matplotlib")


def _collection(runs: Sequence[RunRecord]) -> Collection:
    return Collection(list(runs), [], [], None)


def test_a_comparison_and_ablations(compared: list[RunRecord], ablated: list[RunRecord], tmp_path: Path) -> None:
    drawn = draw_all(_collection([*compared, *ablated]), tmp_path / "some" / "figures")
    assert list(drawn) == list(FIGURES)
    for name, files in drawn.items():
        endings = ("md", "tex") if name == "table1" else ("png", "pdf")
        assert files == [tmp_path / "some" / "figures" / f"{name}.{ending}" for ending in endings]
        assert all(file.stat().st_size > 100 for file in files)


def test_what_has_no_runs_is_left_out(
    make: Make, ablated: list[RunRecord], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda *_, **__: None)  # writing is slow, and tested above
    assert draw_all(_collection([]), tmp_path) == {}
    assert list(tmp_path.glob("*.*")) == []
    one = draw_all(_collection(make("sac", [BOX_DENSE], 1)), tmp_path)
    assert list(one) == ["overview", "profiles", "table1"]  # a panel per task would be the overview again
    lengths = [run for run in ablated if run.variant in ("random", "5%")]
    assert list(draw_all(_collection(lengths), tmp_path)) == ["profiles", "segment_lengths", "table1"]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="Cannot make the folder"):
        draw_all(_collection([]), tmp_path / "file")
