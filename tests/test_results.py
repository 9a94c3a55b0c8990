"""What README and docs state follows from the raw files in `results/`."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from results.make.__main__ import ROOT, draw_figures, main, tables
from results.make.behaviour import measured
from results.make.campaign import behaviours, campaign_groups
from results.make.figures import FIGURES
from results.make.learning import comparison
from results.make.markdown import MISSING, TIMES, digits, fill, names_in, pages, span, table
from results.make.runs import read_run
from results.make.speed import steps
from results.make.sweeps import draw_sweep, sweep_folders, sweep_table, take
from top_erl.errors import UserError
from top_erl.experiment.expected import FILE
from top_erl.experiment.status_file import StatusFile
from top_erl.sweep.definition import Sweep, write_sweep

STATING = ("README.md", "docs/methods.md", "docs/performance.md", "results/README.md")
"""Pages on which a number in a table is a result."""


def copy_pages(folder: Path) -> list[Path]:
    for page in pages(ROOT):
        (folder / page).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / page, folder / page)
    return pages(folder)


def test_committed_tables_are_those_of_the_raw_files(tmp_path: Path) -> None:
    copies = copy_pages(tmp_path)
    main(["--into", str(tmp_path), "--tables-only"])
    stale = [str(page) for page in copies if (tmp_path / page).read_text() != (ROOT / page).read_text()]
    assert not stale, "run `make results`"
    assert (tmp_path / FILE.relative_to(ROOT)).read_text() == FILE.read_text(), "run `make results`"


def test_a_number_changed_by_hand_is_put_right(tmp_path: Path) -> None:
    copy_pages(tmp_path)
    page = tmp_path / "README.md"
    wrong = re.sub(r"^\| 2 \| 0\.\d\d \|", "| 2 | 1.00 |", page.read_text(), count=1, flags=re.MULTILINE)
    page.write_text(wrong)
    main(["--into", str(tmp_path), "--tables-only"])
    assert page.read_text() == (ROOT / "README.md").read_text() != wrong


def test_a_page_that_asks_for_an_unknown_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "README.md").write_text("<!-- results: nothing -->\n<!-- end -->\n")
    with pytest.raises(SystemExit, match="1"):
        main(["--into", str(tmp_path)])
    assert capsys.readouterr().err.startswith("README.md asks for the table nothing, which there is not")


def test_every_table_is_asked_for() -> None:
    asked = {name for page in pages(ROOT) for name in names_in((ROOT / page).read_text())}
    assert asked == set(tables(ROOT / "results"))


@pytest.mark.parametrize("page", STATING)
def test_no_table_states_a_number_by_hand(page: str) -> None:
    by_hand = re.sub(r"<!-- results: .*?<!-- end -->", "", (ROOT / page).read_text(), flags=re.DOTALL)
    assert not [line for line in by_hand.splitlines() if re.match(r"\|.*\d\.\d", line)]


def test_links_into_results_lead_somewhere() -> None:
    for page in pages(ROOT):
        for link in re.findall(r"\]\(([^)#:]+)[^)]*\)", (ROOT / page).read_text()):
            target = (ROOT / page.parent / link).resolve()
            assert target.exists() or not target.is_relative_to(ROOT / "results"), f"{page} links to {link}"


def test_figures_can_be_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    drawn = draw_figures(ROOT, tmp_path)
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in drawn if path.suffix == ".png")
    kept = {path.relative_to(ROOT / "results/figures") for path in (ROOT / "results/figures").rglob("*.*")}
    assert kept == {path.relative_to(tmp_path / "results/figures") for path in drawn}
    assert {Path(f"{name}.png") for name in FIGURES} <= kept


def make_run(folder: Path, method: str, seed: int, successes: list[float], fresh: list[float] | None = None) -> Path:
    """A run of ten thousand steps and a minute an iteration, evaluated in every second one."""
    folder.mkdir(parents=True)
    algorithm = {"collect": {"episodes": 8}, "learn": {"critic_steps": 40, "policy_steps": 20}}
    if method == "sac":
        algorithm = {"collect": {"steps": 4000}, "learn": {"update_every": 40, "gradient_steps": 5}}
    config = {"method": method, "task": "a/b", "seed": seed, "algorithm": algorithm}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    (folder / "fingerprint.json").write_text("{}")
    lines = ["iteration,env_steps,wall_time,evaluation_success"]
    for index, success in enumerate(successes, start=1):
        lines += [f"{2 * index - 1},{20000 * index - 10000},{120 * index - 60},{success}"]
        lines += [f"{2 * index},{20000 * index},{120 * index},"]
    (folder / "metrics.csv").write_text("\n".join(lines) + "\n")
    if fresh is not None:
        (folder / "evaluation.json").write_text(json.dumps({"success": fresh, "return": fresh, "failed_episodes": 0}))
    return folder


@pytest.mark.parametrize(
    ("collect", "learn", "per_thousand"),
    [
        ({"steps": 4000}, {"update_every": 40, "gradient_steps": 5}, 125.0),
        ({"episodes": 8}, {"critic_steps": 40, "policy_steps": 20}, 6.0),  # 60 in each 10 000 steps
        ({"episodes": 8}, {"critic_epochs": 30, "policy_epochs": 10}, 4.0),
        ({"steps": 4000}, {"epochs": 10, "batch_size": 250}, 40.0),
    ],
)
def test_gradient_steps_of_a_run(
    collect: dict[str, int], learn: dict[str, int], per_thousand: float, tmp_path: Path
) -> None:
    run = read_run(make_run(tmp_path / "a", "any", 3, [0.0, 0.8]))
    run = replace(run, config={**run.config, "algorithm": {"collect": collect, "learn": learn}})
    assert run.gradient_steps == per_thousand


def test_numbers_of_a_run(tmp_path: Path) -> None:
    run = read_run(make_run(tmp_path / "a", "top_erl", 3, [0.0, 0.8, 0.6], fresh=[1.0, 0.0, 1.0, 1.0]))
    assert (run.iterations, run.env_steps, run.minutes, run.iteration_seconds) == (6, 60000, 6.0, 60.0)
    assert run.minutes_to(0.8) == 3.0
    assert run.minutes_to(0.9) is None
    assert (run.best(), run.last(), run.last(until=10000)) == (0.8, 0.6, 0.0)
    assert run.mean_over_steps(until=1e9) == pytest.approx((0.4 + 0.7) / 2)
    assert run.fresh_mean("success") == 0.75
    assert run.fresh_mean("max_height") is None


def test_a_run_without_fresh_contexts_has_a_dash(tmp_path: Path) -> None:
    folder = tmp_path / "claims/comparison/via_point_reacher"
    make_run(folder / "sac-seed1", "sac", 1, [0.1, 0.3])
    make_run(folder / "top_erl-seed1", "top_erl", 1, [0.1, 0.6], fresh=[1.0, 0.0])
    _, _, *rows = comparison("via_point_reacher", tmp_path).splitlines()
    assert rows == [
        "| `top_erl` | 1 | 0.50 | 0.35 | 30 | 0.50 | 40 | 6 |",
        f"| `sac` | 1 | {MISSING} | 0.20 | {MISSING} | {MISSING} | 40 | 125 |",
    ]


def test_step_times_of_a_new_measurement_need_no_second_reference() -> None:
    row = {"size": "box 2 x 3", "segments": "5", "precision": "bf16", "ratio": 2.0, "matmul_share": 0.5}
    rows = [{**row, "step": "critic", "ours_ms": 7.123}, {**row, "step": "policy", "ours_ms": 1234.5}]
    assert steps(rows).splitlines() == [
        f"| size, cut | critic ms | {TIMES} plain | share | policy ms | {TIMES} plain | share |",
        "|---|---|---|---|---|---|---|",
        f"| box 2 {TIMES} 3, 5 segments, bf16 | 7.12 | 2.00 | 0.50 | 1234 | 2.00 | 0.50 |",
    ]


def test_markers() -> None:
    known = {"a": lambda: table(("x",), [("1",)])}
    text = "before\n<!-- results: a -->\nold\n<!-- end -->\nafter <!-- results: a -->\n<!-- end -->"
    made = "<!-- results: a -->\n| x |\n|---|\n| 1 |\n<!-- end -->"
    assert fill(text, known, "page") == f"before\n{made}\nafter {made}"
    with pytest.raises(UserError, match="page asks for the table b, which there is not; there are a"):
        fill("<!-- results: b -->\n<!-- end -->", known, "page")
    for unfinished in ("<!-- results: a -->\n", "<!-- results: a -->\n<!-- results: a -->\n<!-- end -->"):
        with pytest.raises(UserError, match="the table a has no end"):
            fill(unfinished, known, "page")


@pytest.mark.parametrize(
    ("value", "text"), [(8.067, "8.07"), (12.0, "12.0"), (183.2, "183"), (1986.3, "1986"), (0.0123, "0.0123"), (0, "0")]
)
def test_three_digits(value: float, text: str) -> None:
    assert digits(value) == text


def test_spans() -> None:
    assert span([0.5, None, 0.25]) == "0.25 to 0.50"
    assert span([0.501, 0.499]) == "0.50"
    assert span([None]) == MISSING


def test_a_sweep_is_taken_over_with_its_table_and_figures(tmp_path: Path) -> None:
    """Two variants and two seeds: raw files are copied, and the numbers are those of hand."""
    pytest.importorskip("matplotlib")
    sweep = tmp_path / "sweeps" / "pair"
    definition = Sweep("pair", ("a/b",), seeds=(1, 2), variants={"v": {}, "q": {"learn.target": "q"}})
    fresh = {("v", 1): [1.0, 1.0], ("v", 2): [1.0, 0.0], ("q", 1): [0.0, 0.0], ("q", 2): [0.0, 0.0]}
    for cell in definition.cells():
        run = make_run(sweep / cell.name, "top_erl", cell.seed, [0.0, 0.6], fresh=fresh[cell.variant, cell.seed])
        StatusFile(run, 4).say("finished", 4, 240.0)
    write_sweep(sweep, definition)
    taken = take(sweep, tmp_path / "results")
    assert taken == tmp_path / "results" / "sweeps" / "pair"
    assert sweep_folders(tmp_path / "results") == [taken]
    _, _, *rows = sweep_table(taken).splitlines()
    assert [row.split(" | ")[:4] for row in rows] == [
        ["| `top_erl · v`", "success at the last step", "2", "0.75 (0.50 to 1.00)"],
        ["| `top_erl · q`", "success at the last step", "2", "0.00 (0.00 to 0.00)"],
    ]
    assert all(row.endswith("| 30 | 3.0 |") for row in rows)
    drawn = draw_sweep(taken, tmp_path / "figures")
    assert {path.suffix for path in drawn} <= {".png", ".md", ".tex"}
    assert any(path.stem == "ablations" for path in drawn)
    (sweep / "top_erl-b-v-seed1" / "evaluation.json").unlink()
    with pytest.raises(UserError, match="has unfinished runs, such as top_erl-b-v-seed1"):
        take(sweep, tmp_path / "results")


def campaign_run(results: Path, name: str, fresh: list[float]) -> Path:
    """A run of the campaign, of another task each."""
    run = make_run(results / "claims/metaworld" / f"{name}-v3-seed5", "top_erl", 5, [0.0, 0.8], fresh)
    config = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(config.replace("task: a/b", f"task: metaworld/{name}-v3"))
    return run


def test_tasks_of_the_campaign_by_what_they_reached(tmp_path: Path) -> None:
    for name, fresh in {"push": [1.0, 0.0], "reach": [1.0, 1.0], "sweep": [0.0, 0.0], "door-open": [1.0]}.items():
        campaign_run(tmp_path, name, fresh)
    _, _, *rows = campaign_groups(tmp_path).splitlines()
    assert rows == [
        "| at least 0.9 | 2 | door-open, reach | 4 |",
        "| 0.5 to 0.9 | 1 | push | 4 |",
        "| below 0.1 | 1 | sweep | 4 |",
    ]


def test_what_unmastered_policies_do(tmp_path: Path) -> None:
    """Three steps by hand: the object is grasped in the second, nearest to its goal there, and lost again."""
    steps = [(0.3, 0, 0, 0), (0.1, 1, 1, 1), (0.2, 0, 0, 0)]
    names = ("obj_to_target", "near_object", "grasp_success", "success")
    does = measured([dict(zip(names, step, strict=True)) for step in steps])
    assert (does["grasp_any"], does["near_last"], does["success_any"], does["success_last"]) == (1, 0, 1, 0)
    run = campaign_run(tmp_path, "push", [1.0, 0.0])
    (run / "behaviour.json").write_text(json.dumps({**does, "ranking": 0.25, "ranking_error": 0.05}))
    campaign_run(tmp_path, "reach", [1.0, 1.0])
    campaign_run(tmp_path, "sweep", [0.0, 0.0])
    _, _, *rows = behaviours(tmp_path).splitlines()
    assert rows == [
        f"| `push-v3` | 0.50 | {MISSING} | 0.00 | 0.00 | 1.00 | 0.30, 0.10, 0.20 m | 0.25 ± 0.05 |",
        f"| `sweep-v3` | 0.00 | {MISSING} | {MISSING} | {MISSING} | {MISSING} | {MISSING} | {MISSING} |",
    ]
