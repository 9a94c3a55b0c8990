"""Figures with learning curves: what is drawn is what the statistics say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.report.figures.conftest import Make
from tests.report.synthetic import BOX_DENSE, BOX_SPARSE, HOPPER
from top_erl.report.figures.ablations import ablations_figure
from top_erl.report.figures.overview import overview_figure
from top_erl.report.figures.per_task import per_task_figure
from top_erl.report.figures.segment_lengths import segment_lengths_figure
from top_erl.report.figures.style import NothingToDraw
from top_erl.report.records import SUCCESS, RunRecord
from top_erl.report.statistics import aggregate_curve

pytest.importorskip("matplotlib")


def _lines(axis: Any) -> dict[str, Any]:
    """Named lines of axes."""
    return {line.get_label(): line for line in axis.lines}


def _words(figure: Any) -> str:
    """The footnote, on one line."""
    (text,) = figure.texts
    return str(text.get_text()).replace("\n", " ")


def test_the_overview_has_a_panel_per_family_and_one_legend(compared: list[RunRecord]) -> None:
    figure = overview_figure(compared)
    assert [axis.get_title(loc="left") for axis in figure.axes] == [
        *("Meta-World, 2 tasks", "Hopper Jump (dense)", "Box Pushing (dense)", "Box Pushing (sparse)"),
    ]
    assert [axis.get_ylabel() for axis in figure.axes] == [
        *("success rate", "maximum height in m", "success rate", "success rate"),
    ]
    assert {axis.get_xlabel() for axis in figure.axes} == {"environment steps (thousands)"}
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["TOP-ERL", "BBRL-Cov", "SAC"]
    words = _words(figure)
    assert "Meta-World, 2 tasks: 2 tasks, 2 seeds each; other panels: 2 seeds." in words
    assert "Success counts after the last step." in words
    assert "unfinished" not in words


def test_curves_and_bands_are_the_statistics_numbers(compared: list[RunRecord]) -> None:
    figure = overview_figure(compared)
    axis = figure.axes[0]
    runs = [run for run in compared if run.method == "sac" and run.task.startswith("metaworld/")]
    curve = aggregate_curve(runs, SUCCESS, "env_steps")
    line = _lines(axis)["SAC"]
    np.testing.assert_array_equal(line.get_xdata(), curve.x / 1000)
    np.testing.assert_array_equal(line.get_ydata(), curve.value)
    assert line.get_color() == "#9467bd"
    assert line.get_linestyle() == "-"
    (band,) = [each for each in axis.collections if np.allclose(each.get_facecolor()[0][:3], _rgb("#9467bd"))]
    corners = band.get_paths()[0].vertices
    for edge in (curve.low, curve.high):
        for point in np.stack([curve.x / 1000, edge], axis=1):
            assert np.isclose(corners, point).all(axis=1).any()


def _rgb(color: str) -> tuple[float, ...]:
    return tuple(int(color[place : place + 2], 16) / 255 for place in (1, 3, 5))


def test_where_runs_have_ended_a_curve_goes_on_thin_and_dotted(make: Make) -> None:
    runs = make("ppo", [BOX_DENSE], 3) + make("tce", [BOX_DENSE], 3)
    (broken,) = make("gsde", [BOX_DENSE], 1, rows=7)
    runs += [*make("sac", [BOX_DENSE], 2), replace(broken, method="sac", seed=2)]
    figure = overview_figure(runs)
    lines = _lines(figure.axes[0])
    (tail,) = [line for line in figure.axes[0].lines if line.get_label() == "_tail"]
    assert tail.get_color() == "#9467bd"
    assert tail.get_linewidth() < lines["SAC"].get_linewidth()
    assert tail.get_linestyle() == "--"  # matplotlib's word for any pattern
    np.testing.assert_array_equal(lines["SAC"].get_xdata(), [0.2, 0.8, 1.4])  # the shortest run's evaluations
    np.testing.assert_array_equal(tail.get_xdata(), [1.4, 2.0, 2.4])  # begins where the whole curve ends
    assert tail.get_ydata()[0] == lines["SAC"].get_ydata()[-1]
    assert "1 of 9 runs is unfinished; dotted, thin: some runs" in _words(figure)


def test_a_single_seed_has_no_band_and_missing_seeds_are_said(make: Make) -> None:
    runs = make("top_erl", [BOX_DENSE], 3) + make("sac", [BOX_DENSE], 1) + make("tce", [BOX_DENSE], 3)
    figure = overview_figure(runs)
    assert len(figure.axes[0].collections) == 2
    assert "Runs per curve: 3 seeds (SAC 1 seed)." in _words(figure)


def test_steps_are_counted_in_a_unit_that_fits(make: Make) -> None:
    runs = make("top_erl", [HOPPER], 1)
    for unit, name in ((1e6, "environment steps (millions)"), (1.0, "environment steps")):
        longest = runs[0].columns["env_steps"][-1]
        runs[0].columns["env_steps"] = runs[0].columns["env_steps"] / longest * 3 * unit
        figure = overview_figure(runs)
        assert figure.axes[0].get_xlabel() == name
        assert figure.axes[0].lines[0].get_xdata()[-1] == pytest.approx(3.0)


def test_per_task_has_a_panel_for_every_task(make: Make) -> None:
    tasks = [f"metaworld/task{number}-v3" for number in range(9)]
    runs = make("top_erl", [*tasks, HOPPER]) + make("sac", tasks)
    figure = per_task_figure(runs)
    assert [axis.get_title(loc="left") for axis in figure.axes] == [
        *(f"task{number}" for number in range(9)),
        "Hopper Jump (dense)",
    ]
    one = [run for run in runs if run.method == "sac" and run.task == tasks[4]]
    np.testing.assert_array_equal(
        _lines(figure.axes[4])["SAC"].get_ydata(), aggregate_curve(one, SUCCESS, "env_steps").value
    )
    assert not _lines(figure.axes[4])["SAC"].get_marker().strip("None")
    assert [axis.get_xlabel() for axis in figure.axes] == [""] * 5 + ["environment steps"] * 5
    assert [axis.get_ylabel() for axis in figure.axes] == ["success rate", *[""] * 4] * 2
    figure.draw_without_rendering()
    assert figure.axes[0].get_xticklabels()[-1].get_text().endswith("k")
    assert figure.axes[9].get_yticklabels()[0].get_text().endswith(" m")


def test_few_tasks_have_large_panels(compared: list[RunRecord]) -> None:
    figure = per_task_figure(compared)
    assert [axis.get_title(loc="left") for axis in figure.axes][:2] == ["push", "reach"]
    assert figure.axes[0].get_gridspec().get_geometry() == (2, 3)  # five panels: three and two, not four and one
    assert all(axis.get_xlabel() for axis in figure.axes)


def test_targets_are_solid_and_components_dashed(ablated: list[RunRecord]) -> None:
    figure = ablations_figure(ablated)
    panel, beside = figure.axes
    lines = _lines(panel)
    styles = {name: (line.get_color(), line.get_linestyle()) for name, line in lines.items()}
    assert styles == {
        "V target": ("#1f77b4", "-"),
        "Q target": ("#ff7f0e", "-"),
        "TOP-ERL, whole": ("#1f77b4", "--"),  # dashed only beside the V target, which is the same
        "dropout 0.05": ("#d62728", "--"),
    }
    q = [run for run in ablated if run.variant == "q"]
    np.testing.assert_array_equal(lines["Q target"].get_ydata(), aggregate_curve(q, SUCCESS, "env_steps").value)
    titles = [(each.get_title().get_text(), len(each.get_texts())) for each in beside.artists]
    assert titles == [("critic target", 2), ("components", 2)]
    alone = ablations_figure([run for run in ablated if run.variant in ("full", "dropout")])
    assert _lines(alone.axes[0])["TOP-ERL, whole"].get_linestyle() == "-"


def test_segment_lengths_show_curves_and_the_last_evaluation(ablated: list[RunRecord]) -> None:
    from scipy.stats import trim_mean

    figure = segment_lengths_figure(ablated)
    left, right = figure.axes
    assert list(_lines(left)) == ["random lengths", "50%", "5%"]
    assert [label.get_text() for label in right.get_xticklabels()] == ["5%", "50%"]

    def reached(variant: str) -> float:
        return float(trim_mean([run.last() for run in ablated if run.variant == variant], 0.25))

    (joined,) = [line for line in right.lines if line.get_color() == "#9aa5ab"]
    np.testing.assert_allclose(joined.get_ydata(), [reached("5%"), reached("50%")])
    np.testing.assert_allclose(_lines(right)["_random"].get_ydata(), reached("random"))


def test_segment_lengths_that_are_rounded_are_named(ablated: list[RunRecord], make: Make) -> None:
    assert "whole tokens" not in _words(segment_lengths_figure(ablated))

    def fixed(percent: int, stride: int) -> list[RunRecord]:
        segments = {"kind": "fixed_length", "fraction": percent / 100}
        return make(
            "top_erl", [BOX_DENSE], 1, f"{percent}%", algorithm={"collect": {"stride": stride}, "segments": segments}
        )

    laptop = [run for percent in (50, 20, 10, 5) for run in fixed(percent, 4)]  # 25 tokens
    words = _words(segment_lengths_figure(laptop))
    assert "Segments are whole tokens: 5% is 4%, 10% is 8%, 50% is 48%." in words


@pytest.mark.parametrize(
    ("figure", "words"),
    [
        (overview_figure, "nothing to compare"),
        (per_task_figure, "no task to draw"),
        (ablations_figure, "no runs of the ablations of targets or components"),
        (segment_lengths_figure, "no runs of the ablation of segment lengths"),
    ],
)
def test_nothing_to_draw_is_one_sentence(figure: Any, words: str, make: Make) -> None:
    others = make("top_erl", [BOX_SPARSE], 1, "random")  # an ablation's, but of no length
    for runs in ([], others if "segment" in words or "compare" in words else []):
        with pytest.raises(NothingToDraw, match=words) as error:
            figure(runs)
        assert str(error.value).count(".") == 1
