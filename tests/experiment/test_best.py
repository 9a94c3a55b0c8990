"""The best checkpoint by evaluation: kept beside the newest, the same however often a run is stopped."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from top_erl import TopErl
from top_erl.cli import main
from top_erl.config.run import EvaluationConfig, RunConfig
from top_erl.errors import UserError
from top_erl.experiment.best import BestSoFar, evaluation_score
from top_erl.experiment.callbacks import FunctionCallback
from top_erl.experiment.folder import RunFolder
from top_erl.experiment.metrics_file import Row, read_metrics
from top_erl.experiment.run import resume_training, run_training
from top_erl.experiment.training import Training
from top_erl.seeding import episode_seeds

Trainings = Callable[[RunConfig], Training]
SCORES = [0.2, 0.8, 0.4, 0.8, 0.7, 0.1]
"""Success of six iterations: the best is that of the fourth, as good as the second and later."""


def _evaluated(config: RunConfig) -> RunConfig:
    return replace(config, evaluation=EvaluationConfig(interval=1, episodes=3))


def _scripted(training: Training, scores: list[float]) -> Training:
    """Let evaluations come out as written."""
    advance = training.advance

    def scripted() -> Row:
        row = advance()
        return {**row, "evaluation_success": scores[int(row["iteration"]) - 1]}

    training.advance = scripted  # type: ignore[method-assign]
    return training


def _iteration(folder: RunFolder) -> int:
    return int(json.loads((folder.best / "meta.json").read_text())["progress"]["iteration"])


def test_what_an_evaluation_is_judged_by() -> None:
    assert evaluation_score({"evaluation_success": 0.5, "evaluation_return": -7.0}) == 0.5
    assert evaluation_score({"evaluation_return": -7.0}) == -7.0
    assert (
        evaluation_score({"exploration_return": 3.0}) == evaluation_score({"evaluation_return": math.nan}) == -math.inf
    )


def test_the_best_outlives_rotation(tiny: RunConfig, trainings: Trainings, tmp_path: Path) -> None:
    folder, training = RunFolder(tmp_path / "run"), _scripted(trainings(_evaluated(tiny)), SCORES)
    folder.create(training)
    policies, best = [], []

    def look(row: Row) -> None:
        policies.append(training.checkpoint().state["policy.mean_net.0.weight"].clone())
        best.append(_iteration(folder))

    run_training(training, folder, FunctionCallback(look))
    assert best == [1, 2, 2, 4, 4, 4]
    agent = TopErl.load(folder.path, which="best")
    assert (agent.training.progress.iteration, len(agent.training.learner.replay)) == (4, 0)
    assert torch.equal(agent.training.learner.policy.mean_net[0].weight, policies[3])
    last = TopErl.load(folder.path)
    assert torch.equal(last.training.learner.policy.mean_net[0].weight, policies[5])
    agent.learn(20, progress_bar=False)  # it collects new episodes first


@pytest.mark.parametrize("stop", [1, 2, 3, 4, 5])
def test_stopped_and_resumed(stop: int, tiny: RunConfig, trainings: Trainings, tmp_path: Path) -> None:
    folder, training = RunFolder(tmp_path / "run"), _scripted(trainings(_evaluated(tiny)), SCORES)
    folder.create(training)
    run_training(training, folder, FunctionCallback(lambda row: row["iteration"] < stop))
    assert _iteration(folder) == (1, 2, 2, 4, 4)[stop - 1]
    resumed = _scripted(resume_training(folder), SCORES)
    run_training(resumed, folder)
    resumed.close()
    assert _iteration(folder) == 4


def test_work_that_was_lost_does_not_count(tiny: RunConfig, trainings: Trainings, tmp_path: Path) -> None:
    """Killed after iteration 4, whose work is lost: with another outcome then, the second stays the one to beat."""
    folder, training = RunFolder(tmp_path / "run"), _scripted(trainings(_evaluated(tiny)), SCORES)
    folder.create(training)

    def kill(row: Row) -> None:
        if row["iteration"] == 5:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        run_training(training, folder, FunctionCallback(kill))
    resumed = _scripted(resume_training(folder), [*SCORES[:3], 0.5, 0.9, 0.85])
    assert resumed.progress.iteration == 3
    run_training(resumed, folder)
    resumed.close()
    assert _iteration(folder) == 5


def test_a_damaged_best_is_put_aside_and_made_anew(tiny: RunConfig, trainings: Trainings, tmp_path: Path) -> None:
    folder, training = RunFolder(tmp_path / "run"), trainings(_evaluated(tiny))
    folder.create(training)
    folder.save_best(training)
    (folder.best / "meta.json").write_text("damaged")
    with pytest.raises(UserError, match="damaged"):
        TopErl.load(folder.path, which="best")
    folder.save_best(training)
    assert (folder.path / "put-aside-best-1" / "meta.json").read_text() == "damaged"
    assert TopErl.load(folder.path, which="best").training.progress.iteration == 0


def test_runs_without_a_best_get_one_at_their_next_evaluation(
    tiny: RunConfig, trainings: Trainings, tmp_path: Path
) -> None:
    folder, training = RunFolder(tmp_path / "run"), trainings(tiny)
    folder.create(training)
    (folder.path / "metrics.csv").write_text("iteration,env_steps,evaluation_success\n1,6,1.0\n")
    BestSoFar(folder).take({"evaluation_success": 0.1}, training)
    assert _iteration(folder) == 0


def test_evaluate_plays_the_one_asked_for(tiny: RunConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agent = TopErl(config=_evaluated(tiny)).learn(tiny.total_env_steps, progress_bar=False, run_dir=tmp_path / "run")
    scores = [evaluation_score(row) for row in read_metrics(tmp_path / "run" / "metrics.csv")]
    best = TopErl.load(tmp_path / "run", which="best")
    assert best.training.progress.iteration == 6 - scores[::-1].index(max(scores))
    seeds = episode_seeds(0, "evaluation", 0, 3)
    assert float(best.training.learner.evaluate(seeds).metrics["success"].mean()) == max(scores)
    steps = best.num_timesteps
    for which, expected in (("best", steps), ("last", agent.num_timesteps)):
        assert main(["evaluate", str(tmp_path / "run"), "--episodes=2", "--which", which]) == 0
        out = " ".join(capsys.readouterr().out.split())
        assert f"2 fresh episodes after {expected:,} steps, {which} checkpoint" in out
    agent.save(tmp_path / "saved")
    assert main(["evaluate", str(tmp_path / "saved"), "--which=best"]) == 2
    assert "has no best checkpoint" in capsys.readouterr().err
    with pytest.raises(UserError, match="Unknown checkpoint 'first'"):
        TopErl.load(tmp_path / "run", which="first")  # type: ignore[arg-type]
