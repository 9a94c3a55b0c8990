"""`top-erl inspect`: the pictures a method has, in words and on a page, in a folder of its own; and in the report."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.inspection.test_policies import TOY, _saved, _trained
from top_erl.algorithms.ranking import CriticRanking
from top_erl.cli import main
from top_erl.cli.report import inspected_figures
from top_erl.config.run import RunConfig
from top_erl.errors import UserError
from top_erl.experiment.folder import RunFolder
from top_erl.experiment.presets import preset
from top_erl.inspection.correlation import CorrelationMap
from top_erl.inspection.opening import opened
from top_erl.inspection.ranking import movement_ranking
from top_erl.inspection.record import FILE, MARK, TITLES, check_folder, claim_folder, read_findings
from top_erl.inspection.spread import Spread
from top_erl.inspection.words import correlation_words, ranking_words, spread_words
from top_erl.report.page.pictures import figure_data
from top_erl.report.records import collect

MOVING = "tests.experiment.test_ranking:MovingTask"
Output = pytest.CaptureFixture[str]


def _inspect(run: Path, *words: str, task: str = MOVING) -> int:
    return main(["inspect", str(run), "--task", task, "--contexts=2", "--ranking-contexts=3", *words])


def test_a_run_is_looked_into_and_reported(tiny: RunConfig, tmp_path: Path, capsys: Output) -> None:
    run = _trained(replace(tiny, task=MOVING), tmp_path / "run")
    folder = run / "inspection"
    assert _inspect(run) == 0
    out = capsys.readouterr().out
    assert out.startswith("TOP-ERL on MovingTask, seed 0, after 132 steps, last checkpoint\n")
    said = [line for line in out.splitlines() if str(tmp_path) not in line]
    assert max(map(len, said)) <= 80
    assert all(f"{title}  {kind}.png" in said for kind, title in TITLES.items())
    assert {file.name for file in folder.iterdir()} == {
        *("index.html", FILE),
        *(f"{kind}.{ending}" for kind in TITLES for ending in ("png", "pdf")),
    }

    with opened(run, MOVING) as agent:
        wanted = movement_ranking(agent, 0, 3)
        assert agent.num_timesteps == 132  # what was played is no training
    data = json.loads((folder / FILE).read_text())
    numbers = {each["kind"]: each["numbers"] for each in data["findings"]}
    assert numbers["ranking"]["critic_ranking"] == pytest.approx(wanted.mean, abs=1e-12)
    assert f"critic_ranking {wanted.mean:.2f} ± {wanted.error:.2f}: the rank" in " ".join(out.split())
    assert {"explained_variance_V", "mean_error_Q"} <= numbers["values"].keys()

    page = (folder / "index.html").read_text()
    assert page.count('<img src="data:image/png;base64,') == 5
    assert not re.search(r"(?:src|href)=\"(?!data:|\w+\.(?:png|pdf)\")", page)  # nothing but what lies beside it
    _is_reported(run, tmp_path / "report", capsys)


def _is_reported(run: Path, output: Path, capsys: Output) -> None:
    """The page shows what was found, and draws none of it again."""
    assert main(["report", str(run), "-o", str(output)]) == 0
    assert "note: " not in capsys.readouterr().out
    assert {file.name.partition("-")[0] for file in (output / "figures").iterdir()}.isdisjoint(TITLES)
    text = (output / "index.html").read_text()
    for finding in read_findings(run / "inspection"):
        assert f"run: {finding.title[0].lower()}{finding.title[1:]}. {finding.sentence}" in text


def test_only_what_a_method_has_and_nothing_through_links(tmp_path: Path, capsys: Output) -> None:
    run, mine = _saved("bbrl_cov", tmp_path / "run"), tmp_path / "mine.png"
    mine.write_text("mine")
    claim_folder(run / "inspection")  # as a stranger may have done it, with links
    for name in ("spread.png", "ranking.png", FILE):
        (run / "inspection" / name).symlink_to(mine)
    assert _inspect(run, task=TOY) == 0
    assert mine.read_text() == "mine"
    out = " ".join(capsys.readouterr().out.split())
    pictures = {file.name for file in (run / "inspection").glob("*.png") if not file.is_symlink()}
    assert pictures == {"spread.png", "correlation.png"}
    for sentence in (
        f"Left out {TITLES['segments']}: Segments are re-conditioned in TOP-ERL only",
        f"{TITLES['values']}: The critic of bbrl_cov gives no values along an episode",
        f"{TITLES['ranking']}: The critic of bbrl_cov values no whole movements",
    ):
        assert sentence in out


def test_step_based_methods_have_no_movements(tmp_path: Path, capsys: Output) -> None:
    RunFolder(tmp_path).write_config(preset("sac", TOY, "laptop", 0))
    assert main(["inspect", str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("top-erl: sac chooses an action at every step and has no movements to look into")
    assert not (tmp_path / "inspection").exists()


def test_numbers_that_make_no_sense(tmp_path: Path, capsys: Output) -> None:
    for word, sentence in {
        "--contexts=0": "--contexts is a number from 1 to 12, not 0.",
        "--ranking-contexts=-1": "--ranking-contexts and --seed must not be negative.",
        "--which=first": "invalid choice",
    }.items():
        assert main(["inspect", str(tmp_path), word]) == 2
        assert sentence in capsys.readouterr().err


# ---------------------------------------------------------------------- the folder


def test_nothing_of_others_is_replaced(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "index.html").write_text("mine")
    with pytest.raises(UserError, match="holds files that top-erl inspect did not write: name another folder"):
        claim_folder(notes)
    with pytest.raises(UserError, match="is a file: name a folder"):
        check_folder(notes / "index.html")
    assert (notes / "index.html").read_text() == "mine"
    (tmp_path / "link").symlink_to(notes)
    with pytest.raises(UserError, match="is a link"):
        claim_folder(tmp_path / "link")


def test_a_forged_inspection_shows_nothing_else(tiny: RunConfig, tmp_path: Path) -> None:
    run = _trained(replace(tiny, total_env_steps=1), tmp_path / "run")
    folder = run / "inspection"
    claim_folder(folder)
    (tmp_path / "secret.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (folder / "spread.png").symlink_to(tmp_path / "secret.png")
    (folder / "values.png").write_bytes(b"\x89PNG\r\n\x1a\nno picture")
    said = ["spread", "values", "segments", "../secret", 7, "ranking"]
    (folder / FILE).write_text(json.dumps({"findings": [{"kind": kind, "sentence": "x" * 9999} for kind in said]}))
    (finding,) = read_findings(folder)  # a picture that is there, and no link
    assert finding.kind == "values"
    assert len(finding.sentence) == 2000
    (record,) = collect([run]).runs
    (shown,) = figure_data(inspected_figures(record), tmp_path / "report")
    assert "image" not in shown  # a file that is no picture is linked only
    assert shown["files"] == [{"href": "../run/inspection/values.png", "text": "PNG"}]
    for text in ("[" * 100_000, "7", '{"findings": 3}', "\x00", f'{{"a": "{"x" * 1_100_000}"}}'):
        (folder / FILE).write_text(text)
        assert read_findings(folder) == []
    (folder / "index.html").write_text("a page of somebody else's")
    assert MARK not in (folder / "index.html").read_text()
    assert inspected_figures(record) == []


# ---------------------------------------------------------------------- the words


def test_words_of_movements_by_hand() -> None:
    mean = np.zeros((2, 2, 2))
    mean[1, :, 0] = 2.0  # contexts differ in one degree of freedom: standard deviations sqrt(2) and 0
    std = np.broadcast_to([0.1, 0.3], (2, 2, 2))
    sentence, numbers = spread_words(Spread("position", np.arange(2.0), mean, std, np.zeros((2, 1, 2, 2))))
    assert numbers == pytest.approx(
        {"exploration": 0.2, "largest_exploration": 0.3, "between_contexts": 2**0.5 / 2}, abs=1e-12
    )
    assert "most in degree of freedom 2 (0.3)" in sentence
    assert sentence.endswith("varies by 0.71 from context to context, more than by exploration.")


def test_words_of_correlations_by_hand() -> None:
    own, other = np.array([[1.0, 0.6], [0.6, 1.0]]), np.array([[0.1, -0.3], [0.2, 0.0]])
    whole = np.block([[own, other], [other.T, own]])
    found = CorrelationMap("top_erl", TOY, 0, "random segments", whole, num_dof=2, contextual=False)
    sentence, numbers = correlation_words(found)
    assert numbers == pytest.approx({"half_an_episode_apart": 0.6, "between_dof": 0.15})
    assert "by 0.60 on average, those of different degrees of freedom by 0.15 (absolute)." in sentence
    alone = replace(found, correlation=np.block([[own, 0 * own], [0 * own, own]]))
    assert correlation_words(alone)[0].endswith("not at all: the covariance is diagonal.")


def test_words_of_a_ranking() -> None:
    up = np.arange(4.0)
    sentence, numbers = ranking_words(CriticRanking([up, up, up], [up, -up, 0 * up]))
    assert numbers["critic_ranking"] == pytest.approx(0.0)
    assert "critic_ranking 0.00 ± 1.00" in sentence
    assert "mean over 2 contexts (1 context without differences left out)" in sentence
    assert "docs/inspect.md" in sentence
    assert ranking_words(CriticRanking([up], [up]))[0].startswith("critic_ranking 1.00: the rank")


def test_a_task_that_pays_the_same_for_all_has_no_ranking(tiny: RunConfig, tmp_path: Path) -> None:
    with (
        opened(_trained(replace(tiny, total_env_steps=1), tmp_path / "run"), TOY) as agent,
        pytest.raises(UserError, match="All movements of a context have the same return, in each of 2 contexts"),
    ):
        movement_ranking(agent, contexts=2)
