"""`success_any`: solved after any step, beside `success` at the last, of whole episodes, of steps, and in runs."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.tasks.solved_on_the_way import ANY, LAST, TASKS, Line, line_references
from top_erl.cli import main
from top_erl.cli.video import result_words
from top_erl.config.run import RunConfig
from top_erl.errors import RunStopped, UserError
from top_erl.experiment.callbacks import FunctionCallback
from top_erl.experiment.folder import RunFolder
from top_erl.experiment.metrics_file import Row, read_metrics
from top_erl.experiment.run import run_training
from top_erl.experiment.training import Training
from top_erl.rollout.collector import Scores
from top_erl.rollout.pool import make_player
from top_erl.tasks import EpisodeOutcomes, GymnasiumTask, Task, make_task
from top_erl.tasks.stepping import StepEnvironment

Array = NDArray[np.float64]

LINE = TASKS["line"][0]


@pytest.mark.parametrize("name", TASKS)
def test_solved_on_the_way_at_the_end_and_never(name: str) -> None:
    id, references = TASKS[name]
    task = make_task(id)
    reference = references(task.begin([0, 1, 2]))
    outcomes = task.play(reference)
    assert outcomes.metrics["success"].tolist() == LAST
    assert outcomes.metrics["success_any"].tolist() == ANY
    _assert_the_same(_played_by_workers(id, reference), outcomes)
    assert _played_by_steps(task, reference) == {name: values.tolist() for name, values in outcomes.metrics.items()}
    task.close()


def _played_by_workers(id: str, reference: Array) -> EpisodeOutcomes:
    player = make_player(make_task(id), id, 1)
    try:
        player.begin([0, 1, 2])
        player.play(reference)
        return player.outcomes()
    finally:
        player.close()


def _assert_the_same(found: EpisodeOutcomes, expected: EpisodeOutcomes) -> None:
    assert not found.failures
    assert found.reward.tobytes() == expected.reward.tobytes()
    assert {name: values.tolist() for name, values in found.metrics.items()} == {
        name: values.tolist() for name, values in expected.metrics.items()
    }


def _played_by_steps(task: Task, reference: Array) -> dict[str, list[float]]:
    """Metrics if the task's controller chooses the actions of a step environment, one episode after another."""
    assert isinstance(task, GymnasiumTask)
    environment, dof = StepEnvironment(task), task.spec.num_dof
    measured = []
    for seed, rows in enumerate(reference):
        environment.reset(seed)
        for row in rows:
            environment.step(task.control(environment._env, row[:dof], row[dof:]))
        measured.append(environment.metrics())
    environment.close()
    return {name: [values[name] for values in measured] for name in task.spec.metrics}


def test_an_early_end_is_the_last_step() -> None:
    """The environment ends after three steps, at 1.05, 0.4 and 0.85."""
    task = type("Short", (Line,), {"end": 3})()
    task.begin([0, 1, 2])
    outcomes = task.play(line_references())
    assert outcomes.metrics["success"].tolist() == outcomes.metrics["success_any"].tolist() == [1.0, 0.0, 0.0]


def test_a_task_may_say_itself_when_it_is_solved() -> None:
    """By a cheaper rule after each step, asked until it says yes; or in `metrics`, which has the last word."""

    class Cheap(Line):
        asked = 0

        def is_solved(self, env: Any, info: dict[str, Any]) -> bool:
            self.asked += 1
            return bool(env.place[0] > 1.1)

    class Knows(Line):
        def metrics(self, env: Any, info: dict[str, Any]) -> Mapping[str, float]:
            return {**super().metrics(env, info), "success_any": 1.0}

    cheap, knows = Cheap(), Knows()
    for task, expected in ((cheap, [1.0, 0.0, 1.0]), (knows, [1.0, 1.0, 1.0])):
        task.begin([0, 1, 2])
        assert task.play(line_references()).metrics["success_any"].tolist() == expected
        assert _played_by_steps(task, line_references())["success_any"] == expected
    assert cheap.asked == 2 * (4 + 6 + 5)


def test_tasks_that_do_not_name_it_are_not_asked() -> None:
    class Plain(Line):
        spec = replace(Line.spec, metrics=("success", "missed"))

        def is_solved(self, env: Any, info: dict[str, Any]) -> bool:
            raise AssertionError("asked")

    task = Plain()
    task.begin([0, 1, 2])
    assert task.play(line_references()).metrics.keys() == {"success", "missed"}
    assert _played_by_steps(task, line_references())["success"] == LAST


def test_mistakes_are_told() -> None:
    with pytest.raises(UserError, match="tests/Line names the metric success_any; its metrics must name success as"):
        replace(Line.spec, metrics=("success_any", "missed"))

    class Broken(Line):
        def is_solved(self, env: Any, info: dict[str, Any]) -> bool:
            return bool(info["solved"])

    class Forgets(Line):
        def metrics(self, env: Any, info: dict[str, Any]) -> Mapping[str, float]:
            return {"missed": 0.0}

    with pytest.raises(RunStopped, match="tests/Line raised KeyError at step 0 of the episode with seed 0: 'solved'"):
        _played_by_steps(Broken(), line_references())
    task = Forgets()
    task.begin([0, 1, 2])
    with pytest.raises(UserError, match=r"measured \['missed', 'success_any'\] at the end .* names \['missed', 'succ"):
        task.play(line_references())


# ---------------------------------------------------------------------- runs


def _numbers(path: Path, without: str = "_time") -> list[Row]:
    rows = read_metrics(path / "metrics.csv")
    left_out = ("wall_time", "steps_per_second")
    return [{k: v for k, v in row.items() if k not in left_out and not k.endswith(without)} for row in rows]


def _run(config: RunConfig, path: Path, iterations: int) -> None:
    training, folder = Training(config), RunFolder(path)
    folder.create(training)
    try:
        run_training(training, folder, FunctionCallback(lambda row: row["iteration"] < iterations))
    finally:
        training.close()


def test_a_run_begun_before_is_resumed(tiny: RunConfig, tmp_path: Path) -> None:
    """Its first rows have no such column and no horizon is recorded; all other numbers are the same bit by bit."""
    config = replace(tiny, task=LINE, evaluation=replace(tiny.evaluation, interval=2))
    whole, old = tmp_path / "whole", tmp_path / "old"
    _run(config, whole, 6)
    _run(config, old, 3)
    with (old / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    kept = [name for name in rows[0] if not name.endswith("success_any")]
    assert len(kept) == len(rows[0]) - 2
    with (old / "metrics.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, kept, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    fingerprint = json.loads((old / "fingerprint.json").read_text())
    del fingerprint["horizon"]
    (old / "fingerprint.json").write_text(json.dumps(fingerprint))
    for path in (old / "checkpoints").glob("*/meta.json"):  # of the format of then, which did not know the rows
        meta = json.loads(path.read_text())
        path.write_text(json.dumps({"format": 1, **{key: meta[key] for key in ("progress", "belongs_to", "files")}}))

    assert main(["resume", str(old), f"--task={LINE}"]) == 0
    assert _numbers(old, "success_any") == _numbers(whole, "success_any")
    assert ["exploration_success_any" in row for row in _numbers(old)] == [False] * 3 + [True] * 3
    assert _numbers(old)[3:] == _numbers(whole)[3:]


def test_evaluation_shows_and_writes_it(tiny: RunConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, file = tmp_path / "run", tmp_path / "evaluation.json"
    _run(replace(tiny, task=LINE), run, 1)
    capsys.readouterr()
    words = ["evaluate", str(run), "--episodes=4", f"--task={LINE}", "--json", str(file)]
    assert main(words) == 0
    assert "success_any" in capsys.readouterr().out
    numbers = json.loads(file.read_text())
    assert len(numbers["success_any"]) == 4
    assert all(a >= b for a, b in zip(numbers["success_any"], numbers["success"], strict=True))


@pytest.mark.parametrize("id", ["metaworld/reach-v3", "top_erl/BoxPushingSparse-v0"])
def test_a_task_is_shown_with_both_rules(id: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", id]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "success rule After the last step" in out
    assert "success any The same rule after any step of the episode" in out


def test_films_say_how_it_went() -> None:
    words = []
    for last, any_step in ((0.0, 1.0), (1.0, 1.0), (0.0, 0.0)):
        metrics = {"success": last, "success_any": any_step, "missed": 0.25}
        scores = Scores(np.array([1.0]), {name: np.array([value]) for name, value in metrics.items()})
        words.append(result_words(Line.spec, scores))
    assert words == [
        ["return 1.00", "no success at the end, but before", "missed 0.25"],
        ["return 1.00", "success", "missed 0.25"],
        ["return 1.00", "no success", "missed 0.25"],
    ]
