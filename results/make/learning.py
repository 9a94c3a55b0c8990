"""Tables of trained runs: what was reached, after how long, with which seeds."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from itertools import groupby
from pathlib import Path

import numpy as np

from results.make.markdown import MISSING, number, several, span, table
from results.make.runs import Run, read_run, read_runs

METHODS = ("top_erl", "tce", "bbrl_cov", "bbrl_std", "sac", "ppo")
"""Order of the comparison."""

COMPARISONS = {
    "via_point_reacher": ("via-point arm", 400_000),
    "reach": ("`metaworld/reach-v3`", 500_000),
}
"""Folders of `claims/comparison/`: what the task is called, and the steps that each method was given."""


def via_point(results: Path) -> str:
    """`make train`: success, minutes in all and minutes to 0.8, a row per seed."""
    rows = [_trained(run, 0.8) for run in read_runs(results / "claims/via_point_reacher", "seed*")]
    return table(("seed", "success on 100 fresh contexts", "minutes", "minutes to 0.8", "control steps"), rows)


def backends(results: Path) -> str:
    """The same with each of the critic's backends; dashes until `claims/via_point_reacher_plain/` holds runs."""
    rows = []
    for backend, folder in {"fast": "via_point_reacher", "plain": "via_point_reacher_plain"}.items():
        runs = read_runs(results / "claims" / folder, "seed*")
        rows.append(
            (
                f"`{backend}`",
                ", ".join(str(run.seed) for run in runs) or MISSING,
                several(run.fresh_mean("success") for run in runs),
                several((run.minutes for run in runs), 1),
                several((run.minutes_to(0.8) for run in runs), 1),
            )
        )
    return table(("backend", "seeds", "success on 100 fresh contexts", "minutes", "minutes to 0.8"), rows)


def metaworld(results: Path) -> str:
    """The Meta-World tasks that were trained at laptop scale."""
    rows = [(f"`{run.task}`", *_trained(run, 0.9)) for run in read_runs(results / "claims/metaworld")]
    header = ("task", "seed", "success on 100 fresh contexts", "minutes", "minutes to 0.9", "control steps")
    return table(header, rows)


def contact(results: Path) -> str:
    """The example of a contact task: before and after training, a row per seed."""
    rows = [
        (str(run.seed), number(run.rows[0].get("evaluation_success")), *_trained(run, 0.5)[1:])
        for run in read_runs(results / "claims/fetch_push")
    ]
    header = ("seed", "at the start", "success on 100 fresh contexts", "minutes", "minutes to 0.5", "control steps")
    return table(header, rows)


def _trained(run: Run, wanted: float) -> tuple[str, ...]:
    return (
        str(run.seed),
        number(run.fresh_mean("success")),
        number(run.minutes, 1),
        number(run.minutes_to(wanted), 1),
        steps(run.env_steps),
    )


def hopper(results: Path) -> str:
    """Hopper Jump has no success: height, distance to the goal, and whether the robot still stands."""
    rows = []
    for run in read_runs(results / "claims/hopper_jump"):
        height, distance = run.fresh["max_height"], run.fresh["goal_dist"]
        rows.append(
            (
                *(str(run.seed), f"{number(statistics.mean(height))} m", f"{number(min(height))} m"),
                *(f"{number(statistics.median(distance))} m", f"{sum(run.fresh['healthy']):.0f} of {len(height)}"),
                *(number(run.minutes, 1), number(run.minutes_to(1.8, "evaluation_max_height"), 1)),
            )
        )
    header = ("seed", "height, mean", "least", "to the goal, median", "ends upright", "minutes", "minutes to 1.8 m")
    return table(header, rows)


def box(results: Path) -> str:
    """Box Pushing: success, how near the box ends to its target in place and angle, and how long it took."""
    rows = []
    for run in [run for reward in ("dense", "sparse") for run in read_runs(results / "claims" / f"box_{reward}")]:
        distance, angle = run.fresh["box_goal_pos_dist"], run.fresh["box_goal_rot_dist"]
        near, turned = (np.array(values) <= most for values, most in ((distance, 0.05), (angle, 0.5)))
        rows.append(
            (
                *(f"`{run.task}`", *_trained(run, 0.5)[:2]),
                *(number(float(near.mean())), number(float(turned.mean()))),
                *(f"{statistics.median(distance):.3f} m", f"{number(statistics.median(angle))} rad"),
                *_trained(run, 0.5)[2:],
            )
        )
    header = (
        *("task", "seed", "success on 100 fresh contexts", "within 5 cm", "within 0.5 rad"),
        *("to the target, median", "angle, median", "minutes", "minutes to 0.5", "control steps"),
    )
    return table(header, rows or [(MISSING,) * len(header)])


def comparison_overview(results: Path) -> str:
    """Success of each method on fresh contexts, from the worst seed to the best, a row per task."""
    rows = []
    for folder, (task, given) in COMPARISONS.items():
        runs = read_runs(results / "claims/comparison" / folder)
        successes = [[run.fresh_mean("success") for run in runs if run.method == method] for method in METHODS]
        rows.append((f"{task}, {steps(given)} steps", *map(span, successes)))
    return table(("", *(f"`{method}`" for method in METHODS)), rows)


def comparison(folder: str, results: Path) -> str:
    """One task of the comparison in full, a row per method; the same steps for all but the fresh contexts."""
    given = COMPARISONS[folder][1]
    until = 1.01 * given  # TCE and BBRL end with a whole iteration
    everything = sorted(read_runs(results / "claims/comparison" / folder), key=lambda run: METHODS.index(run.method))
    rows = []
    for method, group in groupby(everything, key=lambda run: run.method):
        runs = list(group)
        reached = [run.first(0.5) for run in runs]
        rows.append(
            (
                f"`{method}`",
                ", ".join(str(run.seed) for run in runs),
                several(run.fresh_mean("success") for run in runs),
                several(run.mean_over_steps(until) for run in runs),
                ", ".join(MISSING if row is None else f"{row['env_steps'] / 1000:.0f}" for row in reached),
                several((run.fresh_mean("return") for run in runs), 2 if given < 500_000 else 0),
                ", ".join(f"{run.env_steps / 1000:.0f}" for run in runs),
                " or ".join(sorted({f"{run.gradient_steps:.0f}" for run in runs})),
            )
        )
    measured = ("fresh", "mean", "thousand steps to 0.5", "return on fresh contexts", "thousand steps")
    return table(("method", "seeds", *measured, "gradient steps per thousand"), rows)


def equal_steps(results: Path) -> str:
    """Success after the steps of the comparison, with more gradient steps an episode and with the preset of then."""
    settings = {
        "`--collect.episodes 8` (`claims/comparison/via_point_reacher/`)": (
            "claims/comparison/via_point_reacher",
            "top_erl-*",
        ),
        "16 episodes an iteration (`archive/via_point_reacher_one_thread/`)": (
            "archive/via_point_reacher_one_thread",
            "*",
        ),
        "SAC (`claims/comparison/via_point_reacher/`)": ("claims/comparison/via_point_reacher", "sac-*"),
    }
    given = COMPARISONS["via_point_reacher"][1]
    rows = []
    for name, (folder, pattern) in settings.items():
        runs = read_runs(results / folder, pattern)
        seeds = ", ".join(str(run.seed) for run in runs)
        rows.append((name, seeds, several(run.last(until=given) for run in runs)))
    return table(("setting", "seeds", f"last evaluation up to {steps(given)} steps"), rows)


def bf16(results: Path) -> str:
    """Success on fresh contexts of runs with bfloat16 and of float32 runs with the same seeds."""
    pairs = {
        "EPYC (AVX512_BF16)": ("claims/bf16/avx512", "claims/via_point_reacher", "seed*"),
        "Xeon (AMX), an earlier version": ("claims/bf16/amx", "claims/comparison/via_point_reacher", "top_erl-*"),
    }
    rows = []
    for name, (low, single, pattern) in pairs.items():
        runs = read_runs(results / low), read_runs(results / single, pattern)
        seeds = ", ".join(str(run.seed) for run in runs[0])
        successes = [several(run.fresh_mean("success") for run in group) for group in runs]
        rows.append((name, seeds, f"{successes[0]} (`{low}/`)", f"{successes[1]} (`{single}/`)"))
    return table(("processor", "seeds", "bf16", "float32"), rows)


def machines(results: Path) -> str:
    """Every folder of claims with its seeds and what the fingerprints say of machine and versions."""
    claims = results / "claims"
    rows = []
    for folder, group in groupby(read_runs(claims), key=lambda run: run.folder.parent):
        runs = list(group)
        prints = [run.fingerprint for run in runs]
        rows.append(
            (
                f"`{folder.relative_to(results)}/`",
                str(len(runs)),
                _all({str(run.seed) for run in runs}),
                _all({str(entry["hardware"]["threads"]) for entry in prints}),
                _all({str(entry["machine"]["cores"]) for entry in prints}),
                _all({entry["packages"]["torch"] for entry in prints}),
                _all({entry["created"][:10] for entry in prints}),
                f"{sum(bool(run.fresh) for run in runs)} of {len(runs)}",
            )
        )
    return table(("folder", "runs", "seeds", "threads", "cores", "torch", "made on", "with fresh contexts"), rows)


def _all(values: set[str]) -> str:
    return ", ".join(sorted(values))


def before_and_after(results: Path) -> str:
    """Minutes to 0.8 of an early version and of the claimed runs, same machine, same seeds."""
    after = {run.seed: run for run in read_runs(results / "claims/via_point_reacher", "seed*")}
    rows = [
        (str(run.seed), *map(_reached, pair), several(each.iteration_seconds for each in pair))
        for run in read_runs(results / "archive/via_point_reacher_speed", "before-*")
        for pair in [(run, after[run.seed])]
    ]
    return table(
        ("seed", "before: minutes to 0.8 (iterations)", "after", "seconds an iteration, before and after"), rows
    )


def _reached(run: Run) -> str:
    row = run.first(0.8)
    return MISSING if row is None else f"{row['wall_time'] / 60:.1f} ({row['iteration']:.0f})"


def archive(results: Path) -> str:
    """Every run of the archive in a row."""
    rows = [
        (
            f"`{run.folder.relative_to(results / 'archive')}`",
            *(str(run.iterations), steps(run.env_steps), number(run.minutes, 1), number(run.iteration_seconds)),
            *(number(run.best()), number(run.last()), _reached(run), number(run.fresh_mean("success"))),
        )
        for run in read_runs(results / "archive")
    ]
    header = (
        *("run", "iterations", "steps", "minutes", "seconds an iteration"),
        *("best evaluation", "last", "minutes to 0.8 (iteration)", "fresh"),
    )
    return table(header, rows)


def tries(results: Path) -> str:
    """How other ways to spend an iteration's time went, a row per setting."""
    settings = {
        "the preset until then: 20 policy steps": ("one_thread/seed0", "before/seed1"),
        "the same with a schedule of 698 iterations": ("tries/700_iterations-seed0", "tries/700_iterations-seed1"),
        "**10 policy steps**": ("tries/policy_steps_10-seed0", "tries/policy_steps_10-seed1"),
        "batch 16, 10 policy steps": ("tries/batch_16_policy_steps_10-seed0",),
    }
    rows = []
    for setting, names in settings.items():
        runs = [read_run(results / "archive" / f"via_point_reacher_{name}") for name in names]
        columns = (
            [str(run.seed) for run in runs],
            [str(run.iterations) for run in runs],
            [number(run.last()) for run in runs],
            ["never" if row is None else f"{row['iteration']:.0f}" for row in (run.first(0.8) for run in runs)],
            [f"`{run.folder.relative_to(results / 'archive')}`" for run in runs],
        )
        rows.append((setting, *map(", ".join, columns)))
    return table(("setting", "seeds", "iterations", "last evaluation", "0.8 first reached at iteration", "runs"), rows)


def steps(count: float) -> str:
    """A number of steps, thousands apart."""
    return f"{count:,.0f}".replace(",", " ")


LEARNING: dict[str, Callable[[Path], str]] = {
    "via_point": via_point,
    "backends": backends,
    "metaworld": metaworld,
    "hopper": hopper,
    "box": box,
    "contact": contact,
    "comparison": comparison_overview,
    "comparison_via_point": partial(comparison, "via_point_reacher"),
    "comparison_reach": partial(comparison, "reach"),
    "equal_steps": equal_steps,
    "bf16": bf16,
    "machines": machines,
    "before_and_after": before_and_after,
    "archive": archive,
    "tries": tries,
}
