"""Exported graphs plan what agents predict, for every episodic method and every kind of primitive."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import Tensor

from tests.experiment.variations import SMALL
from tests.export.conftest import MakeAgent
from top_erl import Agent, Limits
from top_erl.algorithms.registry import METHODS
from top_erl.cli import main
from top_erl.errors import UserError
from top_erl.export.export import export_policy
from top_erl.export.parity import fresh_contexts
from top_erl.primitives import ProDmp, Reference, register_primitive
from top_erl.runtime import Policy

EPISODIC = [method.name for method in METHODS if not method.acts_by_steps]
KINDS: dict[str, dict[str, Any]] = {
    "prodmp absolute": {"primitive__relative_goal": False},
    "prodmp at rest": {"primitive__end_at_rest": True},
    "promp": {"primitive__kind": "promp", "algorithm__learn__critic_condition": "episode"},
    "promp padded": {"primitive__kind": "promp", "primitive__num_zero_start": 2, "primitive__num_zero_goal": 1},
    "dmp": {"primitive__kind": "dmp", "primitive__weights_scale": 20.0},
    "bspline": {"primitive__kind": "bspline", "primitive__degree": 5, "primitive__end_at_rest": True},
    "relu": {"algorithm__policy__activation": "relu", "algorithm__policy__hidden": (8,)},
    "tanh": {"algorithm__policy__activation": "tanh", "standardised": False},
}
Output = pytest.CaptureFixture[str]


def _differences(agent: Agent, file: Path) -> list[float]:
    """How far each backend is from the agent, on contexts and states of this test's own."""
    random = np.random.default_rng(5)
    observation, position, velocity = fresh_contexts(agent, 40)
    observation = observation + random.normal(size=observation.shape)
    velocity = velocity + random.normal(size=velocity.shape)
    expected = agent.predict(observation, position, velocity)
    assert isinstance(expected, Reference)
    found = []
    for backend in ("numpy", "onnxruntime"):
        planned = Policy.load(file, backend)(observation, position, velocity)  # type: ignore[arg-type]
        assert planned.position.shape == (40, 50, 5)
        stacked = np.concatenate((planned.position, planned.velocity), axis=-1)
        found.append(float(np.abs(stacked - expected.stacked().numpy()).max()))
        single = Policy.load(file, backend)(observation[3], position[3], velocity[3])  # type: ignore[arg-type]
        assert np.abs(single.position - planned.position[3]).max() < 1e-5
    assert float(expected.position.std(0).max()) > 0.05  # contexts matter
    return found


@pytest.mark.parametrize("method", EPISODIC)
def test_every_method(make_agent: MakeAgent, method: str, tmp_path: Path) -> None:
    agent = make_agent(method)
    _, card = export_policy(agent, tmp_path / "policy.onnx")
    assert max(card["parity"]["largest_difference"].values()) <= 1e-5
    assert max(_differences(agent, tmp_path / "policy.onnx")) <= 1e-5
    assert sorted(file.name for file in tmp_path.iterdir()) == ["policy.json", "policy.onnx"]


@pytest.mark.parametrize("name", KINDS)
def test_every_primitive_and_network(make_agent: MakeAgent, name: str, tmp_path: Path) -> None:
    method = "bbrl_cov" if name == "promp padded" else "top_erl"
    agent = make_agent(method, **KINDS[name])
    export_policy(agent, tmp_path / "policy.onnx")
    assert max(_differences(agent, tmp_path / "policy.onnx")) <= 1e-5


def test_the_graph_and_its_card(make_agent: MakeAgent, tmp_path: Path) -> None:
    limits = Limits(position=(-3.0, [3.0, 3.0, 3.0, 3.0, 4.0]), velocity=20.0)
    file = tmp_path / "policy.onnx"
    card_file, _ = export_policy(make_agent(), file, limits=limits)
    model = onnx.load(str(file))
    shapes = {
        value.name: [entry.dim_param or entry.dim_value for entry in value.type.tensor_type.shape.dim]
        for value in (*model.graph.input, *model.graph.output)
    }
    assert shapes == {
        "observation": ["batch", 16],
        "position": ["batch", 5],
        "velocity": ["batch", 5],
        "desired_position": ["batch", 50, 5],
        "desired_velocity": ["batch", 50, 5],
    }
    card = json.loads(card_file.read_text(encoding="utf-8"))
    assert card["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    wanted = {"task": "top_erl/ViaPointReacher-v0", "task_version": "1", "method": "top_erl", "training_steps": 0}
    sizes = {"observation_dim": 16, "num_dof": 5, "horizon": 50, "dt": 0.02, "duration": 1.0, "seed": 0}
    assert {**card, **wanted, **sizes} == card
    assert (card["dof_names"][0], card["dof_units"]) == ("joint1", ["rad"] * 5)
    assert card["primitive"]["kind"] == "prodmp"
    assert card["success_rule"].startswith("The tip is within")
    assert set(card["versions"]) == {"top-erl", "torch", "numpy", "onnx"}
    assert Limits.from_dict(card["limits"], 5) == Policy.load(file).limits == limits
    assert card["parity"]["contexts"] >= 32


def test_large_references_are_compared_by_their_last_digits(make_agent: MakeAgent, tmp_path: Path) -> None:
    agent = make_agent(primitive__weights_scale=100.0, primitive__goal_scale=100.0)
    _, card = export_policy(agent, tmp_path / "policy.onnx")
    assert max(card["parity"]["largest_difference"].values()) > 1e-5


class Wavy(ProDmp):
    """Not linear: what it plays is not what its matrix says."""

    def trajectory(self, params: Tensor, *arguments: Any, **options: Any) -> Reference:
        reference = super().trajectory(params, *arguments, **options)
        return Reference(reference.position + 1e-2 * torch.sin(reference.position), reference.velocity)


def test_a_graph_that_differs_is_not_left_behind(make_agent: MakeAgent, tmp_path: Path) -> None:
    register_primitive("wavy", Wavy)
    agent, file = make_agent(primitive__kind="wavy"), tmp_path / "policy.onnx"
    with pytest.raises(UserError, match=r"^Nothing was exported: computed by numpy, the graph differs .* is allowed;"):
        export_policy(agent, file)
    assert list(tmp_path.iterdir()) == []
    file.write_text("mine")
    with pytest.raises(UserError, match="Nothing was exported"):
        export_policy(agent, file, force=True)
    assert file.read_text() == "mine"


def test_what_cannot_be_exported_says_so(make_agent: MakeAgent, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"sac chooses an action at every step and plans no reference: runs of top_erl"):
        export_policy(make_agent("sac"), tmp_path / "policy.onnx")
    with pytest.raises(UserError, match=r"a file that ends in \.onnx, not to"):
        export_policy(make_agent(), tmp_path / "policy.pt")
    with pytest.raises(UserError, match="The limit of the velocity has 3 numbers; give 1, or 5"):
        export_policy(make_agent(), tmp_path / "policy.onnx", limits=Limits(velocity=[1.0, 2.0, 3.0]))
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="Cannot write"):
        export_policy(make_agent(), tmp_path / "file" / "policy.onnx")
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


# ---------------------------------------------------------------------- from the command line


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny trained run on the toy task, whose observation does not say the measured state."""
    path = tmp_path_factory.mktemp("export") / "run"
    assert main(["train", *SMALL, "--total-env-steps=100", "--run-dir", str(path)]) == 0
    return path


def _export(run: Path, *words: object) -> int:
    return main(["export", str(run), "--task", "tests.rollout.toy_tasks:ToyTask", *map(str, words)])


def test_a_trained_run(run: Path, tmp_path: Path, capsys: Output) -> None:
    limits, file = tmp_path / "limits.yaml", tmp_path / "arm.onnx"
    limits.write_text("velocity: [50, 60]\nposition: [-9, 9]\n")
    assert _export(run, "-o", file, "--limits", limits) == 0
    assert capsys.readouterr().out.endswith("on 64 fresh contexts.\n")
    policy = Policy.load(file)
    assert policy.card["training_steps"] >= 100
    assert policy.card["checkpoint_iteration"] > 0
    assert policy.card["dof_names"] == ["dof0", "dof1"]
    assert policy.card["dof_units"] is None
    agent = Agent.load(run, task="tests.rollout.toy_tasks:ToyTask")
    state = ([0.2, 0.5, -0.5], [0.5, -0.5], [0.1, 0.2])
    expected = agent.predict(*state)
    agent.close()
    assert isinstance(expected, Reference)
    np.testing.assert_allclose(policy(*state).position, expected.position.numpy(), rtol=0, atol=1e-5)
    before = file.read_bytes()
    assert _export(run, "-o", file) == 2
    assert "arm.onnx is there already; give another name with -o, or --force" in capsys.readouterr().err
    assert _export(run, "-o", file, "--force") == 0
    assert file.read_bytes() == before  # the same policy gives the same bytes
    assert Policy.load(file).limits is None


def test_the_best_checkpoint_can_be_exported(run: Path, tmp_path: Path) -> None:
    assert _export(run, "-o", tmp_path / "best.onnx", "--which", "best") == 0
    best = Agent.load(run, task="tests.rollout.toy_tasks:ToyTask", which="best")
    assert Policy.load(tmp_path / "best.onnx").card["checkpoint_iteration"] == best.training.progress.iteration
    best.close()


def test_references_of_contexts(run: Path, tmp_path: Path, capsys: Output) -> None:
    contexts, output = tmp_path / "contexts.csv", tmp_path / "references.csv"
    contexts.write_text("a,b,c,q0,q1,v0,v1\n0.2,0.5,-0.5,0.5,-0.5,0.1,0.2\n0.9,0.5,-0.5,0.4,-0.5,0,0\n")
    assert _export(run, "--csv", contexts, "-o", output) == 0
    assert f"References of 2 context(s): {output}" in capsys.readouterr().out
    lines = output.read_text().splitlines()
    assert lines[0] == "context,time,position_dof0,position_dof1,velocity_dof0,velocity_dof1"
    table = np.array([[float(word) for word in line.split(",")] for line in lines[1:]])
    assert table[:, 0].tolist() == [0] * 7 + [1] * 7
    np.testing.assert_allclose(table[:7, 1], 0.1 * np.arange(7))
    assert table[7, 2:].tolist() == [0.4, -0.5, 0.0, 0.0]
    agent = Agent.load(run, task="tests.rollout.toy_tasks:ToyTask")
    reference = agent.predict([0.9, 0.5, -0.5], [0.4, -0.5], [0.0, 0.0])
    agent.close()
    assert isinstance(reference, Reference)
    np.testing.assert_allclose(
        table[8:, 2:], reference.stacked().numpy(), rtol=0, atol=1e-6
    )  # a batch rounds otherwise


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("1,2\n", "Row 1 of .* is not a context: it needs 3 finite numbers, the observation, or 7"),
        ("a,b,c\n1,2,nan\n", "Row 2 of .* is not a context"),
        ("a,b,c\n", "needs rows of contexts, all with the same columns"),
        ("1,2,3\n1,2,3,4,5,6,7\n", "needs rows of contexts, all with the same columns"),
        ("1,2,3\n", "toy does not say where its observation holds the robot's position and velocity"),
    ],
)
def test_contexts_that_cannot_be_used(run: Path, text: str, sentence: str, tmp_path: Path) -> None:
    from top_erl.export.references import export_references

    (tmp_path / "contexts.csv").write_text(text)
    agent = Agent.load(run, task="tests.rollout.toy_tasks:ToyTask")
    with pytest.raises(UserError, match=sentence):
        export_references(agent, tmp_path / "contexts.csv", tmp_path / "out.csv")
    agent.close()
    assert not (tmp_path / "out.csv").exists()


def test_references_are_held_to_limits(run: Path, tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "contexts.csv").write_text("0.2,0.5,-0.5,0.5,-0.5,0.1,0.2\n")
    (tmp_path / "limits.json").write_text(json.dumps({"position": [0.45, 0.55]}))
    words = ("--csv", tmp_path / "contexts.csv", "-o", tmp_path / "out.csv", "--limits", tmp_path / "limits.json")
    assert _export(run, *words) == 2
    assert "This reference must not be played: the position of joint 1 is" in capsys.readouterr().err
    assert not (tmp_path / "out.csv").exists()
