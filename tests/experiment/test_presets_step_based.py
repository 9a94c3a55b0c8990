"""Presets of PPO, gSDE, SAC and PINK against the paper's tables, and what the laptop presets promise."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, reduce
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from top_erl.algorithms.parts import RunParts
from top_erl.algorithms.step_based import PpoConfig, SacConfig
from top_erl.algorithms.step_based.learner import StepLearner
from top_erl.algorithms.step_based.ppo import PpoLearner
from top_erl.algorithms.step_based.sac import SacLearner
from top_erl.experiment.preset_step_based import gsde_preset, pink_preset, ppo_preset, sac_preset
from top_erl.tasks import make_task, task_ids

METHODS: dict[str, Callable[..., Any]] = {
    "ppo": ppo_preset,
    "gsde": gsde_preset,
    "sac": sac_preset,
    "pink": pink_preset,
}
REACHER = "top_erl/ViaPointReacher-v0"
FAMILIES = ("box_dense", "box_sparse", "hopper", "metaworld")


@cache
def _published(method: str) -> dict[str, Any]:
    path = Path(__file__).parents[1] / "data" / "presets" / f"{method}.json"
    published: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    assert tuple(published["columns"]) == FAMILIES
    return published


CASES = [
    (method, family, task)
    for method in METHODS
    for family, tasks in _published(method)["families"].items()
    for task in tasks
]


def _preset(method: str, task: str, scale: str) -> SimpleNamespace:
    """A preset with the names that the data files use."""
    spec = make_task(task).spec
    algorithm, primitive, steps, evaluation = METHODS[method](spec, scale)
    assert primitive is None
    return SimpleNamespace(spec=spec, algorithm=algorithm, total_env_steps=steps, evaluation=evaluation)


@pytest.fixture
def learners() -> Iterator[Callable[[Any], StepLearner]]:
    """Make learners of a configuration on the reacher, which is cheap; networks depend on the task by their input."""
    made: list[StepLearner] = []

    def make(config: Any) -> StepLearner:
        task = make_task(REACHER)
        parts = RunParts(task, REACHER, task.spec, 0, 10, 0, torch.device("cpu"))
        made.append(PpoLearner(config, parts) if isinstance(config, PpoConfig) else SacLearner(config, parts))
        return made[-1]

    yield make
    for learner in made:
        learner.close()


def _clip_at(config: PpoConfig, share: float, make: Callable[[Any], StepLearner], critic: bool = False) -> float:
    """The clip when a share of the run is over."""
    learner = make(config)
    learner.total_iterations, learner.iteration = 10_000, 1 + round(share * 10_000)
    model: Any = learner.model
    return float((model.clip_range_vf if critic else model.clip_range)(0.123))


def _clip(config: PpoConfig, make: Callable[[Any], StepLearner], critic: bool = False) -> float | str:
    """A clip as the tables write it."""
    first, half = (_clip_at(config, share, make, critic) for share in (0.0, 0.5))
    return first if first == half else f"lin_{first:g}"


def _orthogonal(learner: StepLearner) -> bool:
    """Whether the rows or columns of the first layer are orthogonal and of equal length."""
    weight = next(module.weight for module in learner.model.policy.modules() if isinstance(module, nn.Linear))
    matrix = weight.detach()
    gram = matrix.T @ matrix if matrix.shape[0] > matrix.shape[1] else matrix @ matrix.T
    return bool(torch.allclose(gram, gram[0, 0] * torch.eye(len(gram)), atol=1e-4))


def _initial_std(learner: StepLearner) -> float:
    """Standard deviation that exploration starts with."""
    policy: Any = learner.model.policy
    if isinstance(learner, PpoLearner):
        return round(float(policy.log_std.detach().exp().mean()), 6)
    with torch.no_grad():  # a network's output, and near 1 as its weights happen to be drawn
        _, log_std, _ = policy.actor.get_action_dist_params(torch.randn(1000, learner.observer.size))
    std = float(log_std.exp().mean())
    return 1.0 if 0.8 < std < 1.25 else std


def _initialization(learner: StepLearner) -> str:
    """Uniform weights up to 1 / √(inputs) are what the fan-in gives."""
    linears = [module for module in learner.model.policy.modules() if isinstance(module, nn.Linear)]
    shares = [float(linear.weight.detach().abs().max()) * math.sqrt(linear.in_features) for linear in linears]
    return "fanin" if all(0.9 < share < 1.0001 for share in shares) else "another"


def _optimizers(learner: StepLearner) -> str:
    """The kind that all optimisers are."""
    (kind,) = {type(optimizer).__name__.lower() for optimizer in learner.optimizers().values()}
    return kind


def _value(found: SimpleNamespace, field: str, make: Callable[[Any], StepLearner]) -> Any:
    """What a preset has for a field of the published tables."""
    config = found.algorithm
    computed: dict[str, Callable[[], Any]] = {
        "<episode length>": lambda: found.spec.horizon,
        "<optimizer>": lambda: _optimizers(make(config)),
        "<epochs of the critic>": lambda: getattr(config.learn, "epochs", 0) or config.learn.gradient_steps,
        "<number of minibatches>": lambda: config.collect.steps / config.learn.batch_size,
        "<learning starts>": lambda: config.prefill_episodes,
        "<critic clip>": lambda: _clip(config, make, critic=True),
        "<importance ratio clip>": lambda: _clip(config, make),
        "<importance ratio clip after a quarter of the run>": lambda: _clip_at(config, 0.25, make),
        "<importance ratio clip at the end>": lambda: _clip_at(config, 1.0, make),
        "<orthogonal initialization>": lambda: _orthogonal(make(config)),
        "<initialization>": lambda: _initialization(make(config)),
        "<initial std>": lambda: _initial_std(make(config)),
        "<normalized observations>": lambda: make(config).normalizer is not None,
        "<normalized rewards>": lambda: make(config).normalizer is not None,
    }
    if field in computed:
        return computed[field]()
    value = reduce(getattr, field.split("."), found)
    return list(value) if isinstance(value, tuple) else value


# ---------------------------------------------------------------------- paper scale


@pytest.mark.parametrize(("method", "family", "task"), CASES)
def test_paper_scale_has_the_published_numbers(
    method: str, family: str, task: str, learners: Callable[[Any], StepLearner]
) -> None:
    found = _preset(method, task, "paper")
    column = FAMILIES.index(family)
    rows = {row["field"]: row["paper"][column] for row in _published(method)["rows"]}
    if task != _published(method)["families"][family][0]:  # what costs time is looked at once a family
        rows = {field: value for field, value in rows.items() if not field.startswith("<")}
    expected = {
        field: pytest.approx(value, rel=1e-9, abs=1e-12) if isinstance(value, float) else value
        for field, value in rows.items()
    }
    assert {field: _value(found, field, learners) for field in expected} == expected


@pytest.mark.parametrize("method", METHODS)
def test_all_tasks_of_the_paper_have_their_familys_numbers(method: str) -> None:
    """All 50 Meta-World tasks alike, and every Box Pushing and Hopper Jump task is in the table."""
    reach = _preset(method, "metaworld/reach-v3", "paper")
    metaworld = [id for id in task_ids() if id.startswith("metaworld/")]
    assert len(metaworld) == 50
    for id in metaworld:
        found = _preset(method, id, "paper")
        assert (found.algorithm, found.total_env_steps) == (reach.algorithm, reach.total_env_steps)
    listed = {task for _, _, task in CASES}
    assert {id for id in task_ids() if id.startswith("top_erl/")} - {REACHER} <= listed


@pytest.mark.parametrize(("method", "family", "task"), CASES)
def test_paper_runs(method: str, family: str, task: str) -> None:
    """As long as TCE's, about a hundred evaluations, an episode per environment and iteration at least."""
    found = _preset(method, task, "paper")
    steps = {"box_dense": 114e6, "box_sparse": 57e6, "hopper": 48e6, "metaworld": 60.8e6}[family]
    collect = found.algorithm.collect
    assert found.total_env_steps == steps
    assert found.evaluation.episodes == 152
    assert 99 <= steps / collect.steps / found.evaluation.interval <= 140
    assert collect.steps_per_environment >= found.spec.horizon
    assert not collect.observe_time
    assert collect.reward_scale == 1.0
    assert collect.bootstrap == (found.algorithm.learn.discount < 1.0)
    if (method, family) != ("gsde", "hopper"):  # 8192 steps are no whole episodes of 250
        assert collect.steps_per_environment % found.spec.horizon == 0


@pytest.mark.parametrize("method", METHODS)
def test_other_tasks_have_metaworlds_numbers(method: str) -> None:
    reach, other = _preset(method, "metaworld/reach-v3", "paper"), _preset(method, REACHER, "paper")
    assert replace(other.algorithm, collect=reach.algorithm.collect) == reach.algorithm
    assert other.total_env_steps == reach.total_env_steps
    if method in ("ppo", "gsde"):
        assert other.algorithm == reach.algorithm
        long = METHODS[method](replace(reach.spec, id="my_lab/Long-v0", horizon=3000), "paper")[0]
        assert long.collect.steps == reach.algorithm.collect.steps
        assert long.collect.steps_per_environment == 3200  # 5 environments


# ---------------------------------------------------------------------- laptop scale


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("task", [REACHER, *sorted({task for _, _, task in CASES})])
def test_laptop_invariants(method: str, task: str) -> None:
    found = _preset(method, task, "laptop")
    collect, horizon = found.algorithm.collect, found.spec.horizon
    assert 8 <= collect.environments <= 16
    assert collect.steps_per_environment % horizon == 0
    assert 3200 <= collect.steps <= 4800
    assert collect.observe_time
    assert not collect.bootstrap
    assert found.total_env_steps == 1000 * max(4, min(16, 800 // horizon)) * horizon  # as many as TOP-ERL's
    networks = found.algorithm.networks
    assert max(*networks.policy_hidden, *networks.critic_hidden) <= 128
    if isinstance(found.algorithm, SacConfig):
        assert networks.noise == {"sac": "white", "pink": "pink"}[method]
        assert found.algorithm.learn.update_every / found.algorithm.learn.gradient_steps == 8
    else:
        assert networks.use_sde == (method == "gsde")


@pytest.mark.parametrize("horizon", [1, 7, 51, 333, 501, 3000])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scale", ["laptop", "paper"])
def test_presets_suit_any_horizon(method: str, scale: str, horizon: int) -> None:
    """A configuration checks itself, so making one is the test."""
    spec = replace(make_task(REACHER).spec, id="my_lab/Any-v0", horizon=horizon)
    config = METHODS[method](spec, scale)[0]
    assert config.collect.steps_per_environment >= horizon
    assert config.episodes_per_iteration(horizon) >= 1.0
