"""BBRL's and TCE's presets against the numbers that were published, and what the laptop presets promise."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from top_erl.experiment.preset_on_policy import bbrl_cov_preset, bbrl_std_preset, tce_preset
from top_erl.tasks import make_task, task_ids

FOLDER = Path(__file__).parents[1] / "data" / "presets"
PUBLISHED: dict[str, dict[str, Any]] = {
    name: json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")) for name in ("bbrl", "tce")
}
Preset = Callable[..., tuple[Any, ...]]
METHODS: dict[str, tuple[str, Preset]] = {
    "bbrl_std": ("bbrl", bbrl_std_preset),
    "bbrl_cov": ("bbrl", bbrl_cov_preset),
    "tce": ("tce", tce_preset),
}
COLUMNS = ("box_dense", "box_sparse", "hopper", "metaworld")
TASKS = [(family, task) for family, tasks in PUBLISHED["tce"]["families"].items() for task in tasks]
REACHER = "top_erl/ViaPointReacher-v0"
ANY_METHOD = pytest.mark.parametrize("method", METHODS)


def _published(name: str, family: str, source: str) -> dict[str, Any]:
    """What a source says about a family, by field; only what it does say."""
    column = PUBLISHED[name]["columns"].index(family)
    values = {row["field"]: row[source][column] for row in PUBLISHED[name]["rows"]}
    return {field: value for field, value in values.items() if value is not None}


def _made(method: str, task: str, scale: str) -> SimpleNamespace:
    """A preset by the names of its parts."""
    spec = make_task(task).spec
    algorithm, primitive, steps, evaluation = METHODS[method][1](spec, scale)
    return SimpleNamespace(algorithm=algorithm, primitive=primitive, steps=steps, evaluation=evaluation, spec=spec)


def _value(made: SimpleNamespace, field: str) -> Any:
    """What a preset has for a field of the published tables."""
    iterations = made.steps / made.spec.horizon / made.algorithm.collect.episodes
    computed = {
        "<episode length>": lambda: made.spec.horizon,
        "<iterations>": lambda: iterations,
        "<control steps>": lambda: made.steps,
        "<iterations of falling rates>": lambda: made.algorithm.learn.rate_iterations or iterations,
    }
    if field in computed:
        return computed[field]()
    found = reduce(getattr, field.split("."), made)
    return list(found) if isinstance(found, tuple) else found


# ---------------------------------------------------------------------- paper scale


@ANY_METHOD
@pytest.mark.parametrize(("family", "task"), TASKS)
def test_paper_scale_has_the_published_numbers(method: str, family: str, task: str) -> None:
    """The authors' configuration; what it does not say, from the paper."""
    name, made = METHODS[method][0], _made(method, task, "paper")
    expected = {**_published(name, family, "paper"), **_published(name, family, "authors")}
    found = {field: _value(made, field) for field in expected}
    close = {field: pytest.approx(v, rel=1e-9) if isinstance(v, float) else v for field, v in expected.items()}
    assert found == close


@pytest.mark.parametrize("name", PUBLISHED)
def test_where_paper_and_authors_differ(name: str) -> None:
    """Each of these is a line in docs/deviations.md."""
    differ = {
        (family, field): (value, authors[field])
        for family in COLUMNS
        for authors in [_published(name, family, "authors")]
        for field, value in _published(name, family, "paper").items()
        if field in authors and value != authors[field]
    }
    initial = "algorithm.policy.initial_std"
    expected = {(family, initial): (1.0, 0.99001 if family == "metaworld" else 0.9901) for family in COLUMNS}
    if name == "bbrl":
        for family in ("box_dense", "box_sparse"):
            expected[family, "algorithm.trust_region.mean_bound"] = (0.1, 0.05)
            expected[family, "algorithm.trust_region.covariance_bound"] = (0.00025, 0.001)
    else:
        expected["box_sparse", "algorithm.learn.policy_rate"] = (3e-4, 1e-4)
        expected["box_sparse", "algorithm.learn.critic_rate"] = (3e-4, 1e-3)
    assert differ == expected


def test_the_method_decides_the_covariance() -> None:
    for scale in ("paper", "laptop"):
        assert _made("bbrl_std", "metaworld/reach-v3", scale).algorithm.policy.covariance == "diagonal"
        assert _made("bbrl_cov", "metaworld/reach-v3", scale).algorithm.policy.covariance == "full"


def test_what_nobody_says_is_borrowed_from_tce() -> None:
    """BBRL on Hopper Jump: the paper's table has n.a. for the trust region."""
    bbrl, tce = (_made(method, "top_erl/HopperJumpSparse-v0", "paper") for method in ("bbrl_cov", "tce"))
    assert bbrl.algorithm.trust_region.mean_bound == tce.algorithm.trust_region.mean_bound
    assert bbrl.algorithm.trust_region.covariance_bound == tce.algorithm.trust_region.covariance_bound
    assert bbrl.algorithm.learn.policy_decay == tce.algorithm.learn.policy_decay
    assert bbrl.algorithm.policy.min_std == tce.algorithm.policy.min_std
    assert bbrl.primitive == tce.primitive
    assert bbrl.steps == tce.steps


@ANY_METHOD
def test_all_tasks_of_the_paper_have_their_familys_numbers(method: str) -> None:
    reach = _made(method, "metaworld/reach-v3", "paper")
    for id in (id for id in task_ids() if id.startswith("metaworld/")):
        made = _made(method, id, "paper")
        assert (made.algorithm, made.primitive, made.steps) == (reach.algorithm, reach.primitive, reach.steps)
    listed = {task for _, task in TASKS}
    assert {id for id in task_ids() if id.startswith("top_erl/")} - {REACHER} <= listed


@ANY_METHOD
def test_any_other_task_keeps_its_primitive(method: str) -> None:
    made = _made(method, REACHER, "paper")
    assert made.primitive == made.spec.primitive
    assert made.algorithm == _made(method, "metaworld/reach-v3", "paper").algorithm


# ---------------------------------------------------------------------- laptop scale


@ANY_METHOD
@pytest.mark.parametrize("task", [REACHER, *(task for _, task in TASKS)])
def test_laptop_invariants(method: str, task: str) -> None:
    made = _made(method, task, "laptop")
    assert made.primitive == made.spec.primitive
    assert made.algorithm.collect.reward_scale == pytest.approx(10.0 / made.spec.return_size)
    assert made.algorithm.learn.standardize >= 2
    assert made.algorithm.learn.precision == "float32"
    episodes = made.steps / made.spec.horizon
    assert 3900 <= episodes <= 16_000
    assert episodes % made.algorithm.collect.episodes == 0


def test_short_episodes_have_fewer_instants() -> None:
    spec = make_task(REACHER).spec
    assert tce_preset(spec, "laptop")[0].segments.points == 25
    assert tce_preset(replace(spec, horizon=10), "laptop")[0].segments.points == 10


def test_evaluations_are_as_often_as_in_the_preset_of_top_erl() -> None:
    """Every 320 episodes of the reacher, every 80 of Meta-World."""
    assert [_made("tce", task, "laptop").evaluation.interval for task in (REACHER, "metaworld/reach-v3")] == [10, 5]
