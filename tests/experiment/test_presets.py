"""Presets against the numbers that were published, and what the laptop preset promises."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from top_erl.experiment.config import HardwareConfig, RunConfig, make_primitive
from top_erl.experiment.presets import preset
from top_erl.experiment.training import Training
from top_erl.tasks import make_task, task_ids

PUBLISHED: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "data" / "presets" / "top_erl.json").read_text(encoding="utf-8")
)
COLUMNS: list[str] = PUBLISHED["columns"]
TASKS = [(family, task) for family, tasks in PUBLISHED["families"].items() for task in tasks]
REACHER = "top_erl/ViaPointReacher-v0"


def _published(family: str, source: str) -> dict[str, Any]:
    """What a source says about a family, by field; only what it does say."""
    column = COLUMNS.index(family)
    values = {row["field"]: row[source][column] for row in PUBLISHED["rows"]}
    return {field: value for field, value in values.items() if value is not None}


def _value(config: RunConfig, field: str) -> Any:
    """What a preset has for a field of the published tables."""
    algorithm, horizon = config.algorithm, make_task(config.task).spec.horizon
    computed = {
        "<episode length>": lambda: horizon,
        "<iterations>": lambda: config.total_iterations(horizon),
        "<episodes before learning starts>": lambda: algorithm.learn.policy_start * algorithm.collect.episodes,
        "<width of a head>": lambda: algorithm.critic.width // algorithm.critic.heads,
    }
    if field in computed:
        return computed[field]()
    found = reduce(getattr, field.split("."), config)
    return list(found) if isinstance(found, tuple) else found


# ---------------------------------------------------------------------- paper scale


@pytest.mark.parametrize(("family", "task"), TASKS)
def test_paper_scale_has_the_published_numbers(family: str, task: str) -> None:
    """The authors' configuration; what it does not say, from the paper."""
    config = preset("top_erl", task, "paper")
    expected = {**_published(family, "paper"), **_published(family, "authors")}
    found = {field: _value(config, field) for field in expected}
    close = {field: pytest.approx(v, rel=1e-9) if isinstance(v, float) else v for field, v in expected.items()}
    assert found == close


def test_where_paper_and_authors_differ() -> None:
    """Each of these is a line in docs/deviations.md."""
    differ = {
        (family, field): (value, _published(family, "authors")[field])
        for family in COLUMNS
        for field, value in _published(family, "paper").items()
        if value != _published(family, "authors")[field]
    }
    both = {  # in every family
        "algorithm.learn.policy_objective": ("mean", "sum"),
        "algorithm.policy.initial_std": (1.0, 0.99001),
    }
    assert differ == {
        **{(family, field): values for family in COLUMNS for field, values in both.items()},
        ("hopper", "algorithm.policy.initial_std"): (1.0, 0.9901),
        ("box_dense", "algorithm.trust_region.mean_bound"): (0.005, 0.05),
        ("box_dense", "algorithm.collect.capacity"): (7000, 5000),
        ("box_sparse", "<episodes before learning starts>"): (400, 8000),
        ("hopper", "algorithm.learn.critic_rate"): (5e-5, 1e-4),
        ("metaworld", "<episodes before learning starts>"): (2, 400),
    }


def test_all_tasks_of_the_paper_have_their_familys_numbers() -> None:
    """All 50 Meta-World tasks alike, and every Box Pushing and Hopper Jump task is in the table."""
    reach = preset("top_erl", "metaworld/reach-v3", "paper")
    metaworld = [id for id in task_ids() if id.startswith("metaworld/")]
    assert len(metaworld) == 50
    for id in metaworld:
        assert preset("top_erl", id, "paper") == replace(reach, task=id)
    listed = {task for _, task in TASKS}
    assert {id for id in task_ids() if id.startswith("top_erl/")} - {REACHER} <= listed


def test_networks_and_entropy_bound_of_box_pushing(trainings: Callable[[RunConfig], Training]) -> None:
    """Sizes that the authors' program has, and where its entropy bound starts and ends."""
    config = preset("top_erl", "top_erl/BoxPushingSparse-v0", "paper")
    training = trainings(replace(config, hardware=HardwareConfig(threads=1, workers=0)))
    learner = training.learner
    assert training.total_iterations == 35_000
    assert training.learner.primitive.num_params == 63
    assert sum(parameter.numel() for parameter in learner.critics.parameters()) == 533_504
    assert learner.entropy_bound(0) == pytest.approx(88.8, abs=0.05)  # 63 parameters, each with a std of 0.99
    assert learner.entropy_bound(17_500) == pytest.approx(44.4, abs=0.05)
    assert learner.entropy_bound(35_000) == 0.0


@pytest.mark.parametrize(("task", "num_params"), [("top_erl/HopperJumpSparse-v0", 12), ("metaworld/reach-v3", 36)])
def test_primitive_parameters(task: str, num_params: int) -> None:
    config = preset("top_erl", task, "paper")
    assert make_primitive(config.primitive, make_task(task).spec).num_params == num_params


# ---------------------------------------------------------------------- laptop scale


def test_the_reachers_laptop_preset() -> None:
    """The one whose results are kept."""
    config = preset("top_erl", REACHER, "laptop")
    assert config.total_env_steps == 800_000
    assert config.algorithm.collect.episodes == 16
    assert config.algorithm.collect.reward_scale == 1.0
    assert config.evaluation.episodes == 100


@pytest.mark.parametrize("task", [REACHER, *(task for _, task in TASKS)])
def test_laptop_invariants(task: str) -> None:
    spec = make_task(task).spec
    config = preset("top_erl", task, "laptop", seed=3)
    collect = config.algorithm.collect
    assert (config.task, config.scale, config.seed) == (task, "laptop", 3)
    assert config.primitive == spec.primitive
    assert spec.horizon % collect.stride == 0
    assert 25 <= spec.horizon // collect.stride < 50
    metaworld = task.startswith("metaworld/")
    assert collect.reward_scale == pytest.approx((40.0 if metaworld else 10.0) / spec.return_size)
    assert collect.episodes == 2 if metaworld else 4 <= collect.episodes <= 16
    assert collect.prefill >= config.algorithm.learn.batch_size
    assert config.algorithm.learn.standardize
    iterations = 500 if metaworld else 1000
    assert config.total_env_steps == iterations * collect.episodes * spec.horizon
    assert config.total_iterations(spec.horizon) < iterations  # the prefill counts as well
    assert collect.overlap == metaworld  # the others' simulators are fast
