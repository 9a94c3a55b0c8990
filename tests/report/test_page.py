"""The report page as a file: its data, its size, what it refuses, and following runs that go on."""

from __future__ import annotations

import json
import re
import time
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.report.synthetic import BOX_DENSE, HOPPER, Invented, write_grid, write_run
from top_erl.cli import main
from top_erl.experiment.lock import FolderLock
from top_erl.report.page.build import Page, page_data
from top_erl.report.page.curves import groups_of, numbers
from top_erl.report.page.html import script_json
from top_erl.report.page.pictures import Figure, figure_data
from top_erl.report.records import collect
from top_erl.report.statistics import aggregate_curve

Output = pytest.CaptureFixture[str]
REACH, DOOR = "metaworld/reach-v3", "metaworld/door-close-v3"


def _data(folder: Path, figures: tuple[Figure, ...] = ()) -> dict[str, Any]:
    """What a page of the runs in a folder would show."""
    return page_data(collect([folder]), folder / "report", Page("title", folder, figures))


def _written(page: Path) -> dict[str, Any]:
    """The data inside a page."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found
    return json.loads(found[1])


def _find(data: dict[str, Any], task: str, column: str, label: str, axis: str) -> list[dict[str, Any]]:
    """Curves of a page by names."""
    t = [group["name"] for group in data["groups"]].index(task)
    c = [entry["name"] for entry in data["columns"]].index(column)
    named = [entry["name"] for entry in data["labels"]].index(label)
    wanted = [curve for curve in data["curves"] if (curve["t"], curve["c"], curve["l"]) == (t, c, named)]
    return [curve for curve in wanted if axis in curve["x"]]


def test_curves_are_those_of_the_statistics(tmp_path: Path) -> None:
    write_grid(tmp_path, ["top_erl", "tce"], [REACH, DOOR], seeds=4)
    data = _data(tmp_path)
    runs = [run for run in collect([tmp_path]).runs if run.method == "tce"]
    for axis in ("env_steps", "episodes", "minutes"):
        (curve,) = _find(data, "all 2 tasks", "evaluation_success", "TCE", axis)
        for statistic in ("iqm", "mean"):
            expected = aggregate_curve(runs, "evaluation_success", axis, statistic, points=100)  # type: ignore[arg-type]
            np.testing.assert_allclose(curve["x"][axis], expected.x, rtol=1e-5)
            for shown, exact in zip(curve[statistic], (expected.value, expected.low, expected.high), strict=True):
                np.testing.assert_allclose(shown, exact, rtol=1e-3)
            assert curve["n"] == expected.runs_at_each_point.tolist()


def test_only_shares_are_pooled_over_tasks(tmp_path: Path) -> None:
    write_grid(tmp_path, ["top_erl"], [REACH, DOOR, HOPPER], seeds=2)
    data = _data(tmp_path)
    assert _find(data, "all 2 tasks of metaworld", "evaluation_success", "TOP-ERL", "env_steps")
    assert not _find(data, "all 3 tasks", "evaluation_return", "TOP-ERL", "env_steps")
    assert _find(data, HOPPER, "evaluation_max_height", "TOP-ERL", "env_steps")
    assert not _find(data, HOPPER, "evaluation_success", "TOP-ERL", "env_steps")


def test_the_critics_ranking_is_a_measure_if_it_was_logged(tmp_path: Path) -> None:
    first, second, other = (
        write_run(tmp_path, Invented(method, BOX_DENSE, seed))
        for method, seed in (("top_erl", 0), ("top_erl", 1), ("sac", 0))
    )
    for run, value in ((first, "0.25"), (second, "")):  # measured now and then; never, though there is a column
        header, *lines = (run / "metrics.csv").read_text().splitlines()
        cells = [f"{line},{value if number % 3 == 0 else ''}" for number, line in enumerate(lines)]
        (run / "metrics.csv").write_text("\n".join([f"{header},critic_ranking", *cells]) + "\n")
    data = _data(tmp_path)
    assert data["columns"][-1] == {
        "name": "critic_ranking",
        "title": "critic's ranking of movements",
        "percent": False,
    }
    (curve, _) = [curve for curve in data["curves"] if curve["c"] == len(data["columns"]) - 1]  # steps, minutes
    assert set(curve["mean"][0]) == {0.25}
    assert set(curve["n"]) == {1}
    assert "critic_ranking" not in str(_data(other)["columns"])


def test_episodes_are_counted_anew_where_they_do_not_follow_from_steps(tmp_path: Path) -> None:
    """Episodes of 500 and of 100 steps: at the same step, other numbers of episodes."""
    write_grid(tmp_path, ["top_erl"], [REACH, BOX_DENSE], seeds=2)
    curves = _find(_data(tmp_path), "all 2 tasks", "evaluation_success", "TOP-ERL", "episodes")
    assert ["env_steps" in curve["x"] for curve in curves] == [False]
    assert curves[0]["x"]["episodes"][-1] == 120


def test_groups_of_tasks() -> None:
    assert [group.name for group in groups_of(["a/x"])] == ["a/x"]
    assert [group.name for group in groups_of(["a/x", "a/y"])] == ["all 2 tasks", "a/x", "a/y"]
    names = [group.name for group in groups_of(["a/x", "a/y", "b/z"])]
    assert names == ["all 3 tasks", "all 2 tasks of a", "a/x", "a/y", "b/z"]


def test_numbers_are_short_and_holes_are_holes() -> None:
    assert numbers([0.123456, 1234567.0, float("nan"), 2.0, -0.00001234567], 4) == [
        0.1235,
        1235000,
        None,
        2,
        -1.235e-05,
    ]


def test_settings_that_differ_stand_beside_each_other(tmp_path: Path) -> None:
    for seed in (0, 1):
        write_run(tmp_path, Invented(seed=seed))
        write_run(tmp_path, Invented(seed=seed, algorithm={"learn": {"target": "q"}}))
    tables = {table["id"]: table for table in _data(tmp_path)["details"]}
    assert [row for row in tables["settings"]["rows"] if row[0] == "learn.target"] == [["learn.target", "q", "v"]]
    assert len(tables["settings"]["rows"]) == 1


def test_the_best_of_a_task_is_marked(tmp_path: Path) -> None:
    for skill, method in ((1.0, "top_erl"), (0.1, "ppo")):
        write_grid(tmp_path, [method], [REACH, DOOR], seeds=2, skill=skill)
    table = next(table for table in _data(tmp_path)["tables"] if table["title"].startswith("Each task"))
    assert table["headers"] == ["task", "TOP-ERL", "PPO"]
    assert [[cell["best"] for cell in row[1:]] for row in table["rows"]] == [[True, False]] * 2


def test_no_words_stand_twice_in_the_navigation(tmp_path: Path) -> None:
    write_grid(tmp_path, ["top_erl", "ppo"], [REACH, DOOR], seeds=2)
    for path in tmp_path.glob("*/metrics.csv"):  # solved at any step: a second score with tables of its own
        rows = [line.split(",") for line in path.read_text().splitlines()]
        success = rows[0].index("evaluation_success")
        column = ["evaluation_success_any", *(row[success] for row in rows[1:])]
        path.write_text("".join(",".join([*row, more]) + "\n" for row, more in zip(rows, column, strict=True)))
    tables = _data(tmp_path)["tables"]
    words = [table["short"] for table in tables if table["short"]]
    assert len(words) == len(set(words)) < len(tables)


def test_names_cannot_end_the_script_they_are_in() -> None:
    text = script_json({"name": "</script><!--<script>\u2028"})
    assert "<" not in text
    assert "\u2028" not in text
    assert json.loads(text)["name"] == "</script><!--<script>\u2028"


def test_the_page_asks_for_nothing_from_outside(tmp_path: Path) -> None:
    """The browser is told so: only the scripts inside may run, and only files and data may be loaded."""
    write_run(tmp_path, Invented())
    assert main(["report", str(tmp_path), "--no-figures"]) == 0
    page = (tmp_path / "report" / "index.html").read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    rules = unescape(policy[1])
    assert rules.startswith("default-src 'none'; script-src 'sha256-")
    assert "http" not in rules
    assert "<script src" not in page
    assert '<link rel="stylesheet' not in page


def test_figures_are_inside_and_films_beside(tmp_path: Path) -> None:
    run = write_run(tmp_path, Invented())
    (run / "a film.mp4").write_bytes(b"0" * 1500)
    (run / "notes.txt").touch()
    Image.new("RGB", (3200, 1000), "white").save(tmp_path / "wide.png")
    (tmp_path / "wide.pdf").touch()
    figure = Figure("Wide", [tmp_path / "wide.png", tmp_path / "wide.pdf"])
    (tmp_path / "table1.tex").touch()
    data = _data(tmp_path, (figure, Figure("Table 1", [tmp_path / "table1.tex"])))
    shown, table = data["figures"]
    assert table == {"title": "Table 1", "files": [{"href": "../table1.tex", "text": "TEX"}]}
    assert (shown["width"], shown["height"]) == (1600, 500)
    assert shown["image"].startswith("data:image/png;base64,iVBOR")
    assert [file["href"] for file in shown["files"]] == ["../wide.pdf", "../wide.png"]
    (film,) = data["films"]
    assert film["href"] == f"../{run.name}/a%20film.mp4"
    assert (film["size"], film["moving"], film["large"]) == ("2 kB", True, False)


def test_pictures_beyond_the_pages_size_are_only_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        Image.effect_noise((200, 200), 90).save(tmp_path / f"{name}.png")
    first = len(figure_data([Figure("a", [tmp_path / "a.png"])], tmp_path)[0]["image"])
    monkeypatch.setattr("top_erl.report.page.pictures.MOST_BYTES", first + 100)
    both = figure_data([Figure(name, [tmp_path / f"{name}.png"]) for name in ("a", "b")], tmp_path)
    assert ["image" in figure for figure in both] == [True, False]
    assert both[1]["files"] == [{"href": "b.png", "text": "PNG"}]


@pytest.mark.parametrize(
    ("prepare", "sentence"),
    [
        (
            lambda out: (out.mkdir(), (out / "index.html").write_text("<p>mine</p>")),
            "was not written by top-erl report",
        ),
        (lambda out: (out / "figures").mkdir(parents=True), "has a folder figures that is not a report's"),
        (lambda out: out.write_text("a file"), "is a file: name a folder"),
    ],
)
def test_what_it_did_not_write_stays(tmp_path: Path, capsys: Output, prepare: Any, sentence: str) -> None:
    run, out = write_run(tmp_path, Invented()), tmp_path / "out"
    prepare(out)
    before = sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*"))
    assert main(["report", str(run), "-o", str(out), "--no-figures"]) == 2
    err = capsys.readouterr().err
    assert sentence in err
    assert "with -o" in err
    assert sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*")) == before


def test_a_report_is_replaced_and_is_no_run(tmp_path: Path) -> None:
    write_run(tmp_path, Invented())
    page = tmp_path / "report" / "index.html"
    for _ in range(2):
        assert main(["report", str(tmp_path), "--no-figures", "--title", "A <name>"]) == 0
        data = _written(page)
        assert [table["id"] for table in data["details"] if table["id"] == "excluded"] == []
    assert data["title"] == "A <name>"
    assert "<title>A &lt;name&gt;</title>" in page.read_text()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "Name a sweep or some runs"),
        (["{0}/nowhere"], "There is no folder {0}/nowhere."),
        (["{0}/empty"], "There is no run to report. {0}/empty: it is not a run folder and holds none."),
        (["{0}/sweep"], "There is no run to report. No run of {0}/sweep has begun."),
        (["{0}/run", "--live", "--every", "0"], "--every is a number of seconds from 1 to 86400, not 0."),
        (["{0}/run", "--policies", "many"], "many"),
    ],
)
def test_mistakes_are_one_sentence(tmp_path: Path, capsys: Output, words: list[str], sentence: str) -> None:
    write_run(tmp_path / "run", Invented())
    (tmp_path / "empty").mkdir()
    (tmp_path / "sweep").mkdir()
    sweep = {"name": "small", "methods": ["top_erl"], "tasks": [REACH], "seeds": 2}
    (tmp_path / "sweep" / "sweep.yaml").write_text(json.dumps(sweep))
    assert main(["report", *(word.format(tmp_path) for word in words)]) == 2
    err = capsys.readouterr().err
    assert sentence.format(tmp_path) in err
    assert err.count("\n") == 1
    assert not list(tmp_path.rglob("report"))
    assert not (tmp_path / "nowhere").exists()


def test_runs_that_must_not_be_mixed_are_refused(tmp_path: Path, capsys: Output) -> None:
    write_run(tmp_path, Invented())
    other = write_run(tmp_path, Invented(seed=1))
    text = (other / "fingerprint.json").read_text()
    (other / "fingerprint.json").write_text(text.replace("After the last step", "At any step"))
    assert main(["report", str(tmp_path)]) == 2
    assert "success rule" in capsys.readouterr().err
    assert not (tmp_path / "report").exists()


# ---------------------------------------------------------------------- following runs


def _set_state(run: Path, state: str) -> None:
    path = run / "status.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "state": state}))


@pytest.mark.parametrize("end", ["finished", "running"])
def test_live_ends_with_the_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    """One that finishes, and one that is killed: it says that it is running for ever."""
    run, page, pages = write_run(tmp_path, Invented(rows=30)), tmp_path / "report" / "index.html", []
    _set_state(run, "running")
    lock = FolderLock(run)

    def sleep(seconds: float) -> None:
        pages.append((seconds, _written(page)))
        if len(pages) == 3:
            _set_state(run, end)
            lock.release()

    monkeypatch.setattr(time, "sleep", sleep)
    assert main(["report", str(tmp_path), "--live", "--every", "7", "--no-figures"]) == 0
    assert [(seconds, data["live"]) for seconds, data in pages] == [(7.0, 7.0)] * 3
    assert {"text": "1 running", "kind": "live warn"} in pages[0][1]["badges"]
    data = _written(page)
    assert data["live"] == 0
    assert data["badges"][0]["text"] == ("1 finished" if end == "finished" else "1 stopped")


def test_live_ends_if_nobody_runs_the_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    sweep = {"name": "small", "methods": ["top_erl"], "tasks": [REACH], "seeds": 2}
    (tmp_path / "sweep.yaml").write_text(json.dumps(sweep))
    write_run(tmp_path, Invented(task=REACH))
    held, waited = FolderLock(tmp_path / "logs" / "on-here"), []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 5:
            held.release()

    monkeypatch.setattr(time, "sleep", sleep)
    assert main(["report", str(tmp_path), "--live", "--no-figures"]) == 0
    assert len(waited) == 5 + 3
    assert "no process trains these runs any more" in capsys.readouterr().out


def test_live_ends_by_ctrl_c_with_a_whole_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = FolderLock(write_run(tmp_path, Invented(rows=30)))

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupt)
    assert main(["report", str(tmp_path), "--live", "--no-figures"]) == 0
    lock.release()
    assert _written(tmp_path / "report" / "index.html")["live"] == 0


def test_live_waits_for_every_run_of_a_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = {"name": "small", "methods": ["top_erl"], "tasks": [REACH], "seeds": 2}
    (tmp_path / "sweep.yaml").write_text(json.dumps(sweep))
    write_run(tmp_path, Invented(task=REACH))
    waited = []

    def sleep(seconds: float) -> None:
        waited.append(_written(tmp_path / "report" / "index.html")["notes"])
        (tmp_path / "failed").mkdir()
        (tmp_path / "failed" / "top_erl-reach-v3-seed1.json").write_text('{"sentence": "The disk is full."}')

    monkeypatch.setattr(time, "sleep", sleep)
    assert main(["report", str(tmp_path), "--live", "--no-figures"]) == 0
    assert len(waited) == 1
    assert "1 runs of the sweep have not begun" in waited[0][0]
    data = _written(tmp_path / "report" / "index.html")
    table = next(table for table in data["details"] if table["id"] == "excluded")
    assert table["rows"] == [["top_erl-reach-v3-seed1", "it failed: The disk is full."]]
    assert data["title"] == "small"


def test_many_runs_make_a_small_page_in_little_time(tmp_path: Path) -> None:
    """200 runs of 1000 rows, without figures; processor time, since other work may share the machine."""
    write_grid(tmp_path, [f"m{number}" for number in range(8)], [f"a/{name}" for name in "vwxyz"], 5, rows=2, planned=2)
    for path in tmp_path.glob("*/metrics.csv"):
        _lengthen(path, 1000)
    began = time.process_time()
    assert main(["report", str(tmp_path), "--no-figures"]) == 0
    assert time.process_time() - began < 15.0
    assert (tmp_path / "report" / "index.html").stat().st_size < 7_000_000


def _lengthen(path: Path, rows: int) -> None:
    """Repeat the first row of metrics.csv with counters that go on; every row an evaluation."""
    header, first, *_ = path.read_text().splitlines()
    names = header.split(",")
    table = np.tile([float(cell) for cell in first.split(",")], (rows, 1))
    for name in ("iteration", "episodes", "env_steps", "wall_time"):
        table[:, names.index(name)] *= np.arange(1, rows + 1)
    table[:, names.index("evaluation_success")] = np.random.default_rng(len(path.parent.name)).random(rows)
    lines = [",".join(f"{value:g}" if value < 10 else f"{value:.3f}" for value in row) for row in table.tolist()]
    path.write_text("\n".join([header, *lines]) + "\n")
