"""The library is extended from outside, in under forty lines each, and what was added trains."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from top_erl import Agent
from top_erl.algorithms.registry import METHODS
from top_erl.algorithms.top_erl.targets import TARGETS
from top_erl.cli import main
from top_erl.config.changes import changed
from top_erl.experiment.presets import preset
from top_erl.models import CriticConfig, Sequences, TransformerCritic
from top_erl.primitives import PrimitiveConfig, make_primitive
from top_erl.primitives.registry import _FACTORIES

ARM = "top_erl/ViaPointReacher-v0"
SMALL = {"hardware.threads": 1, "hardware.workers": 0, "evaluation.episodes": 2}
FEW = {"algorithm.learn.critic_steps": 3, "algorithm.learn.policy_steps": 2}
EXTENSIONS: dict[str, tuple[str, str, Mapping[str, Any]]] = {
    "target": (ARM, "top_erl", {**FEW, "algorithm.learn.target": "mixed"}),
    "primitive": (ARM, "top_erl", {**FEW, "primitive.kind": "cubic"}),
    "method": (ARM, "rank", {}),
    "task": ("tests.extensions.task:ReachPoint", "top_erl", FEW),
    "critic": (ARM, "history", FEW),
}
"""Task, method and settings that use each extension."""


@pytest.fixture(autouse=True)
def _forgotten_afterwards() -> Iterator[None]:
    """What a test registers is gone afterwards, and can be registered again."""
    methods, targets, primitives = list(METHODS), dict(TARGETS), dict(_FACTORIES)
    yield
    METHODS[:] = methods
    for table, before in ((TARGETS, targets), (_FACTORIES, primitives)):
        table.clear()
        table.update(before)  # type: ignore[arg-type]


def _extend(name: str) -> Any:
    sys.modules.pop(f"tests.extensions.{name}", None)
    return importlib.import_module(f"tests.extensions.{name}")


@pytest.mark.parametrize("name", EXTENSIONS)
def test_an_extension_is_short_and_trains(name: str) -> None:
    source = (Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8")
    assert len(source.splitlines()) < 40
    _extend(name)
    task, method, changes = EXTENSIONS[name]
    config = changed(preset(method, task, "laptop"), {**changes, **SMALL})
    agent = Agent(config=config)
    try:
        before = agent.training.checkpoint().state["policy.mean_net.0.weight"].clone()
        rows = [agent.training.advance() for _ in range(2)]
        after = agent.training.checkpoint().state["policy.mean_net.0.weight"]
    finally:
        agent.close()
    assert [row["iteration"] for row in rows] == [1, 2]
    assert all(math.isfinite(float(row["policy_loss"])) for row in rows)
    assert not torch.equal(before, after)


def test_the_mixed_target_differs_from_both_it_is_made_of() -> None:
    _extend("target")
    losses = set()
    for target in ("v", "q", "mixed"):
        config = changed(preset("top_erl", ARM, "laptop"), {**FEW, **SMALL, "algorithm.learn.target": target})
        agent = Agent(config=config)
        losses.add(agent.training.advance()["critic_loss"])
        agent.close()
    assert len(losses) == 3


def test_the_cubic_starts_and_ends_where_it_should() -> None:
    _extend("primitive")
    primitive = make_primitive(PrimitiveConfig(kind="cubic", tau=2.0), num_dof=1, dt=0.01)
    times = torch.linspace(0.5, 2.0, 151, dtype=torch.float64)
    goal, position, velocity = (torch.tensor([value], dtype=torch.float64) for value in (3.0, 1.0, -2.0))
    reference = primitive.trajectory(goal, times, 0.5, position, velocity)
    assert reference.position[[0, -1], 0].tolist() == [1.0, 3.0]
    assert reference.velocity[[0, -1], 0].tolist() == [-2.0, 0.0]
    slopes = reference.position.diff(dim=0) / 0.01
    torch.testing.assert_close(slopes, (reference.velocity[1:] + reference.velocity[:-1]) / 2, rtol=0, atol=1e-3)


def test_the_history_critic_sees_three_states_and_no_more() -> None:
    module = _extend("critic")
    config = CriticConfig(width=16, heads=2, layers=2, max_positions=12)
    torch.manual_seed(0)
    plain, history = TransformerCritic(config, 5, 4).eval(), module.HistoryCritic(config, 5, 4).eval()
    states, actions = torch.randn(2, 12, 5), torch.randn(2, 1, 3, 4)
    where = (torch.tensor([6]), actions, torch.tensor([3]))
    for critic, looks_back in ((plain, 0), (history, 2)):
        values = critic(Sequences(states, *where))  # [B, 1, L + 1]
        assert values.shape == (2, 1, 4)
        for back in range(4):
            other = states.clone()
            other[:, 6 - back] += 1.0
            same = torch.equal(critic(Sequences(other, *where)), values)
            assert same == (back > looks_back)


def test_an_extension_reaches_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sys.modules.pop("tests.extensions.critic", None)
    run, named = str(tmp_path / "run"), ["--import", "tests.extensions.critic"]
    few = ["--learn.critic-steps=1", "--learn.policy-steps=1", "--evaluation.episodes=2", "--threads=1", "--workers=0"]
    words = ["train", "--method=history", "--total-env-steps=2400", "--run-dir", run, "--log.no-tensorboard", *few]
    assert main(words) == 2
    assert "Unknown method 'history'" in capsys.readouterr().err
    assert main([*words, *named]) == 0
    assert f"top-erl evaluate {run} --import tests.extensions.critic" in capsys.readouterr().out.replace("\n", "")
    assert main(["evaluate", run, "--episodes=2", "--import=tests.extensions.critic"]) == 0
    assert main(["evaluate", run, "--import", "no_such_module"]) == 2
    assert "Cannot import the module 'no_such_module'" in capsys.readouterr().err
