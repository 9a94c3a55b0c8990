"""Statistics over tasks and seeds against SciPy, closed forms, values worked out by hand, and simulation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from tests.report.folders import write_run
from top_erl.report.bootstrap import (
    Array,
    Interval,
    interval_ends,
    interval_level,
    resample_indices,
    student_cdf,
    student_quantile,
)
from top_erl.report.records import RunRecord, collect
from top_erl.report.statistics import (
    aggregate_curve,
    interquartile_mean,
    iqm,
    mean,
    median,
    optimality_gap,
    performance_profile,
    pooled_mean,
    probability_of_improvement,
)

UNEQUAL = [np.array([0.2, 0.9, 0.4]), np.array([0.5]), np.array([0.1, 0.1, 0.7, 1.0, 0.3])]


def random_scores(tasks: int, seeds: int) -> Array:
    return np.random.default_rng(3).random((tasks, seeds))


# ---------------------------------------------------------------------- values


@pytest.mark.parametrize("scores", [random_scores(10, 8), random_scores(3, 3), random_scores(1, 5), UNEQUAL])
def test_iqm_and_its_interval_are_those_of_scipy(scores: Array | list[Array]) -> None:
    """Resample by resample, task by task, with the same draws; quantiles and Student's t by SciPy too."""
    tasks = [np.asarray(task) for task in scores]
    sizes = tuple(len(task) for task in tasks)
    pooled = np.concatenate(tasks)
    found = iqm(scores, resamples=2000, seed=5)
    assert found.value == pytest.approx(scipy.stats.trim_mean(pooled, 0.25), abs=1e-12)
    draws = [scipy.stats.trim_mean(pooled[chosen], 0.25) for chosen in resample_indices(sizes, 2000, 5)]
    runs, strata = sum(n for n in sizes if n > 1), sum(n > 1 for n in sizes)
    t = scipy.stats.t.ppf(0.975, runs - strata)
    level = scipy.stats.norm.cdf(-t * math.sqrt(runs / (runs - strata)))
    ends = scipy.stats.mstats.mquantiles(draws, [level, 1 - level], alphap=1, betap=1)
    assert (found.low, found.high) == pytest.approx(tuple(ends), abs=1e-12)


def test_resamples_stay_within_their_task() -> None:
    indices = resample_indices((3, 1, 4), 500, 0)
    assert indices.shape == (500, 8)
    for columns, chosen in {(0, 1, 2): {0, 1, 2}, (3,): {3}, (4, 5, 6, 7): {4, 5, 6, 7}}.items():
        assert set(indices[:, columns].ravel().tolist()) == chosen
    assert np.array_equal(indices, resample_indices.__wrapped__((3, 1, 4), 500, 0))
    assert not np.array_equal(indices, resample_indices((3, 1, 4), 500, 1))


def test_statistics_worked_out_by_hand() -> None:
    scores = np.array([[0.0, 0.2, 0.4, 1.0], [0.6, 0.8, 1.0, 2.0]])
    assert iqm(scores).value == pytest.approx((0.4 + 0.6 + 0.8 + 1.0) / 4)
    assert mean(scores).value == pytest.approx(6.0 / 8)
    assert median(scores).value == pytest.approx((0.4 + 1.1) / 2)
    assert optimality_gap(scores).value == pytest.approx((1.0 + 0.8 + 0.6 + 0.4 + 0.2) / 8)
    assert optimality_gap(scores, gamma=2.0).value == pytest.approx(2.0 - 0.75)
    assert median([np.array([0.0]), np.array([0.2, 0.4]), np.array([1.0, 1.0, 1.0])]).value == pytest.approx(0.3)
    assert mean(UNEQUAL).value == pytest.approx(4.2 / 9)  # every run counts once


def test_probability_of_improvement_worked_out_by_hand() -> None:
    ours = [np.array([1.0, 2.0]), np.array([0.5])]
    theirs = [np.array([0.0, 1.0, 3.0]), np.array([0.5, 0.9])]
    found = probability_of_improvement(ours, theirs)
    assert found.value == pytest.approx(((1.5 + 2.0) / 6 + 0.25) / 2)
    assert found.low <= found.value <= found.high
    turned = probability_of_improvement(theirs, ours)
    assert turned.value == pytest.approx(1.0 - found.value)
    u = scipy.stats.mannwhitneyu(random_scores(1, 9)[0], random_scores(2, 7)[1]).statistic
    assert probability_of_improvement(random_scores(1, 9), random_scores(2, 7)[1:]).value == pytest.approx(u / 63)
    with pytest.raises(ValueError, match="same tasks"):
        probability_of_improvement(ours, theirs[:1])


def test_a_difference_of_means_has_the_interval_of_the_closed_form() -> None:
    """The bootstrap of a mean has the variance sum (n - 1)/n s^2 / n; expanded, the interval is that of Student's t."""
    scores = np.random.default_rng(0).normal(size=(40, 8))
    found = mean(scores, resamples=20_000)
    error = math.sqrt((scores.var(axis=1, ddof=1) / 8).sum()) / 40
    half = scipy.stats.t.ppf(0.975, 40 * 7) * error
    assert (found.low, found.high) == pytest.approx((found.value - half, found.value + half), abs=0.05 * half)


def test_performance_profile_worked_out_by_hand() -> None:
    profile = performance_profile(UNEQUAL, np.array([0.0, 0.1, 0.45, 1.0]))
    assert profile.value == pytest.approx([1.0, 7 / 9, 4 / 9, 0.0])
    assert np.all(profile.low <= profile.value)
    assert np.all(profile.value <= profile.high)
    assert profile.high[3] == 0.0
    above = [np.asarray(task > 0.45, dtype=float) for task in UNEQUAL]
    assert mean(above).low == profile.low[2]
    assert len(performance_profile(UNEQUAL).thresholds) == 101


@pytest.mark.parametrize("statistic", [iqm, mean, median, optimality_gap])
def test_repeats_bit_by_bit_and_knows_its_limits(statistic: Callable[..., Interval]) -> None:
    scores = random_scores(4, 3)
    assert statistic(scores) == statistic(scores)
    assert statistic(scores, seed=1) != statistic(scores)
    alone = statistic([np.array([0.5]), np.array([0.7])])
    assert np.isnan([alone.low, alone.high]).all()
    for nothing in ([], [np.array([])], [np.array([np.nan])]):
        with pytest.raises(ValueError, match="at least one task"):
            statistic(nothing)


@pytest.mark.parametrize("freedom", [1, 2, 3, 7, 70, 2801])
def test_student_is_that_of_scipy(freedom: int) -> None:
    for t in (0.0, 0.3, 1.0, 2.5, 20.0):
        assert student_cdf(t, freedom) == pytest.approx(scipy.stats.t.cdf(t, freedom), abs=1e-13)
    for probability in (0.6, 0.975, 0.9995):
        expected = scipy.stats.t.ppf(probability, freedom)
        assert student_quantile(probability, freedom) == pytest.approx(expected, rel=1e-10)


def test_levels_of_the_interval() -> None:
    assert interval_level((8,) * 10) == pytest.approx(0.016498, abs=1e-6)
    assert interval_level((8,) * 10 + (1,) * 5) == interval_level((8,) * 10)
    assert interval_level((2000,)) == pytest.approx(0.025, abs=1e-4)


# ---------------------------------------------------------------------- coverage


def _normal(generator: np.random.Generator, seeds: int) -> Array:
    return np.linspace(0.0, 1.0, 10)[:, None] + 0.3 * generator.normal(size=(10, seeds))


def _success(generator: np.random.Generator, seeds: int) -> Array:
    """Success rates over 20 episodes; tasks from hard to easy."""
    easy = np.linspace(0.5, 9.5, 10)[:, None]
    return generator.binomial(20, generator.beta(easy, 10.0 - easy, size=(10, seeds))) / 20


@pytest.mark.parametrize("statistic", [interquartile_mean, pooled_mean])
@pytest.mark.parametrize("draw", [_normal, _success])
def test_the_interval_covers_the_truth_in_95_of_100_cases(
    draw: Callable[[np.random.Generator, int], Array], statistic: Callable[..., Array]
) -> None:
    """1000 data sets of 10 tasks and 8 seeds; the truth is that of very many seeds. Plain quantiles do worse."""
    generator = np.random.default_rng(7)
    truth = float(statistic(draw(generator, 200_000).ravel()))
    sizes = (8,) * 10
    covered = plainly = 0
    for _ in range(1000):
        pooled = draw(generator, 8).ravel()
        drawn = statistic(pooled[resample_indices(sizes, 1000, 0)])
        low, high = interval_ends(drawn, sizes)
        covered += low <= truth <= high
        low, high = np.quantile(drawn, (0.025, 0.975))
        plainly += low <= truth <= high
    assert 930 <= covered <= 970
    assert abs(plainly - 950) > abs(covered - 950)


# ---------------------------------------------------------------------- curves


def _runs(folder: Path, curves: dict[tuple[str, int], list[float]], **options: int) -> list[RunRecord]:
    for (task, seed), scores in curves.items():
        write_run(folder / f"{task}-{seed}", scores, task=task, seed=seed, **options)  # type: ignore[arg-type]
    return collect([folder]).runs


def test_a_curve_of_equal_runs_is_the_statistic_at_each_evaluation(tmp_path: Path) -> None:
    scores = np.random.default_rng(1).random((3, 4, 6))  # [tasks, seeds, points]
    cells = itertools.product(range(3), range(4))
    runs = _runs(tmp_path, {(f"t{task}", seed): scores[task, seed].tolist() for task, seed in cells})
    curve = aggregate_curve(runs, "evaluation_success")
    assert curve.x.tolist() == [1000 * i for i in range(1, 7)]
    for point in range(6):
        expected = iqm(scores[:, :, point])
        assert (curve.value[point], curve.low[point], curve.high[point]) == (
            expected.value,
            expected.low,
            expected.high,
        )
    assert curve.runs_at_each_point.tolist() == [12] * 6
    assert curve.runs == 12
    assert aggregate_curve(runs, "evaluation_success", "episodes").x.tolist() == [10 * i for i in range(1, 7)]
    assert aggregate_curve(runs, "evaluation_success", "minutes").x.tolist() == [0.5 * i for i in range(1, 7)]
    pooled = aggregate_curve(runs, "evaluation_success", statistic="mean")
    assert pooled.value == pytest.approx(scores.mean(axis=(0, 1)))


def test_a_curve_goes_on_with_half_of_the_runs_and_says_so(tmp_path: Path) -> None:
    runs = _runs(tmp_path, {("a", 0): [0.0] * 2, ("a", 1): [0.2] * 4, ("b", 0): [0.4] * 3, ("b", 1): [0.6] * 5})
    curve = aggregate_curve(runs, "evaluation_success", statistic="mean")
    assert curve.x.tolist() == [1000, 2000, 3000, 4000]
    assert curve.runs_at_each_point.tolist() == [4, 4, 3, 2]
    assert curve.value == pytest.approx([0.3, 0.3, 0.4, 0.4])
    assert np.isnan(curve.low).tolist() == [False, False, False, True]  # one seed of each task is left


def test_runs_with_other_evaluations_are_interpolated_within_their_own(tmp_path: Path) -> None:
    write_run(tmp_path / "fine", [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7])  # at 1000, 2000, ... 8000
    write_run(tmp_path / "coarse", [0.0, 0.3, 0.6], seed=1, steps=3000)  # at 3000, 6000, 9000
    curve = aggregate_curve(collect([tmp_path]).runs, "evaluation_success", statistic="mean")
    assert (curve.x[0], curve.x[-1], len(curve.x)) == (3000, 9000, 100)
    both = curve.x <= 8000
    assert curve.value[both] == pytest.approx(((curve.x[both] - 1000) / 10000 + (curve.x[both] - 3000) / 10000) / 2)
    assert curve.value[~both] == pytest.approx((curve.x[~both] - 3000) / 10000)
    assert curve.runs_at_each_point.tolist() == [2] * both.sum() + [1] * (~both).sum()


def test_a_curve_of_what_was_never_measured_is_empty(tmp_path: Path) -> None:
    curve = aggregate_curve(_runs(tmp_path, {("a", 0): [0.1]}), "evaluation_return")
    assert (len(curve.x), curve.runs) == (0, 0)


def test_one_run_alone_has_no_band(tmp_path: Path) -> None:
    curve = aggregate_curve(_runs(tmp_path, {("a", 0): [0.1, 0.4]}), "evaluation_success")
    assert curve.value.tolist() == [0.1, 0.4]
    assert np.isnan([curve.low, curve.high]).all()


def test_a_run_that_ended_because_it_had_learned_keeps_its_last_value(tmp_path: Path) -> None:
    """Else a curve of several would fall as soon as the first of them is done."""
    config = {"total_env_steps": 4000, "evaluation": {"stop_at_success": 1.0}}
    write_run(tmp_path / "a", [1.0, 1.0], seed=0, config=config)
    write_run(tmp_path / "b", [0.0, 0.2, 0.4, 0.6], seed=1, config=config)
    curve = aggregate_curve(collect([tmp_path]).runs, "evaluation_success", statistic="mean", resamples=10)
    assert curve.x.tolist() == [1000, 2000, 3000, 4000]
    assert curve.value.tolist() == pytest.approx([0.5, 0.6, 0.7, 0.8])
    assert curve.runs_at_each_point.tolist() == [2, 2, 2, 2]
