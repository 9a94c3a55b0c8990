"""Colours, names and panels."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.report.figures.conftest import Make
from tests.report.synthetic import BOX_DENSE, BOX_SPARSE, HOPPER, METHODS, REACHER
from top_erl.errors import UserError
from top_erl.report.figures import overview
from top_erl.report.figures.panels import family_panels, task_panels
from top_erl.report.figures.style import drawing, looks, save
from top_erl.report.figures.variants import kind, styles_of
from top_erl.report.records import RunRecord

pytest.importorskip("matplotlib")


def test_methods_have_the_papers_colours_and_order() -> None:
    found = looks((method, "") for method in METHODS)
    assert [(look.name, look.color) for look in found.values()] == [
        ("TOP-ERL", "#1f77b4"),
        ("TCE", "#ff7f0e"),
        ("BBRL-Cov", "#17becf"),
        ("PPO", "#2ca02c"),
        ("GTrXL", "#d62728"),
        ("gSDE", "#8c564b"),
        ("SAC", "#9467bd"),
        ("PINK", "#e377c2"),
    ]
    assert len({look.marker for look in found.values()}) == 8  # a second channel for those who see colours alike


def test_both_kinds_of_bbrl_are_told_apart_by_dashes_and_marker() -> None:
    full, diagonal = looks([("bbrl_std", ""), ("bbrl_cov", "")]).values()
    assert (full.name, diagonal.name) == ("BBRL-Cov", "BBRL-Std")
    assert full.color == diagonal.color
    assert full.dashes != diagonal.dashes
    assert full.marker != diagonal.marker


def test_variants_of_a_method_share_its_colour_only() -> None:
    found = looks([("tce", "b"), ("tce", ""), ("tce", "a"), ("mine", ""), ("yours", "")])
    assert list(found) == [("tce", ""), ("tce", "a"), ("tce", "b"), ("mine", ""), ("yours", "")]
    assert [look.name for look in found.values()] == ["TCE", "TCE · a", "TCE · b", "mine", "yours"]
    of_tce = list(found.values())[:3]
    assert {look.color for look in of_tce} == {"#ff7f0e"}
    assert len({look.dashes for look in of_tce}) == len({look.marker for look in of_tce}) == 3
    assert len({look.color for look in found.values()}) == 3


def test_only_variants_of_top_erl_belong_to_the_papers_ablations(make: Make) -> None:
    own = make("tce", [BOX_DENSE], 1, "v") + make("top_erl", [BOX_DENSE], 1, "rate=1") + make("top_erl", [BOX_DENSE], 1)
    paper = [run for name in ("v", "dropout", "random", "12.5%") for run in make("top_erl", [BOX_DENSE], 1, name)]
    assert [kind(run) for run in own + paper] == ["", "", "", "target", "component", "segment", "segment"]
    names = [look.name for look in styles_of(paper + own).values()]
    assert names == [
        *("TOP-ERL", "TOP-ERL · rate=1", "TCE · v"),
        *("V target", "dropout 0.05", "random lengths", "12.5%"),
    ]


def test_panels_pool_meta_world_and_stand_in_the_papers_order(make: Make) -> None:
    tasks = [REACHER, BOX_SPARSE, "my.module:Pouring", "metaworld/push-v3", BOX_DENSE, HOPPER, "metaworld/reach-v3"]
    runs = make("top_erl", tasks, 1)
    assert [(panel.title, panel.measure) for panel in family_panels(runs)] == [
        ("Meta-World, 2 tasks", "success rate"),
        ("Pouring", "success rate"),
        ("Hopper Jump (dense)", "maximum height in m"),
        ("Box Pushing (dense)", "success rate"),
        ("Box Pushing (sparse)", "success rate"),
        ("Via-point reacher", "success rate"),
    ]
    assert [panel.title for panel in task_panels(runs)][:3] == ["push", "reach", "Pouring"]
    single = [run for run in runs if run.task == "metaworld/reach-v3"]
    assert [panel.title for panel in family_panels(single)] == ["reach"]


def test_a_task_without_success_is_drawn_by_its_return(make: Make) -> None:
    (run,) = make("top_erl", [BOX_DENSE], 1)
    del run.columns["evaluation_success"]
    (panel,) = family_panels([run])
    assert panel.measure == "return"
    del run.columns["evaluation_return"]
    assert family_panels([run]) == []


def test_the_same_figure_gives_the_same_bytes(make: Make, tmp_path: Path) -> None:
    runs = make("top_erl", [BOX_DENSE], 1)
    first, second = (overview(runs, tmp_path / name) for name in ("a.b", "c"))
    assert [path.name for path in first] == ["a.b.png", "a.b.pdf"]  # a dot in a name is no ending
    for one, other, start in zip(first, second, (b"\x89PNG", b"%PDF"), strict=True):
        assert one.read_bytes() == other.read_bytes()
        assert one.read_bytes().startswith(start)
        assert one.stat().st_size > 10_000


def test_a_figure_that_cannot_be_written(tmp_path: Path) -> None:
    from matplotlib.figure import Figure

    with drawing(), pytest.raises(UserError, match=r"Cannot write .*no/such/a.png: No such file"):
        save(Figure(), tmp_path / "no" / "such" / "a")


def test_drawing_needs_matplotlib(monkeypatch: pytest.MonkeyPatch, compared: list[RunRecord], tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"Drawing figures needs the package 'matplotlib': pip install"):
        overview(compared, tmp_path / "a")
