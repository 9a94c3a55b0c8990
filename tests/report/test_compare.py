"""Two runs side by side."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.report.synthetic import Invented, write_run
from top_erl.cli import main
from top_erl.report.compare import compare_runs
from top_erl.report.settings import MISSING, differing, flat

Output = pytest.CaptureFixture[str]


def _edit(folder: Path, line: int, column: str, value: str) -> None:
    """Change one cell of metrics.csv; line 0 is the header."""
    path = folder / "metrics.csv"
    lines = path.read_text().splitlines()
    cells = lines[line].split(",")
    cells[lines[0].split(",").index(column)] = value
    path.write_text("\n".join([*lines[:line], ",".join(cells), *lines[line + 1 :]]) + "\n")


def test_the_same_run_twice_is_the_same_bit_by_bit(tmp_path: Path, capsys: Output) -> None:
    a, b = write_run(tmp_path / "a", Invented()), write_run(tmp_path / "b", Invented())
    _edit(b, 5, "wall_time", "10.7")  # how quick a machine was is no difference of what was learned
    found = compare_runs(a, b)
    assert found.difference.same
    assert found.settings == {}
    assert found.origins == {}
    assert main(["compare", str(a), str(b)]) == 0
    out = capsys.readouterr().out
    assert "The same numbers, bit by bit, in all 60 iterations" in out
    assert "Configuration: the same." in out


def test_one_last_bit_is_found_where_it_is(tmp_path: Path) -> None:
    a, b = write_run(tmp_path / "a", Invented()), write_run(tmp_path / "b", Invented())
    _edit(a, 33, "critic_loss", "0.1")
    _edit(b, 33, "critic_loss", "0.10000000000000002")
    difference = compare_runs(a, b).difference
    assert not difference.same
    assert difference.iteration == 33
    assert difference.same_rows == 32
    assert difference.columns == ("critic_loss",)
    assert difference.sentence == "They are the same for 32 iterations and differ from iteration 33 on: critic_loss."


def test_a_number_that_only_one_has_measured_is_a_difference(tmp_path: Path) -> None:
    a, b = write_run(tmp_path / "a", Invented()), write_run(tmp_path / "b", Invented())
    _edit(b, 7, "evaluation_success", "")
    assert compare_runs(a, b).difference.columns == ("evaluation_success",)
    assert compare_runs(a, b).difference.iteration == 7


def test_a_shorter_run_with_the_same_numbers(tmp_path: Path) -> None:
    a, b = write_run(tmp_path / "a", Invented()), write_run(tmp_path / "b", Invented(rows=31))
    found = compare_runs(a, b)
    assert not found.difference.same
    assert found.difference.sentence == (
        "The same numbers, bit by bit, in the first 31 iterations, which both have. A has 60 iterations, B 31."
    )
    assert found.scores["iterations"] == (60.0, 31.0)


def test_settings_versions_and_scores_that_differ(tmp_path: Path) -> None:
    a = write_run(tmp_path, Invented(skill=1.0))
    b = write_run(tmp_path, Invented(skill=0.5, seed=1, algorithm={"learn": {"target": "q"}}))
    print_of_b = json.loads((b / "fingerprint.json").read_text())
    print_of_b["packages"]["torch"] = "2.14.0"
    (b / "fingerprint.json").write_text(json.dumps(print_of_b))
    for line in range(1, 61):  # success as told here
        for folder, value in ((a, line / 60), (b, 0.6)):
            _edit(folder, line, "evaluation_success", repr(value))
            _edit(folder, line, "wall_time", str(30 * line))
    found = compare_runs(a, b)
    assert found.settings == {"seed": ("0", "1"), "learn.target": ("v", "q")}
    assert found.origins == {"packages.torch": ("2.13.0+cpu", "2.14.0")}
    assert found.scores["success, last evaluation"] == (1.0, 0.6)
    assert found.scores["steps to 50% success"] == (30 * 200, 200)  # two episodes of 100 steps an iteration
    assert found.scores["minutes to 80% success"] == (24.0, None)


def test_the_file_says_the_same(tmp_path: Path) -> None:
    a, b = write_run(tmp_path / "a", Invented()), write_run(tmp_path / "b", Invented(seed=1))
    path = tmp_path / "difference.json"
    assert main(["compare", str(a), str(b), "--json", str(path)]) == 0
    data = json.loads(path.read_text())
    assert data["runs"] == [str(a), str(b)]
    assert data["settings"] == {"seed": ["0", "1"]}
    assert data["same"] is False
    assert data["first_different_iteration"] == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["{run}"], "Name two run folders: top-erl compare runs/A runs/B."),
        (["{run}", "{run}/nowhere"], "There is no folder {run}/nowhere."),
        (["{run}", "{root}"], "{root} is not a run folder: name a folder with a config.yaml and a metrics.csv."),
        (["{run}", "{root}/torn"], "{root}/torn cannot be compared: it has no config.yaml."),
        (
            ["{run}", "{run}", "--json={root}/none/a.json"],
            "Cannot write {root}/none/a.json: there is no folder {root}/none.",
        ),
    ],
)
def test_mistakes_are_one_sentence(tmp_path: Path, capsys: Output, arguments: list[str], sentence: str) -> None:
    names = {"root": tmp_path, "run": write_run(tmp_path, Invented())}
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "metrics.csv").touch()
    assert main(["compare", *(argument.format(**names) for argument in arguments)]) == 2
    assert capsys.readouterr().err == f"top-erl: {sentence.format(**names)}\n"


def test_neither_command_brings_torch_or_a_plotting_library() -> None:
    code = "import sys, top_erl.cli.report; print(sorted({'torch', 'plotly', 'matplotlib'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_nested_settings_are_named_as_options_are() -> None:
    config = {"task": "a", "algorithm": {"learn": {"target": "v", "steps": [1, 2]}}, "hardware": {"threads": 1}}
    assert flat(config) == {"task": "a", "learn.target": "v", "learn.steps": [1, 2], "hardware.threads": 1}
    assert differing({"x": config, "y": {"task": "a", "algorithm": {"learn": {"steps": [1, 2]}}}}) == {
        "learn.target": {"x": "v", "y": MISSING},
        "hardware.threads": {"x": "1", "y": MISSING},
    }
