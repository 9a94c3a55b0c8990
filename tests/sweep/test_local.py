"""A sweep from the command line: stopped, killed and continued, it has the numbers of one that was left alone."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

from tests.sweep.tiny import TASKS, finish, kill_a_running_run, numbers, top_erl, wait_for, write_definition
from top_erl.experiment.lock import FolderLock
from top_erl.report.records import collect
from top_erl.report.summary import summarize
from top_erl.sweep.cell import run_cell
from top_erl.sweep.engines.interface import Job
from top_erl.sweep.folder import make_folder, open_folder
from top_erl.sweep.source import read_definition


def _finished(sweep: Path) -> int:
    """Runs that have nothing left to do; one that has trained to its end is still to be scored."""
    if not (sweep / "sweep.yaml").exists():
        return 0
    folder = open_folder(sweep)
    return sum(folder.look(cell).state == "finished" for cell in folder.cells.values())


def test_a_disturbed_sweep_has_the_numbers_of_an_undisturbed_one(tmp_path: Path) -> None:
    """Six runs, two tasks of three methods; Ctrl-C in the middle, kill -9 of one run."""
    definition, sweep = tmp_path / "tiny.yaml", tmp_path / "sweeps" / "tiny"
    write_definition(definition, TASKS, seeds=1, iterations=6)

    first = top_erl("sweep", definition, cwd=tmp_path)
    wait_for(lambda: _finished(sweep) >= 2)
    first.send_signal(signal.SIGINT)
    code, said = finish(first)
    assert code == 130, said
    assert "Go on with: top-erl sweep sweeps/tiny" in said
    stopped = _finished(sweep)
    assert 2 <= stopped < 6

    second = top_erl("sweep", sweep, cwd=tmp_path)
    killed: list[Path] = []
    wait_for(lambda: killed or killed.extend(filter(None, [kill_a_running_run(sweep)])))
    code, said = finish(second)
    assert code == 0, said
    assert f"6 runs: {stopped} finished, {6 - stopped} to do" in said
    assert f"{killed[0].name}: " in said
    assert "its process ended with -9), goes on" in said
    assert "6 of 6 runs are finished, 0 failed." in said

    undisturbed = make_folder(tmp_path / "undisturbed", read_definition(definition))
    for cell in undisturbed.cells.values():
        assert run_cell(undisturbed, cell, 1, Console(quiet=True)) == 0
        assert numbers(sweep / cell.name) == numbers(undisturbed.run(cell)), cell.name
    assert _reported(sweep) == _reported(undisturbed.path)


def _reported(sweep: Path) -> list[object]:
    """What a report says of a sweep, but for times."""
    found = collect([sweep])
    assert (len(found.runs), found.excluded) == (6, [])
    return [
        (summary.score, summary.source, label.label, label.runs, label.iqm, label.mean, label.median, label.tasks)
        for summary in summarize(found.runs)
        for label in summary.labels
    ]


def test_a_run_whose_sweep_is_gone_before_it_begins_stops_too(tmp_path: Path) -> None:
    write_definition(tmp_path / "tiny.yaml", TASKS[:1], seeds=1, iterations=1000)
    folder = make_folder(tmp_path / "s", read_definition(tmp_path / "tiny.yaml"))
    with subprocess.Popen(["true"]) as gone:
        pass
    command = Job(next(iter(folder.cells)), folder.path, tmp_path / "log", 1).command()
    command[command.index("--stop-with-parent") + 1] = str(gone.pid)
    assert subprocess.run(command, check=False, timeout=60).returncode == -signal.SIGTERM


def test_what_a_module_of_the_users_raises_is_why_a_run_failed(tmp_path: Path) -> None:
    write_definition(tmp_path / "tiny.yaml", TASKS[:1], seeds=1, iterations=1)
    (tmp_path / "mine.py").write_text("import os\nassert 'OPENBLAS_NUM_THREADS' not in os.environ, 'no runs'\n")
    sweep = tmp_path / "sweeps" / "tiny"
    code, said = finish(top_erl("sweep", "tiny.yaml", "--methods", "tce", "--import", "mine", cwd=tmp_path))
    assert code == 1, said
    assert f"tce-ViaPointReacher-v0-seed0: Cannot import mine in {tmp_path}: AssertionError: no runs." in said
    assert f"{sweep.relative_to(tmp_path)} --import mine --retry" in said


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep of which one run must fail: its folder holds a run with other settings."""
    folder = tmp_path_factory.mktemp("mixed")
    write_definition(folder / "tiny.yaml", TASKS[:1], seeds=1, iterations=2)
    made = make_folder(folder / "other", read_definition(folder / "tiny.yaml"))
    cell = made.cells["tce-ViaPointReacher-v0-seed0"]
    assert run_cell(made, cell, 1, Console(quiet=True)) == 0
    config = made.run(cell) / "config.yaml"
    config.write_text(config.read_text().replace("total_env_steps: 400", "total_env_steps: 300"))
    (made.run(cell) / "evaluation.json").unlink()  # so that there is something left to do
    (folder / "sweeps" / "tiny").mkdir(parents=True)
    made.run(cell).rename(folder / "sweeps" / "tiny" / cell.name)
    (folder / "sweeps" / "tiny" / "sweep.yaml").write_text((folder / "other" / "sweep.yaml").read_text())
    return folder


def test_one_failing_run_stops_no_other(mixed: Path) -> None:
    sweep = mixed / "sweeps" / "tiny"
    code, said = finish(top_erl("sweep", sweep, cwd=mixed))
    assert code == 1, said
    sentence = "holds a run with other settings than the sweep gives it"
    assert "2 of 3 runs are finished, 1 failed." in said
    assert said.count(sentence) == 2  # when it failed, and at the end
    code, said = finish(top_erl("status", sweep, cwd=mixed))
    assert sentence in " ".join(said.split())
    states = {name: folder.look(cell).state for folder in [open_folder(sweep)] for name, cell in folder.cells.items()}
    assert sorted(states.values()) == ["failed", "finished", "finished"]
    with open_folder(sweep).held():  # as another sweep of this machine does
        code, said = finish(top_erl("sweep", sweep, cwd=mixed))
    assert code == 75, said
    assert "is being run by another process of this machine" in said
    lock = FolderLock(sweep / "tce-ViaPointReacher-v0-seed0")  # as a run does
    code, said = finish(top_erl("status", sweep, cwd=mixed))
    lock.release()
    assert re.search(r"running +tce-ViaPointReacher-v0-seed0 +iteration 4/4", said), said
    # Left alone when started again, tried again when asked to.
    code, said = finish(top_erl("sweep", sweep, cwd=mixed))
    assert code == 1, said
    assert "3 runs: 2 finished, 0 to do" in said
    (sweep / "tce-ViaPointReacher-v0-seed0").rename(mixed / "moved")
    code, said = finish(top_erl("sweep", sweep, "--retry", cwd=mixed))
    assert code == 0, said
    assert "3 of 3 runs are finished, 0 failed." in said
