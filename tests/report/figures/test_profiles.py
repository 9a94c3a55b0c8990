"""Performance profiles and intervals, as drawn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.report.figures.conftest import Make
from tests.report.synthetic import BOX_DENSE, BOX_SPARSE, HOPPER
from top_erl.report.figures.profiles import profiles_figure
from top_erl.report.figures.scores import scores_by_task
from top_erl.report.figures.style import NothingToDraw
from top_erl.report.records import SUCCESS, RunRecord
from top_erl.report.statistics import iqm, optimality_gap
from top_erl.report.summary import final_scores, summarize

pytest.importorskip("matplotlib")


def test_a_profile_is_the_fraction_of_runs_above(compared: list[RunRecord]) -> None:
    figure = profiles_figure(compared)
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    assert list(lines) == ["TOP-ERL", "BBRL-Cov", "SAC"]
    scores = np.array([run.last() for run in compared if run.method == "sac" and run.last() is not None])
    assert len(scores) == 8  # the jump has no success
    above = [np.mean(scores > tau) for tau in lines["SAC"].get_xdata()]
    np.testing.assert_allclose(lines["SAC"].get_ydata(), above)


def test_every_statistic_has_a_row_per_method(compared: list[RunRecord]) -> None:
    _, *bars = profiles_figure(compared).axes
    assert [axis.get_title(loc="left") for axis in bars] == ["median", "IQM", "mean", "optimality gap"]
    assert [label.get_text() for label in bars[0].get_yticklabels()] == ["TOP-ERL", "BBRL-Cov", "SAC"]
    assert bars[0].yaxis_inverted()  # the first one on top
    finals, _ = final_scores(compared, SUCCESS)
    scores = scores_by_task([run for run in compared if run.method == "sac"], finals)
    for axis, interval in ((bars[1], iqm(scores)), (bars[3], optimality_gap(scores))):
        bar = axis.patches[-1]  # of the last row; a method whose runs all reach the same has no bar
        assert bar.get_x() == pytest.approx(interval.low)
        assert bar.get_x() + bar.get_width() == pytest.approx(interval.high)
        assert axis.lines[2].get_xdata()[0] == pytest.approx(interval.value)


def test_only_tasks_that_all_methods_have_are_pooled(make: Make) -> None:
    runs = make("top_erl", [BOX_DENSE, BOX_SPARSE, HOPPER], 2) + make("sac", [BOX_DENSE], 2, rows=9)
    figure = profiles_figure(runs)
    words = figure.texts[0].get_text().replace("\n", " ")
    assert "4 runs: 1 task, 2 seeds." in words
    assert "Left out: 1 task that not every method has runs of." in words
    assert "2 of 4 runs are unfinished; of these the last evaluation counts." in words
    line = figure.axes[0].lines[0]
    reached = np.array([run.last() for run in runs if run.method == "top_erl" and run.task == BOX_DENSE])
    np.testing.assert_allclose(line.get_ydata(), [np.mean(reached > tau) for tau in line.get_xdata()])


def test_runs_of_ablations_are_left_out_unless_there_are_no_others(make: Make, ablated: list[RunRecord]) -> None:
    names = [line.get_label() for line in profiles_figure(ablated).axes[0].lines]
    assert names == ["V target", "Q target", "TOP-ERL, whole", "dropout 0.05", "random lengths", "50%", "5%"]
    names = [line.get_label() for line in profiles_figure([*ablated, *make("sac", [BOX_DENSE])]).axes[0].lines]
    assert names == ["SAC"]


def test_a_single_seed_has_values_without_bars(make: Make) -> None:
    _, *bars = profiles_figure(make("sac", [BOX_DENSE], 1)).axes
    assert [(len(axis.patches), len(axis.lines)) for axis in bars] == [(0, 1)] * 4


def test_no_profile_is_one_sentence(make: Make) -> None:
    for runs in ([], make("sac", [HOPPER], 1), make("tce", [BOX_DENSE], 1) + make("ppo", [BOX_SPARSE], 1)):
        with pytest.raises(NothingToDraw, match="no task with success has runs of every method"):
            profiles_figure(runs)


def test_fresh_contexts_count_as_in_the_tables(make: Make) -> None:
    runs = [replace(run, fresh={"success": [1.0, 0.0, 0.0, 0.0]}) for run in make("top_erl", [BOX_DENSE], 3)]
    figure = profiles_figure(runs)
    assert "The mean on 4 fresh contexts of every run" in figure.texts[0].get_text().replace("\n", " ")
    assert figure.axes[2].lines[0].get_xdata()[0] == 0.25  # IQM
    assert summarize(runs)[0].labels[0].iqm.value == 0.25
