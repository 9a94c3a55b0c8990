"""Callbacks: the hooks, their order, and how they stop a run."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from top_erl import BaseCallback, CallbackList, RunConfig, StopAtSuccess, TopErl
from top_erl.errors import UserError
from top_erl.experiment.callbacks import FunctionCallback, as_callback
from top_erl.experiment.run import run_training


class Diary(BaseCallback):
    """Writes down its hooks."""

    def __init__(self, stop_at: int = 1000) -> None:
        super().__init__(verbose=1)
        self.lines: list[str] = []
        self.stop_at = stop_at

    def _init_callback(self) -> None:
        self.lines.append(f"init {type(self.model).__name__}")

    def _on_training_start(self) -> None:
        self.lines.append("start")

    def _on_rollout_start(self) -> None:
        self.lines.append("rollout")

    def _on_rollout_end(self) -> None:
        self.lines.append("updated")

    def _on_step(self) -> bool:
        self.lines.append(f"step {self.n_calls} {self.num_timesteps} {int(self.metrics['iteration'])}")
        return self.n_calls < self.stop_at

    def _on_training_end(self) -> None:
        self.lines.append("end")


ROUND = ["rollout", "updated"]


def test_order_and_counts_of_hooks(tiny: RunConfig) -> None:
    diary = Diary()
    agent = TopErl(config=tiny)
    agent.learn(6 * (4 + 2 * 3), diary, progress_bar=False)
    expected = ["init TopErl", "start", *ROUND, "step 1 42 1", *ROUND, "step 2 60 2", "end"]
    assert diary.lines == expected
    assert agent.last_run.finished
    agent.close()


@pytest.mark.parametrize("listed", [False, True])
def test_false_stops_and_saves(tiny: RunConfig, tmp_path: Path, listed: bool) -> None:
    stopper, other = Diary(stop_at=2), Diary()
    agent = TopErl(config=tiny)
    agent.learn(10_000, [stopper, other] if listed else stopper, run_dir=tmp_path / "run", progress_bar=False)
    assert agent.num_timesteps == 6 * 10
    assert agent.last_run.finished  # it is not an interruption
    assert agent.last_run.last_row["iteration"] == 2
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["00000002"]
    if listed:
        assert other.lines == stopper.lines  # every one is asked, also when the first says stop
    loaded = TopErl.load(tmp_path / "run")
    assert loaded.num_timesteps == agent.num_timesteps
    for one in (agent, loaded):
        one.close()


def test_a_function(tiny: RunConfig) -> None:
    rows: list[float] = []

    def function(row: dict[str, float]) -> bool | None:
        rows.append(row["iteration"])
        return False if row["iteration"] == 3 else None

    agent = TopErl(config=tiny).learn(10_000, function, progress_bar=False)
    assert rows == [1, 2, 3]
    agent.close()


def test_what_counts_as_a_callback() -> None:
    diary = Diary()
    assert as_callback(diary) is diary
    assert type(as_callback(None)) is BaseCallback
    assert isinstance(as_callback([diary, diary]), CallbackList)
    assert isinstance(as_callback(lambda row: None), FunctionCallback)


class Hooks:
    """Has the hooks, but is no callback."""

    def _on_step(self) -> bool:
        return True


@pytest.mark.parametrize("wrong", [Hooks(), [Hooks()], Diary, "diary", 3])
def test_what_is_no_callback_gets_a_sentence(wrong: Any, tiny: RunConfig, tmp_path: Path) -> None:
    agent = TopErl(config=tiny)
    with pytest.raises(UserError, match=r"is not a callback: derive its class from top_erl.BaseCallback"):
        agent.learn(1000, wrong, run_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()  # nothing was begun
    agent.close()


def test_a_list_may_hold_functions() -> None:
    rows: list[dict[str, float]] = []
    both = as_callback([rows.append, StopAtSuccess(0.5)])
    assert both.on_step({"env_steps": 1.0})
    assert not both.on_step({"env_steps": 2.0, "evaluation_success": 0.6})
    assert len(rows) == 2


def test_stop_at_success() -> None:
    callback = StopAtSuccess(0.8)
    assert callback.on_step({"env_steps": 1.0})  # not evaluated in this iteration
    assert callback.on_step({"env_steps": 1.0, "evaluation_success": 0.79})
    assert not callback.on_step({"env_steps": 1.0, "evaluation_success": 0.8})


def test_an_exception_in_a_callback_comes_through(tiny: RunConfig, tmp_path: Path) -> None:
    def broken(row: dict[str, float]) -> bool | None:
        raise KeyError("mine")

    agent = TopErl(config=tiny)
    with pytest.raises(KeyError, match="mine"):
        agent.learn(1000, broken, run_dir=tmp_path / "run", progress_bar=False)
    assert len((tmp_path / "run" / "metrics.csv").read_text().splitlines()) == 2
    agent.close()


def test_training_works_outside_the_main_thread(tiny: RunConfig) -> None:
    """Signals can be caught in the main thread only."""
    agent, ends = TopErl(config=tiny), []
    thread = threading.Thread(target=lambda: ends.append(run_training(agent.training)))
    thread.start()
    thread.join()
    assert ends[0].finished
    agent.close()
