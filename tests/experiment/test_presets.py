"""Presets of all methods against the numbers that were published, and what the laptop presets promise."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.experiment.measured import REACHER, Measured
from top_erl.algorithms.registry import METHODS, find_method
from top_erl.config.options import with_options
from top_erl.config.run import EvaluationConfig, HardwareConfig, RunConfig
from top_erl.experiment.presets import preset
from top_erl.experiment.training import Training
from top_erl.primitives import make_primitive
from top_erl.tasks import TaskSpec, make_task, task_ids

NAMES = [method.name for method in METHODS]
STEP_BASED = [method.name for method in METHODS if method.packages]
ON_POLICY = ["tce", "bbrl_cov", "bbrl_std"]
REACH = "metaworld/reach-v3"
COLUMNS = ("box_dense", "box_sparse", "hopper", "metaworld")
ANY_METHOD = pytest.mark.parametrize("method", NAMES)
METHOD_OF_THE_PAPER = pytest.mark.parametrize("method", [name for name in NAMES if name != "t_sac"])


@cache
def _published(method: str) -> dict[str, Any]:
    """The tables of a method, hand-written from the paper and the authors' configurations."""
    path = Path(__file__).parents[1] / "data" / "presets" / f"{method.partition('_')[0]}.json"
    path = path if path.exists() else path.with_name(f"{method}.json")
    published: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    assert tuple(published["columns"]) == COLUMNS
    return published


def _says(method: str, family: str, source: str) -> list[tuple[str, Any]]:
    """Fields and values that a source gives for a family."""
    rows = [(row["field"], row.get(source, [None] * 4)[COLUMNS.index(family)]) for row in _published(method)["rows"]]
    return [(field, value) for field, value in rows if value is not None]


FAMILIES: dict[str, list[str]] = _published("tce")["families"]
TASKS = [(family, task) for family, tasks in FAMILIES.items() for task in tasks]
ANY_TASK = pytest.mark.parametrize("task", [REACHER, *(task for _, task in TASKS)])
ANY_OF_THE_PAPER = pytest.mark.parametrize(("family", "task"), TASKS)


@pytest.fixture
def measure() -> Iterator[Callable[[RunConfig], Measured]]:
    """Measure presets; their learners are closed after the test."""
    made: list[Measured] = []

    def make(config: RunConfig) -> Measured:
        made.append(Measured(config))
        return made[-1]

    yield make
    for measured in made:
        measured.close()


# ---------------------------------------------------------------------- paper scale


@METHOD_OF_THE_PAPER
@ANY_OF_THE_PAPER
def test_paper_scale_has_the_published_numbers(
    method: str, family: str, task: str, measure: Callable[[RunConfig], Measured]
) -> None:
    """The authors' configuration; what it does not say, from the paper."""
    measured, authors = measure(preset(method, task, "paper")), _says(method, family, "authors")
    known = {field for field, _ in authors}
    rows = [*authors, *(row for row in _says(method, family, "paper") if row[0] not in known)]
    assert len(rows) >= 15
    if method in STEP_BASED and task != FAMILIES[family][0]:  # what costs time is looked at once a family
        rows = [row for row in rows if not row[0].startswith("<")]
    wrong = [
        (field, value, found)
        for field, value in rows
        for found in [measured.value(field)]
        if found != (pytest.approx(value, rel=1e-9, abs=1e-12) if isinstance(value, float) else value)
    ]
    assert not wrong


DIFFER: dict[str, dict[tuple[str, str], tuple[Any, Any]]] = {
    "top_erl": {
        **{(family, "algorithm.learn.policy_objective"): ("mean", "sum") for family in COLUMNS},
        **{(family, "algorithm.policy.initial_std"): (1.0, 0.99001) for family in COLUMNS},
        ("hopper", "algorithm.policy.initial_std"): (1.0, 0.9901),
        ("box_dense", "algorithm.trust_region.mean_bound"): (0.005, 0.05),
        ("box_dense", "algorithm.collect.capacity"): (7000, 5000),
        ("box_sparse", "<episodes before learning starts>"): (400, 8000),
        ("hopper", "algorithm.learn.critic_rate"): (5e-5, 1e-4),
        ("metaworld", "<episodes before learning starts>"): (2, 400),
    },
    "bbrl_cov": {
        **{(family, "algorithm.policy.initial_std"): (1.0, 0.9901) for family in COLUMNS},
        ("metaworld", "algorithm.policy.initial_std"): (1.0, 0.99001),
        **{(f"box_{kind}", "algorithm.trust_region.mean_bound"): (0.1, 0.05) for kind in ("dense", "sparse")},
        **{(f"box_{kind}", "algorithm.trust_region.covariance_bound"): (2.5e-4, 1e-3) for kind in ("dense", "sparse")},
    },
    "tce": {
        **{(family, "algorithm.policy.initial_std"): (1.0, 0.9901) for family in COLUMNS},
        ("metaworld", "algorithm.policy.initial_std"): (1.0, 0.99001),
        ("box_sparse", "algorithm.learn.policy_rate"): (3e-4, 1e-4),
        ("box_sparse", "algorithm.learn.critic_rate"): (3e-4, 1e-3),
    },
}
"""What the paper says and what the authors' configuration has; each is a line in docs/deviations.md."""


@pytest.mark.parametrize("method", DIFFER)
def test_where_paper_and_authors_differ(method: str) -> None:
    differ = {
        (family, field): (value, authors[field])
        for family in COLUMNS
        for authors in [dict(_says(method, family, "authors"))]
        for field, value in _says(method, family, "paper")
        if field in authors and value != authors[field]
    }
    assert differ == DIFFER[method]


@METHOD_OF_THE_PAPER
def test_all_tasks_of_the_paper_have_their_familys_numbers(method: str) -> None:
    """All 50 Meta-World tasks alike, and every Box Pushing and Hopper Jump task is in the table.

    Tasks whose goal jumps have the numbers of their family, too, and are not the paper's.
    """
    reach, jumping = (
        preset(method, REACH, "paper"),
        {id for id in task_ids() if re.search(r"-jump-|Jump(Dense)?-v0", id)},
    )
    jumping -= {"top_erl/HopperJump-v0"}
    metaworld = [id for id in task_ids() if id.startswith("metaworld/")]
    assert len({*metaworld} - jumping) == 50
    assert all(preset(method, id, "paper") == replace(reach, task=id) for id in metaworld)
    assert {id for id in task_ids() if id.startswith("top_erl/")} - {REACHER} - jumping <= {task for _, task in TASKS}


@METHOD_OF_THE_PAPER
def test_other_tasks_have_metaworlds_numbers_and_their_own_primitive(method: str) -> None:
    reach, other, spec = preset(method, REACH, "paper"), preset(method, REACHER, "paper"), make_task(REACHER).spec
    if method in STEP_BASED:
        assert other.total_env_steps == reach.total_env_steps
    else:
        assert other.primitive == spec.primitive  # type: ignore[attr-defined]
    theirs, mine = reach.to_dict()["algorithm"], other.to_dict()["algorithm"]
    if method in ("sac", "pink", "gtrxl"):  # whole episodes of another length
        theirs["collect"] = mine["collect"]
    elif method == "top_erl":  # the task's own
        theirs["collect"] |= {"stride": spec.stride, "reward_scale": 1.0 / spec.stride}
    assert mine == theirs


def test_longer_episodes_have_fewer_environments() -> None:
    long = replace(make_task(REACH).spec, id="my_lab/Long-v0", family="", horizon=3000)
    for method in ("ppo", "gsde"):
        collect: Any = find_method(method).preset(long, "paper").algorithm.collect  # type: ignore[attr-defined]
        assert (collect.steps, collect.steps_per_environment) == (16_000, 3200)  # 5 environments


@pytest.mark.parametrize("scale", ["laptop", "paper"])
def test_the_method_decides_its_variant(scale: str) -> None:
    for task in (REACHER, REACH):
        algorithms: dict[str, Any] = {name: preset(name, task, scale).hyper_parameters for name in NAMES}
        assert [algorithms[name].policy.covariance for name in ("bbrl_std", "bbrl_cov")] == ["diagonal", "full"]
        assert [algorithms[name].networks.noise for name in ("sac", "pink")] == ["white", "pink"]
        assert [algorithms[name].networks.use_sde for name in ("ppo", "gsde")] == [False, True]


def test_what_nobody_says_is_borrowed_from_tce() -> None:
    """BBRL on Hopper Jump: the paper's table has n.a. for the trust region."""
    bbrl, tce = (preset(method, "top_erl/HopperJumpSparse-v0", "paper").to_dict() for method in ("bbrl_cov", "tce"))
    for group, name in (
        *(("trust_region", "mean_bound"), ("trust_region", "covariance_bound")),
        *(("learn", "policy_decay"), ("policy", "min_std")),
    ):
        assert bbrl["algorithm"][group][name] == tce["algorithm"][group][name]
    assert (bbrl["primitive"], bbrl["total_env_steps"]) == (tce["primitive"], tce["total_env_steps"])


@pytest.mark.parametrize("method", STEP_BASED)
@ANY_OF_THE_PAPER
def test_paper_runs_of_step_based_methods(method: str, family: str, task: str) -> None:
    """As long as TCE's, about a hundred evaluations, an episode per environment and iteration at least."""
    config, horizon = preset(method, task, "paper"), make_task(task).spec.horizon
    algorithm: Any = config.hyper_parameters
    collect = algorithm.collect
    steps = {"box_dense": 114e6, "box_sparse": 57e6, "hopper": 48e6, "metaworld": 60.8e6}[family]
    assert config.total_env_steps == steps
    assert config.evaluation.episodes == 152
    assert 99 <= steps / collect.steps / config.evaluation.interval <= 140
    assert collect.steps_per_environment >= horizon
    assert not collect.observe_time
    assert method == "gtrxl" or collect.reward_scale == 1.0
    assert collect.bootstrap == (algorithm.learn.discount < 1.0)  # without a discount, endless values have no limit
    if (method, family) != ("gsde", "hopper"):  # 8192 steps are no whole episodes of 250
        assert collect.steps_per_environment % horizon == 0
    if method == "gtrxl":
        assert collect.bootstrap == (family in ("box_dense", "metaworld"))
        assert 8 <= collect.environments <= 20


def test_what_no_table_says_of_gtrxl() -> None:
    config = preset("gtrxl", REACH, "paper")
    algorithm: Any = config.hyper_parameters
    network, learn = algorithm.network, algorithm.learn
    assert (network.width, network.mlp_width, network.memory_length, network.gate_bias) == (64, 32, 50, 2.0)
    assert (learn.critic_weight, learn.max_gradient, learn.critic_clip_of) == (0.5, 0.5, "error")
    assert config.total_env_steps == 60_800_000
    assert config.evaluation == EvaluationConfig(interval=32, episodes=152)
    assert algorithm.episodes_per_iteration(500) == 38


def test_networks_and_entropy_bound_of_box_pushing(trainings: Callable[[RunConfig], Training]) -> None:
    """Sizes that the authors' program has, and where its entropy bound starts and ends."""
    config = preset("top_erl", "top_erl/BoxPushingSparse-v0", "paper")
    training = trainings(replace(config, hardware=HardwareConfig(threads=1, workers=0)))
    learner: Any = training.learner
    assert training.total_iterations == 35_000
    assert learner.primitive.num_params == 63
    assert sum(parameter.numel() for parameter in learner.critics.parameters()) == 533_504
    assert learner.entropy_bound(0) == pytest.approx(88.8, abs=0.05)  # 63 parameters, each with a std of 0.99
    assert learner.entropy_bound(17_500) == pytest.approx(44.4, abs=0.05)
    assert learner.entropy_bound(35_000) == 0.0


@pytest.mark.parametrize(("task", "num_params"), [("top_erl/HopperJumpSparse-v0", 12), (REACH, 36)])
def test_primitive_parameters(task: str, num_params: int) -> None:
    config: Any = preset("top_erl", task, "paper")
    spec = make_task(task).spec
    assert make_primitive(config.primitive, spec.num_dof, spec.dt).num_params == num_params


# ---------------------------------------------------------------------- laptop scale


@ANY_METHOD
@ANY_TASK
def test_the_laptop_budget_is_the_same_for_all_methods(method: str, task: str) -> None:
    spec, config = make_task(task).spec, preset(method, task, "laptop", seed=3)
    assert (config.task, config.method, config.scale, config.seed) == (task, method, "laptop", 3)
    steps = {50: 800_000, 100: 4_000_000, 250: 1_000_000, 500: 1_000_000}[spec.horizon]
    whole = int(16 * spec.horizon) if method in ON_POLICY else 1  # on-policy methods end with a whole iteration
    assert config.total_env_steps == steps // whole * whole
    assert config.evaluation.episodes == (100 if task == REACHER else 20)
    per_iteration = config.hyper_parameters.episodes_per_iteration(spec.horizon) * spec.horizon
    evaluations = config.total_env_steps / per_iteration / config.evaluation.interval
    assert evaluations == pytest.approx(25 if spec.horizon == 500 else 50, rel=0.25)


@ANY_TASK
def test_top_erl_on_a_laptop(task: str) -> None:
    spec, config = make_task(task).spec, preset("top_erl", task, "laptop")
    algorithm: Any = config.hyper_parameters
    collect, metaworld, box = algorithm.collect, task.startswith("metaworld/"), spec.family.startswith("box")
    assert spec.horizon % collect.stride == 0
    assert 25 <= spec.horizon // collect.stride < 50
    assert collect.reward_scale == pytest.approx(1.0 if metaworld or box else 10.0 / spec.return_size)
    assert (collect.reward_spread is not None) == (metaworld or box)
    assert collect.episodes == (4 if metaworld else 16 if box else max(4, min(16, 800 // spec.horizon)))
    assert collect.prefill >= algorithm.learn.batch_size
    assert algorithm.learn.standardize
    assert config.evaluation.interval == (50 if box else 20)
    iterations = 500 if metaworld else 2500 if box else 1000
    assert config.total_env_steps == iterations * collect.episodes * spec.horizon
    assert config.total_iterations(spec.horizon) < iterations  # the prefill counts as well
    assert collect.overlap == metaworld  # the others' simulators are fast
    primitive = replace(spec.primitive, relative_goal=True) if box else spec.primitive
    assert config.primitive == primitive  # type: ignore[attr-defined]
    assert algorithm.plan.every == (20 if box else 0)
    assert algorithm.learn.hindsight == (0.8 if box else 0.0)
    assert (collect.reward_floor is not None) == (spec.family == "box_pushing_dense")  # sparse ones pay all at once


def test_a_goal_that_jumps_is_not_exchanged_on_a_laptop() -> None:
    config = preset("top_erl", "top_erl/BoxPushingJumpDense-v0", "laptop")
    assert config.hyper_parameters.learn.hindsight == 0.0  # type: ignore[attr-defined]
    assert config.hyper_parameters.plan.every == 20  # type: ignore[attr-defined]


@pytest.mark.parametrize("method", ON_POLICY)
@ANY_TASK
def test_on_policy_methods_on_a_laptop(method: str, task: str) -> None:
    spec, config = make_task(task).spec, preset(method, task, "laptop")
    algorithm: Any = config.hyper_parameters
    assert config.primitive == spec.primitive  # type: ignore[attr-defined]
    assert algorithm.collect.reward_scale == pytest.approx(10.0 / spec.return_size)
    assert algorithm.learn.standardize >= 2
    assert algorithm.learn.precision == "float32"
    assert config.total_env_steps / spec.horizon % algorithm.collect.episodes == 0
    assert config.evaluation.interval == {50: 10, 100: 50, 250: 5, 500: 5}[spec.horizon]


def test_short_episodes_have_fewer_instants() -> None:
    for horizon, points in ((50, 25), (10, 10)):
        algorithm: Any = (
            find_method("tce").preset(replace(make_task(REACHER).spec, horizon=horizon), "laptop").algorithm
        )
        assert algorithm.segments.points == points


@pytest.mark.parametrize("method", STEP_BASED)
@ANY_TASK
def test_step_based_methods_on_a_laptop(method: str, task: str) -> None:
    spec = make_task(task).spec
    algorithm: Any = preset(method, task, "laptop").hyper_parameters
    collect = algorithm.collect
    assert 8 <= collect.environments <= 16
    assert collect.steps_per_environment % spec.horizon == 0
    assert 3200 <= collect.steps <= 4800
    assert collect.observe_time
    assert not collect.bootstrap
    if method == "gtrxl":
        large: Any = preset(method, task, "paper").hyper_parameters
        assert collect.reward_scale == pytest.approx(10.0 / (1500.0 if "Box" in task else spec.return_size))
        assert algorithm.network.width * algorithm.network.layers < large.network.width * large.network.layers / 2
        return
    assert max(*algorithm.networks.policy_hidden, *algorithm.networks.critic_hidden) <= 128
    if method in ("sac", "pink"):
        assert algorithm.learn.update_every / algorithm.learn.gradient_steps == 8


@pytest.mark.parametrize("horizon", [2, 7, 51, 333, 501, 3000, 16_000])
@ANY_METHOD
@pytest.mark.parametrize("scale", ["laptop", "paper"])
def test_presets_suit_any_horizon(method: str, scale: Any, horizon: int) -> None:
    """A configuration checks itself, so making one is half of the test."""
    spec = TaskSpec("my_lab/Any-v0", observation_dim=3, num_dof=2, horizon=horizon, dt=0.1, metrics=())
    chosen = find_method(method).preset(spec, scale)
    assert chosen.total_env_steps >= chosen.algorithm.episodes_per_iteration(horizon) * horizon
    assert chosen.algorithm.episodes_per_iteration(horizon) >= 1.0
    if find_method(method).acts_by_steps:
        assert chosen.algorithm.collect.steps_per_environment >= horizon  # type: ignore[attr-defined]


def test_sac_on_a_laptop_says_how_often_it_is_updated() -> None:
    """The tables have one gradient step per eight control steps on Box Pushing only."""
    box = "top_erl/BoxPushingDense-v0"
    config = preset("sac", REACHER, "laptop")
    (remark,) = config.hyper_parameters.remarks(50)
    assert remark == "One gradient step per 8 control steps; --learn.gradient-steps 40 makes it one."
    each = with_options(config, {"learn.gradient-steps": "40"})
    assert not each.hyper_parameters.remarks(50)
    paper = {task: preset("sac", task, "paper").hyper_parameters.remarks(500) for task in (box, REACH)}
    assert paper == {box: ["One gradient step per 8 control steps; --learn.gradient-steps 8 makes it one."], REACH: []}
