"""What a set of runs comes to, and the tables of it."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.report.folders import write_run
from top_erl.errors import UserError
from top_erl.report.records import collect
from top_erl.report.statistics import iqm, probability_of_improvement
from top_erl.report.summary import Summary, reached, summarize
from top_erl.report.tables import MISSING, Table, excluded_table, interval, plain_lines, score_table, summary_tables

CURVES = {  # by method, task and seed
    "ppo": {"a/b": ([0.1, 0.2], [0.1, 0.5]), "c/d": ([0.0, 0.0], [0.0, 0.1])},
    "top_erl": {"a/b": ([0.5, 1.0], [0.8, 0.9]), "c/d": ([0.0, 0.5], [0.1, 0.2])},
}


def write_runs(folder: Path) -> None:
    for method, tasks in CURVES.items():
        for task, curves in tasks.items():
            for seed, curve in enumerate(curves):
                write_run(folder / f"{method}-{task[0]}-{seed}", curve, method=method, task=task, seed=seed)


@pytest.fixture
def summary(tmp_path: Path) -> Summary:
    write_runs(tmp_path)
    (found,) = summarize(collect([tmp_path]).runs)
    return found


def test_final_scores_are_pooled_over_tasks_and_seeds(summary: Summary) -> None:
    assert (summary.column, summary.score, summary.source) == (
        *("evaluation_success", "success at the last step", "last evaluation"),
    )
    assert (summary.tasks, summary.reference, summary.notes) == (("a/b", "c/d"), "top_erl", ())
    ours, theirs = summary.labels
    assert (ours.label, theirs.label) == ("top_erl", "ppo")  # the reference comes first
    scores, others = [[1.0, 0.9], [0.5, 0.2]], [[0.2, 0.5], [0.0, 0.1]]
    assert ours.iqm == iqm(scores)  # type: ignore[arg-type]
    assert ours.iqm.value == pytest.approx((0.9 + 0.5) / 2)
    assert ours.mean.value == pytest.approx(0.65)
    assert ours.median.value == pytest.approx((0.95 + 0.35) / 2)
    assert ours.gap is not None
    assert ours.gap.value == pytest.approx(0.35)
    assert ours.improvement is None
    assert theirs.improvement == probability_of_improvement(scores, others)  # type: ignore[arg-type]
    assert theirs.improvement.value == 1.0
    assert (ours.runs, ours.unfinished, ours.seeds) == (4, 0, (2, 2))
    assert [(task.task, task.score, task.seeds) for task in ours.worst] == [("c/d", 0.35, 2), ("a/b", 0.95, 2)]


def test_runs_that_never_reach_a_level_count_as_later_than_all_others(tmp_path: Path, summary: Summary) -> None:
    half, most, nearly = summary.labels[0].reached
    assert (half.reached, half.runs, half.steps, half.minutes) == (3, 4, 1500.0, 0.75)  # 1000, 1000, 2000, never
    assert (most.reached, most.steps) == (2, None)  # 1000, 2000, never, never: the middle is not reached
    assert (nearly.level, nearly.reached, nearly.minutes) == (0.9, 2, None)
    runs = [run for run in collect([tmp_path]).runs if (run.method, run.task) == ("top_erl", "a/b")]
    assert reached(runs, 0.9).steps == 2000.0


def test_fresh_contexts_count_if_all_runs_have_played_them(tmp_path: Path) -> None:
    write_run(tmp_path / "a", [0.1], fresh=[1.0, 0.0])
    write_run(tmp_path / "b", [0.3], seed=1, fresh=[1.0, 1.0])
    (fresh,) = summarize(collect([tmp_path]).runs)
    assert (fresh.source, fresh.labels[0].mean.value) == ("mean on 2 fresh contexts", 0.75)
    write_run(tmp_path / "c", [0.8], seed=2)
    (mixed,) = summarize(collect([tmp_path]).runs)
    assert (mixed.source, mixed.labels[0].mean.value) == ("last evaluation", pytest.approx(0.4))


def test_only_tasks_with_the_same_score_are_pooled(tmp_path: Path) -> None:
    write_run(tmp_path / "a", [0.1])
    write_run(tmp_path / "any", [0.6], task="e/f")
    header, line = (tmp_path / "any/metrics.csv").read_text().split()
    (tmp_path / "any/metrics.csv").write_text(f"{header},evaluation_success_any\n{line},0.7\n")
    write_run(tmp_path / "h", [1.7], task="hopper/h", column="evaluation_max_height")
    found = {summary.score: summary for summary in summarize(collect([tmp_path]).runs)}
    assert {score: summary.tasks for score, summary in found.items()} == {
        "success at the last step": ("a/b", "e/f"),
        "maximum height in m": ("hopper/h",),
        "success at any step": ("e/f",),
    }
    height = found["maximum height in m"].labels[0]
    assert (height.gap, height.reached, height.mean.value) == (None, (), 1.7)
    assert found["success at any step"].labels[0].mean.value == 0.7


def test_methods_on_other_tasks_and_single_seeds_are_said(tmp_path: Path) -> None:
    write_run(tmp_path / "a", [0.1], method="tce")
    write_run(tmp_path / "b", [0.2], method="sac", task="c/d")
    (found,) = summarize(collect([tmp_path]).runs)
    assert found.reference == "tce"  # there is no top_erl
    assert found.labels[1].improvement is None
    assert len(found.notes) == 2
    assert found.notes[0].startswith("Not every method has runs on all 2 tasks: tce (1), sac (1).")
    assert found.notes[1].startswith("Tasks with a single seed")


def test_a_run_that_never_measured_the_score_is_left_out(tmp_path: Path) -> None:
    write_run(tmp_path / "a", [0.1])
    write_run(tmp_path / "b", [-3.0], seed=1, column="evaluation_return")
    (found,) = summarize(collect([tmp_path]).runs)
    assert found.labels[0].runs == 1
    assert found.notes[0] == "1 runs have never measured evaluation_success and are left out."


def test_runs_that_must_not_be_pooled_are_refused(tmp_path: Path) -> None:
    write_run(tmp_path / "a", [0.1])
    write_run(tmp_path / "b", [0.1], seed=1, fingerprint={"horizon": 7})
    with pytest.raises(UserError, match="horizon"):
        summarize(collect([tmp_path]).runs)
    assert summarize([]) == []


# ---------------------------------------------------------------------- tables


def test_tables_of_a_summary(summary: Summary) -> None:
    scores, soon, worst = summary_tables(summary)
    assert scores.title == "Success at the last step: 2 tasks"
    assert scores.caption.startswith("A run's score is its last evaluation.")
    assert scores.header[-1] == "top_erl is better"
    ours, theirs = scores.rows
    assert [cell.text for cell in ours[:4]] == ["top_erl", "4", "2", "2"]
    assert ours[4].text.startswith("0.70 [0.")
    assert ours[4].value == pytest.approx(0.7)
    assert (ours[-1].text, theirs[-1].text) == (MISSING, "1.00 [1.00, 1.00]")
    assert soon.header[1:3] == ("steps to 50 %", "minutes to 50 %")
    assert [cell.text for cell in soon.rows[0][1:5]] == [
        *("1,500 (3 of 4)", "0.8 (3 of 4)", f"{MISSING} (2 of 4)", f"{MISSING} (2 of 4)"),
    ]
    assert (soon.rows[0][1].value, soon.rows[0][3].value) == (1500.0, math.inf)  # what is never reached sorts last
    assert [cell.text for cell in worst.rows[0]] == ["top_erl", "1", "c/d", "0.35", "2"]
    assert plain_lines([worst]).splitlines()[:6:2] == [
        "### Worst tasks",
        worst.caption,
        "| method | rank | task | score | seeds |",
    ]


def test_one_task_needs_no_table_of_tasks(tmp_path: Path) -> None:
    write_run(tmp_path / "h", [1.7], task="hopper/h", column="evaluation_max_height")
    (summary,) = summarize(collect([tmp_path]).runs)
    (table,) = summary_tables(summary)
    assert table.title == "Maximum height in m: hopper/h"
    assert table.header == ("method", "runs", "tasks", "seeds", "IQM", "mean", "top_erl is better")
    assert score_table(summary).rows[0][4].text == f"1.70 [{MISSING}]"  # one seed has no interval


def test_what_was_left_out_is_a_table(tmp_path: Path) -> None:
    write_run(tmp_path / "a|b", [0.1])
    (tmp_path / "a|b/metrics.csv").unlink()
    table = excluded_table(collect([tmp_path]))
    assert table.markdown().splitlines()[-1] == f"| {tmp_path}/a\\|b | it has no metrics.csv |"
    assert interval(None).value == -math.inf
    assert Table("", "", ("x",), ()).markdown() == "| x |\n| --- |"
