"""GTrXL's presets against the paper's tables, and what the laptop preset promises."""

from __future__ import annotations

import json
import math
from functools import reduce
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import torch

from top_erl.algorithms.step_based.gtrxl_config import GtrxlConfig, GtrxlLearnConfig
from top_erl.algorithms.step_based.gtrxl_policy import GtrxlPolicy
from top_erl.errors import UserError
from top_erl.experiment.config import EvaluationConfig
from top_erl.experiment.preset_gtrxl import gtrxl_preset
from top_erl.tasks import PrimitiveSettings, TaskSpec, make_task, task_ids

PUBLISHED: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "data" / "presets" / "gtrxl.json").read_text(encoding="utf-8")
)
COLUMNS: list[str] = PUBLISHED["columns"]
TASKS = [(family, task) for family, tasks in PUBLISHED["families"].items() for task in tasks]
REACHER = "top_erl/ViaPointReacher-v0"


def _preset(task: str, scale: str) -> tuple[TaskSpec, GtrxlConfig, int, EvaluationConfig]:
    spec = make_task(task).spec
    algorithm, primitive, steps, evaluation = gtrxl_preset(spec, scale)
    assert primitive is None
    return spec, algorithm, steps, evaluation


def _policy(config: GtrxlConfig) -> GtrxlPolicy:
    space = gym.spaces.Box(-1.0, 1.0, (6,))
    torch.manual_seed(0)
    return GtrxlPolicy(space, space, lambda _: config.learn.rate, config.network)


def _hidden_activation(config: GtrxlConfig) -> str:
    """What updates and hidden units look like: never negative, some zero, most not."""
    policy, seen = _policy(config), []
    for block in policy.transformer.blocks:
        block.mlp_out.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
        for gate in (block.gate_attention, block.gate_mlp):
            gate.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[1]))
    policy(torch.randn(100, 6))
    assert len(seen) == 3 * config.network.layers
    return "relu" if all(part.min() == 0.0 < part.max() for part in seen) else "another"


def _initialization(config: GtrxlConfig) -> str:
    """Xavier weights are uniform up to √(6 / (in + out))."""
    block = _policy(config).transformer.blocks[0]
    linears = (block.attention.query, block.attention.out, block.gate_mlp.of_reset, block.mlp_in, block.mlp_out)
    shares = [float(linear.weight.detach().abs().max()) / math.sqrt(6 / sum(linear.weight.shape)) for linear in linears]
    return "xavier" if all(0.98 < share <= 1.0 for share in shares) else "another"


def _value(spec: TaskSpec, config: GtrxlConfig, field: str) -> Any:
    """What a preset has for a field of the published tables."""
    computed = {
        "<episode length>": lambda: spec.horizon,
        "<optimizer>": lambda: type(_policy(config).optimizer).__name__.lower(),
        "<learning starts>": lambda: config.prefill_episodes,
        "<hidden activation>": lambda: _hidden_activation(config),
        "<initialization>": lambda: _initialization(config),
    }
    if field in computed:
        return computed[field]()
    return reduce(getattr, field.removeprefix("algorithm.").split("."), config)


@pytest.mark.parametrize(("family", "task"), TASKS)
def test_paper_scale_has_the_published_numbers(family: str, task: str) -> None:
    spec, config, _, _ = _preset(task, "paper")
    column = COLUMNS.index(family)
    expected = {row["name"]: row["paper"][column] for row in PUBLISHED["rows"] if row["paper"][column] is not None}
    found = {row["name"]: _value(spec, config, row["field"]) for row in PUBLISHED["rows"] if row["name"] in expected}
    assert found == {name: pytest.approx(v, rel=1e-9) if isinstance(v, float) else v for name, v in expected.items()}


def test_what_no_table_says() -> None:
    _, config, steps, evaluation = _preset("metaworld/reach-v3", "paper")
    network = config.network
    assert (network.width, network.mlp_width, network.memory_length, network.gate_bias) == (64, 32, 50, 2.0)
    assert (config.learn.critic_weight, config.learn.max_gradient) == (0.5, 0.5)
    assert config.learn.critic_clip_of == "error"
    assert steps == 60_800_000
    assert evaluation == EvaluationConfig(interval=32, episodes=152)
    assert config.episodes_per_iteration(500) == 38


def test_all_tasks_of_the_paper_have_their_familys_numbers() -> None:
    """All 50 Meta-World tasks alike, and every Box Pushing and Hopper Jump task is in the table."""
    reach = _preset("metaworld/reach-v3", "paper")[1:]
    metaworld = [id for id in task_ids() if id.startswith("metaworld/")]
    assert len(metaworld) == 50
    assert all(_preset(id, "paper")[1:] == reach for id in metaworld)
    listed = {task for _, task in TASKS}
    assert {id for id in task_ids() if id.startswith("top_erl/")} - {REACHER} <= listed


@pytest.mark.parametrize("scale", ["laptop", "paper"])
@pytest.mark.parametrize("task", [REACHER, *(task for _, task in TASKS)])
def test_environments_play_whole_episodes(task: str, scale: str) -> None:
    spec, config, _, _ = _preset(task, scale)
    assert config.collect.steps_per_environment % spec.horizon == 0
    assert 8 <= config.collect.environments <= 20


@pytest.mark.parametrize(("family", "task"), TASKS)
def test_undiscounted_episodes_end(family: str, task: str) -> None:
    """Without a discount, values of episodes that go on in thought have no limit."""
    _, config, _, _ = _preset(task, "paper")
    assert config.collect.bootstrap == (config.learn.discount < 1.0) == (family in ("box_dense", "metaworld"))


@pytest.mark.parametrize("task", [REACHER, *(task for _, task in TASKS)])
def test_laptop_invariants(task: str) -> None:
    spec, config, steps, evaluation = _preset(task, "laptop")
    _, large, _, _ = _preset(task, "paper")
    assert config.collect.reward_scale == pytest.approx(10.0 / (1500.0 if "Box" in task else spec.return_size))
    assert 3000 <= config.collect.steps <= 5000
    assert config.network.width * config.network.layers < large.network.width * large.network.layers / 2
    assert 4000 <= steps / spec.horizon <= 16_000
    assert evaluation.episodes <= 100


@pytest.mark.parametrize("horizon", [7, 333, 4096, 50_000])
@pytest.mark.parametrize("scale", ["laptop", "paper"])
def test_any_horizon_has_a_preset(horizon: int, scale: str) -> None:
    spec = TaskSpec("tests/Odd-v0", 3, 2, horizon, dt=0.1, metrics=(), primitive=PrimitiveSettings())
    config, _, steps, _ = gtrxl_preset(spec, scale)
    assert config.collect.steps_per_environment >= horizon
    assert steps > config.collect.steps


@pytest.mark.parametrize(
    "wrong",
    [{"epochs": 0}, {"batch_size": 1}, {"rate": 0.0}, {"initial_std": 0.0}, {"critic_clip": -1.0}, {"discount": 1.1}],
)
def test_numbers_that_make_no_sense(wrong: dict[str, float]) -> None:
    with pytest.raises(UserError, match="learn"):
        GtrxlLearnConfig(**wrong)  # type: ignore[arg-type]
