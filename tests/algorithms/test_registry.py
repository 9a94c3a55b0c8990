"""The list of methods: what the records say is so, and a method from outside is as good as one of ours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pytest

from top_erl import Agent, preset
from top_erl.algorithms.bbrl import BBRL_COV, BbrlRun
from top_erl.algorithms.bbrl.learner import BbrlLearner
from top_erl.algorithms.learner import Learner, StepwiseLearner
from top_erl.algorithms.method import Method
from top_erl.algorithms.registry import METHODS, find_method, register_method
from top_erl.algorithms.setup import Setup
from top_erl.cli import main
from top_erl.config.changes import changed
from top_erl.errors import UserError
from top_erl.experiment.configs import load_config
from top_erl.experiment.training import Training

TOY = "tests.rollout.toy_tasks:ToyTask"
REACHER = "top_erl/ViaPointReacher-v0"


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_a_record_says_what_is_so(method: Method) -> None:
    config = changed(preset(method.name, REACHER, "laptop"), {"hardware.threads": 1, "hardware.workers": 0})
    assert type(config) is method.run
    training = Training(config)
    training.close()
    assert isinstance(training.learner, StepwiseLearner) == method.acts_by_steps
    assert hasattr(training.learner, "replay") == method.stores_episodes
    assert hasattr(getattr(config.hyper_parameters, "trust_region", None), "anchor") == method.keeps_behaviour
    low = changed(config, {"hardware.precision": "bf16"})
    if method.has_bf16:
        training = Training(low)
        training.close()
        assert training.learner.bf16_route
    else:
        with pytest.raises(UserError, match=f"{method.name} has no matrix products in bf16, only top_erl has"):
            Training(low)


def test_a_name_finds_its_method() -> None:
    assert [find_method(method.name) for method in METHODS] == METHODS
    with pytest.raises(UserError, match="Unknown method 'top_erk'; did you mean 'top_erl'"):
        find_method("top_erk")


# ---------------------------------------------------------------------- a method from outside


@dataclass(frozen=True)
class MyRun(BbrlRun):
    """A run of a method of the user's."""

    method: Literal["mine"] = "mine"  # type: ignore[assignment]

    def __post_init__(self) -> None:
        """Allow any covariance."""


class MyLearner(BbrlLearner):
    """Counts its iterations."""

    iterations = 0

    def iterate(self, iteration: int) -> Any:
        """Count, and learn as BBRL does."""
        type(self).iterations += 1
        return super().iterate(iteration)


def _build(config: MyRun, setup: Setup) -> Learner:
    return MyLearner(config.algorithm, setup)


@pytest.fixture
def mine() -> Iterator[Method]:
    """A registered method, forgotten after the test."""
    method = Method("mine", "A method of my own.", MyRun, _build, BBRL_COV.preset)
    register_method(method)
    MyLearner.iterations = 0
    yield method
    METHODS.remove(method)


def test_it_is_trained_by_name(mine: Method, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "--method=mine", f"--task={TOY}", f"--run-dir={tmp_path / 'run'}", "--threads=1", "--workers=0"]
    assert main([*words, "--collect.episodes=4", "--learn.standardize=0", f"--total-env-steps={2 * 4 * 6}"]) == 0
    assert MyLearner.iterations == 2
    assert load_config(tmp_path / "run" / "config.yaml").method == "mine"
    assert Agent.load(tmp_path / "run", task=TOY).config.method == "mine"
    assert main(["methods"]) == 0
    assert "A method of my own." in capsys.readouterr().out


def test_it_is_an_agent(mine: Method) -> None:
    agent = Agent(REACHER, method="mine")
    assert isinstance(agent.training.learner, MyLearner)
    agent.close()


def test_names_are_taken_once(mine: Method) -> None:
    with pytest.raises(UserError, match="There is a method 'mine' already"):
        register_method(replace(mine))
