"""Playing an exported policy: without torch, fast, and with a sentence for what must not reach a robot."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.export.conftest import MakeAgent
from top_erl.errors import UserError
from top_erl.export.export import export_policy
from top_erl.limits import Limits
from top_erl.runtime import PlannedReference, Policy

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def exported(make_agent: MakeAgent, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An exported policy; tests that change it take a copy."""
    file = tmp_path_factory.mktemp("runtime") / "policy.onnx"
    export_policy(make_agent(), file, limits=Limits(velocity=1000.0))
    return file


@pytest.fixture
def copy(exported: Path, tmp_path: Path) -> Path:
    for file in (exported, exported.with_suffix(".json")):
        shutil.copy(file, tmp_path)
    return tmp_path / "policy.onnx"


NOTHING = (np.zeros(16), np.zeros(5), np.zeros(5))


def test_numpy_alone_is_enough(exported: Path) -> None:
    """In a process where neither torch nor anything else that the package needs can be imported."""
    absent = ("torch", "gymnasium", "mujoco", "onnx", "onnxruntime", "yaml", "safetensors", "tyro", "rich")
    code = f"""
        import sys
        class Absent:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] in {absent}:
                    raise ModuleNotFoundError(name)
        sys.meta_path.insert(0, Absent())
        import importlib.util
        importlib.util.find_spec = lambda name, find=importlib.util.find_spec: None if name in {absent} else find(name)
        from top_erl.runtime import Policy
        plan = Policy.load({str(exported)!r})
        print(repr(plan([0.0] * 16, [0.0] * 5, [0.0] * 5).position[-1, 0]), not set({absent}) & set(sys.modules))
    """
    code = "\n".join(line[8:] for line in code.splitlines())
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    value, alone = done.stdout.replace("np.float64(", "").replace(")", "").split()
    assert alone == "True"
    assert float(value) == pytest.approx(Policy.load(exported)(*NOTHING).position[-1, 0], abs=1e-6)


@pytest.mark.parametrize("backend", ["numpy", "onnxruntime"])
def test_a_plan_takes_less_than_a_millisecond(exported: Path, backend: Any) -> None:
    """Processor time of this thread, since other work may share the machine."""
    plan, taken = Policy.load(exported, backend), []
    for _ in range(1000):
        began = time.thread_time()
        plan(*NOTHING)
        taken.append(time.thread_time() - began)
    assert float(np.median(taken)) < 1e-3


@pytest.mark.parametrize(
    ("place", "value", "sentence"),
    [
        (0, np.zeros(15), r"The observation has shape \(15,\); this policy needs \(16,\), or \(B, 16\)"),
        (0, np.full(16, np.nan), "Entry 0 of the observation is nan: do not move on it"),
        (1, [0, 0, 0, np.inf, 0], "Entry 3 of the position is inf: do not move on it"),
        (1, np.zeros((2, 5)), "Give one position and one velocity for each observation"),
        (1, np.zeros((0, 5)), r"The position has shape \(0, 5\)"),
        (2, ["fast"] * 5, "The velocity must be numbers, 5 of them"),
    ],
)
def test_wrong_inputs_are_refused(exported: Path, place: int, value: Any, sentence: str) -> None:
    given: list[Any] = list(NOTHING)
    given[place] = value
    with pytest.raises(UserError, match=sentence):
        Policy.load(exported)(*given)


def test_damaged_files_are_refused(copy: Path) -> None:
    card_file = copy.with_suffix(".json")
    model, card = copy.read_bytes(), json.loads(card_file.read_text())
    copy.write_bytes(model[:-1])
    with pytest.raises(UserError, match=r"policy.onnx is not the graph that policy.json belongs to"):
        Policy.load(copy)
    for cut in (0, 10, len(model) // 2, len(model) - 1):
        with pytest.raises(UserError, match="This is not the graph of an exported policy"):
            Policy(model[:cut], card)
    copy.write_bytes(model)
    with pytest.raises(UserError, match="Unknown backend 'numpi'; did you mean 'numpy'"):
        Policy.load(copy, "numpi")  # type: ignore[arg-type]
    for text, sentence in (
        (json.dumps({**card, "format": 3}), "has format 3, this version reads formats 1 and 2"),
        (json.dumps({**card, "format": 2}), "is not the card of an exported"),  # several plans, and none says how many
        (json.dumps({name: value for name, value in card.items() if name != "dt"}), "is not the card of an exported"),
        ("[]", "is not the card of an exported"),
        ("{", "is not the card of an exported"),
    ):
        card_file.write_text(text)
        with pytest.raises(UserError, match=sentence):
            Policy.load(copy)
    card_file.unlink()
    with pytest.raises(UserError, match="Cannot read the exported policy"):
        Policy.load(copy)


def test_a_reference_between_its_times() -> None:
    """y = t^3 - t, whose cubic is exact; by hand: y(0.25) = 0.015625 - 0.25, y'(0.25) = 3 / 16 - 1."""
    t = 0.1 * np.arange(11)[:, None]
    y, v = t**3 - t, 3 * t**2 - 1
    reference = PlannedReference(y[1:], v[1:], y[0], v[0], 0.1)
    assert reference.duration == pytest.approx(1.0)
    for time_, expected in ((0.25, (-0.234375, -0.8125)), (0.0, (0.0, -1.0)), (0.05, (-0.049875, -0.9925))):
        assert np.concatenate(reference.at(time_)) == pytest.approx(expected, abs=1e-12)
    assert np.concatenate(reference.at(1.0)) == pytest.approx((0.0, 2.0), abs=1e-12)
    assert np.concatenate(reference.at(1.01)) == pytest.approx((0.0, 0.0), abs=1e-12)
    for wrong in (-0.001, float("nan")):
        with pytest.raises(UserError, match="begins at time 0"):
            reference.at(wrong)


def test_batches_are_interpolated_too(exported: Path) -> None:
    plan = Policy.load(exported)
    batch = plan(np.zeros((3, 16)), np.arange(15.0).reshape(3, 5) / 10, np.zeros((3, 5)))
    single = plan(np.zeros(16), np.arange(5.0) / 10, np.zeros(5))
    for kind in range(2):
        np.testing.assert_allclose(batch.at(0.333)[kind][0], single.at(0.333)[kind], atol=1e-5)


def test_the_card_s_limits_are_checked(exported: Path) -> None:
    plan = Policy.load(exported)
    reference = plan(*NOTHING)
    plan.check(reference)
    with pytest.raises(UserError, match=r"must not be played: the velocity of joint \d is"):
        plan.check(reference, Limits(velocity=1e-3))
    assert reference.exceeds(Limits(velocity=1e-3))
