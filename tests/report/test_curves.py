"""Learning curves are read from run folders alone."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from top_erl.errors import UserError
from top_erl.report.curves import _draw, curve, group_runs, plot_runs, plotting_available

pytest.importorskip("matplotlib")

HEADER = "iteration,env_steps,evaluation_return,evaluation_success,critic_loss,entropy"


def _run(folder: Path, rows: list[str], header: str = HEADER, **config: Any) -> Path:
    folder.mkdir()
    settings = {"task": "top_erl/ViaPointReacher-v0", "method": "top_erl", "seed": 0, **config}
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    (folder / "metrics.csv").write_text("\n".join([header, *rows]) + "\n")
    return folder


def _rows(count: int, offset: int = 0) -> list[str]:
    return [
        f"{i},{100 * i + offset},{-10 / i if i % 2 else ''},{0.1 * i if i % 2 else ''},{1 / i},3"
        for i in range(1, count)
    ]


def test_seeds_of_one_setting_are_one_group(tmp_path: Path) -> None:
    folders = [
        _run(tmp_path / "a", _rows(3), seed=0),
        _run(tmp_path / "b", _rows(5), seed=1),
        _run(tmp_path / "c", _rows(3), seed=0, algorithm={"learn": {"critic_rate": 1}}),
    ]
    groups, skipped = group_runs(folders)
    assert [(group.label, group.setting, len(group.runs)) for group in groups] == [
        ("top_erl (2 seeds)", "top_erl", 2),
        ("top_erl · c (1 seed)", "top_erl · c", 1),
    ]
    assert not skipped
    assert [len(run) for run in groups[0].runs] == [2, 4]


def test_a_curve_has_the_points_that_were_measured(tmp_path: Path) -> None:
    (group,), _ = group_runs([_run(tmp_path / "a", _rows(4))])
    steps, values = curve(group.runs[0], "evaluation_return")
    np.testing.assert_allclose(steps, [100, 300])
    np.testing.assert_allclose(values, [-10, -10 / 3])
    for empty in curve(group.runs[0], "nothing"):
        assert empty.shape == (0,)


@pytest.mark.parametrize("suffix", ["png", "pdf", "svg"])
def test_pictures(tmp_path: Path, suffix: str) -> None:
    folders = [
        _run(tmp_path / "a", _rows(9), seed=0),
        _run(tmp_path / "b", _rows(6, offset=30), seed=1),  # shorter, and evaluated at other steps
        _run(tmp_path / "c", _rows(70), task="other:Task"),
    ]
    output = tmp_path / f"picture.{suffix}"
    plot_runs(folders, output)
    start = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}[suffix]
    assert output.read_bytes().startswith(start)
    assert output.stat().st_size > 5000


def test_a_mean_ends_where_the_first_run_ends(tmp_path: Path) -> None:
    from matplotlib.figure import Figure

    (group,), _ = group_runs(
        [
            _run(tmp_path / "a", ["1,100,-4,0,1,3", "2,200,-3,0,1,3"], seed=0),
            _run(tmp_path / "b", ["1,100,-2,0,1,3", "2,200,-1,0,1,3", "3,300,0,0,1,3"], seed=1),
        ]
    )
    axis = Figure().subplots()
    _draw(axis, group, "evaluation_return", "#2563eb")
    mean, short, long = (np.asarray(line.get_ydata()) for line in axis.lines)
    np.testing.assert_array_equal(mean, [-3, -2, np.nan])
    np.testing.assert_array_equal(long, [np.nan, -1, 0])
    np.testing.assert_array_equal(short, [np.nan, -3, np.nan])


def test_columns_and_colours_can_be_chosen(tmp_path: Path) -> None:
    run = _run(tmp_path / "a", _rows(9))
    plot_runs([run], tmp_path / "a.svg", {"entropy": "entropy", "nothing": "-"}, {"top_erl": "#123456"})
    text = (tmp_path / "a.svg").read_text()
    assert "#123456" in text
    assert "axes_1" in text
    assert "axes_2" not in text
    with pytest.raises(UserError, match="no run has measured nothing yet"):
        plot_runs([run], tmp_path / "b.svg", {"nothing": "-"})


def test_runs_with_missing_columns(tmp_path: Path) -> None:
    """A task without success, a run stopped before its first evaluation, one with a single row."""
    without = "iteration,env_steps,evaluation_return,critic_loss"
    folders = [
        _run(tmp_path / "a", ["1,100,-3,0.5", "2,200,,0.4"], header=without),
        _run(tmp_path / "b", ["1,100,,0.5"], header=without, seed=1),
        _run(tmp_path / "c", ["1,100,-3,0.1,0.5,3"], seed=2, scale="paper"),
    ]
    plot_runs(folders, tmp_path / "all.png")
    plot_runs(folders[1:2], tmp_path / "one.png")
    assert (tmp_path / "one.png").stat().st_size < (tmp_path / "all.png").stat().st_size


def test_numbers_that_are_not_finite(tmp_path: Path) -> None:
    plot_runs([_run(tmp_path / "a", ["1,100,nan,0.1,inf,3", "2,200,-3,0.1,0.5,3"])], tmp_path / "all.png")


@pytest.mark.parametrize("text", [None, "", HEADER, f"{HEADER}\n", f"{HEADER}\n1,100"])
def test_a_run_without_numbers_is_left_out_and_named(tmp_path: Path, text: str | None) -> None:
    folder, sound = _run(tmp_path / "a", []), _run(tmp_path / "b", _rows(3))
    (folder / "metrics.csv").unlink() if text is None else (folder / "metrics.csv").write_text(text)
    (group,), skipped = group_runs([folder, sound])
    assert len(group.runs) == 1
    assert skipped == {folder: "has no numbers yet (metrics.csv is missing or empty)"}
    with pytest.raises(UserError, match=r"nothing to draw. .*a has no numbers yet .metrics.csv is missing or empty"):
        plot_runs([folder], tmp_path / "none.png")


def test_damaged_runs_are_left_out_and_named(tmp_path: Path) -> None:
    damaged = _run(tmp_path / "damaged", ["1,100,-3,0.1,0.5,3", "2,x,-3,0.1,0.5,3"])
    (tmp_path / "file").write_text("no folder")
    sound = _run(tmp_path / "sound", _rows(3))
    (group,), skipped = group_runs([damaged, tmp_path / "file", tmp_path / "nowhere", sound])
    assert len(group.runs) == 1
    assert "metrics.csv is damaged in line 3" in skipped[damaged]
    assert all("is not a run folder" in skipped[tmp_path / name] for name in ("file", "nowhere"))


def test_a_run_that_is_named_twice_counts_once(tmp_path: Path) -> None:
    run = _run(tmp_path / "a", _rows(3))
    (tmp_path / "link").symlink_to(run)
    (group,), _ = group_runs([run, run, tmp_path / "link", tmp_path / "a" / ".." / "a"])
    assert group.label == "top_erl (1 seed)"
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    (group,), skipped = group_runs([run, tmp_path / "circle"])
    assert list(skipped) == [tmp_path / "circle"]


def test_each_task_has_a_row_of_its_own(tmp_path: Path) -> None:
    folders = [
        _run(tmp_path / "a0", _rows(9), seed=0),
        _run(tmp_path / "a1", _rows(9), seed=1),
        _run(
            tmp_path / "b0", ["1,100,-3,0.5"], "iteration,env_steps,evaluation_return,critic_loss", task="other/Task-v0"
        ),
    ]
    plot_runs(folders, tmp_path / "two.svg")
    text = (tmp_path / "two.svg").read_text()
    for words in (
        "top_erl/ViaPointReacher-v0",
        "other/Task-v0",
        "top_erl (2 seeds)",
        "top_erl (1 seed)",
        "line: mean of the seeds · shading: from the lowest to the highest",
    ):
        assert f"<!-- {words}" in text  # the svg spells out what its shapes say
    assert text.count('id="axes_') == 6  # four panels, and the two that the other task measures
    plot_runs(folders[2:], tmp_path / "one.svg")
    assert "shading" not in (tmp_path / "one.svg").read_text()  # there is none


def test_nothing_to_draw(tmp_path: Path) -> None:
    folder = _run(tmp_path / "a", ["1,100"], header="iteration,env_steps")
    with pytest.raises(UserError, match=r"nothing to draw: no run has measured evaluation_success or"):
        plot_runs([folder], tmp_path / "all.png")


@pytest.mark.parametrize("text", ["[1, 2]", "method: top_erl", "7", ""])
def test_a_configuration_that_says_nothing(tmp_path: Path, text: str) -> None:
    folder = _run(tmp_path / "a", _rows(3))
    (folder / "config.yaml").write_text(text)
    groups, skipped = group_runs([folder])
    assert not groups
    assert "does not say which method and task" in skipped[folder]


@pytest.mark.parametrize("output", ["no/such/folder/a.png", "a.nonsense"])
def test_a_picture_that_cannot_be_written(tmp_path: Path, output: str) -> None:
    with pytest.raises(UserError, match="Cannot write"):
        plot_runs([_run(tmp_path / "a", _rows(3))], tmp_path / output)
    from matplotlib import pyplot

    assert not pyplot.get_fignums()  # the figure is closed all the same


def test_drawing_needs_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert plotting_available()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert not plotting_available()
    with pytest.raises(
        UserError, match=r"Plotting needs the package .*: pip install -c constraints.txt -e '.\[report\]'"
    ):
        plot_runs([], tmp_path / "a.png")
