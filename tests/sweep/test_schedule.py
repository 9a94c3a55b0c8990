"""What a sweep does about runs that end in other ways than they should, and what its folder may hold."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from top_erl.errors import FolderBusy, UserError
from top_erl.experiment.lock import FolderLock
from top_erl.experiment.status_file import StatusFile
from top_erl.sweep.definition import Sweep
from top_erl.sweep.engines.interface import Ended, Engine, Job
from top_erl.sweep.folder import SweepFolder, make_folder, open_folder
from top_erl.sweep.schedule import Schedule

ARM = "top_erl/ViaPointReacher-v0"
SWEEP = Sweep("s", (ARM,), seeds=(0, 1, 2), fresh_episodes=0)
NAMES = [cell.name for cell in SWEEP.cells()]


class Scripted(Engine):
    """Ends runs as it is told, and notes which were started; real processes are in the other files."""

    def __init__(self, folder: SweepFolder, script: dict[str, list[int | None]]) -> None:
        self.folder, self.script = folder, script
        self.started: list[str] = []
        self.waiting: list[str] = []

    def room(self) -> int:
        return 2 - len(self.waiting)

    def start(self, job: Job) -> None:
        self.started.append(job.name)
        self.waiting.append(job.name)

    def ended(self, timeout: float) -> Sequence[Ended]:
        if not self.waiting:
            return []
        name = self.waiting.pop(0)
        code = self.script[name].pop(0)
        run = self.folder.path / name
        run.mkdir(exist_ok=True)
        (run / "config.yaml").touch()
        if code == 0:
            StatusFile(run, 5).say("finished", 5, 1.0)
        return [Ended(name, code)]

    def stop(self, *, at_once: bool = False) -> None:
        raise AssertionError


@pytest.fixture
def folder(tmp_path: Path) -> SweepFolder:
    return make_folder(tmp_path / "s", SWEEP)


def _run(
    folder: SweepFolder, script: dict[str, list[int | None]], **options: bool
) -> tuple[Schedule, Scripted, list[str]]:
    engine, told = Scripted(folder, script), []
    return Schedule(folder, engine, tell=told.append, **options), engine, told


def test_lost_runs_are_started_again_but_not_for_ever(folder: SweepFolder) -> None:
    script: dict[str, list[int | None]] = {NAMES[0]: [-9, None, 0], NAMES[1]: [-9, -9, -9], NAMES[2]: [0]}
    schedule, engine, told = _run(folder, script)
    end = schedule.run()
    assert end.finished == 2
    assert list(end.failed) == [NAMES[1]]
    assert "ended with -9, 3 times in a row" in end.failed[NAMES[1]]
    assert engine.started.count(NAMES[0]) == 3
    assert any("its machine was lost), goes on" in line for line in told)
    assert folder.look(folder.cells[NAMES[1]]).state == "failed"


def test_what_is_finished_is_skipped_and_what_failed_is_left_until_asked_for(folder: SweepFolder) -> None:
    schedule, _, _ = _run(folder, {NAMES[0]: [0], NAMES[1]: [0], NAMES[2]: [0]})
    assert schedule.run().finished == 3
    folder.record_failure(folder.cells[NAMES[1]], "It broke.")
    schedule, engine, _ = _run(folder, {})
    end = schedule.run()
    assert (end.finished, end.failed, engine.started) == (2, {NAMES[1]: "It broke."}, [])
    schedule, engine, _ = _run(folder, {NAMES[1]: [0]}, retry=True)
    end = schedule.run()
    assert (end.finished, end.failed, engine.started) == (3, {}, [NAMES[1]])


def test_runs_that_take_long_are_told_of(folder: SweepFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that moves by 25 s with every look: somebody who watches hears of runs that go on, ever less often."""
    clock = itertools.count(0.0, 25.0)
    monkeypatch.setattr("top_erl.sweep.schedule.time.monotonic", lambda: next(clock))
    schedule, engine, told = _run(folder, {name: [0] for name in NAMES})
    ended, calls = engine.ended, iter(range(20))
    monkeypatch.setattr(engine, "ended", lambda timeout: ended(timeout) if next(calls, None) is None else [])
    assert schedule.run().finished == 3
    assert [line for line in told if line.startswith("started")] == [f"started   {name}" for name in NAMES]
    running = [line for line in told if line.startswith("running")]
    assert running[:2] == [f"running   {name}: its first iteration" for name in NAMES[:2]]
    assert 4 <= len(running) < 20


def test_runs_that_others_train_are_left_to_them(folder: SweepFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """From another machine, say: the run's lock tells. When they let go without having finished, it goes on here."""
    monkeypatch.setattr("top_erl.sweep.schedule._BUSY_PAUSE", 0.0)
    lock = FolderLock(folder.path / NAMES[0])
    engine = Scripted(folder, {NAMES[0]: [0], NAMES[1]: [0], NAMES[2]: [FolderBusy.exit_code, 0]})
    told: list[str] = []

    def tell(line: str) -> None:
        told.append(line)
        if "trained by other processes" in line:
            lock.release()

    end = Schedule(folder, engine, tell=tell).run()
    assert (end.finished, end.failed) == (3, {})
    assert engine.started == [NAMES[1], NAMES[2], NAMES[2], NAMES[0]]
    assert sum("the 1 runs that are left are trained by other processes" in line for line in told) == 1


def test_runs_that_failed_elsewhere_meanwhile_are_not_tried_again(folder: SweepFolder) -> None:
    schedule, engine, _ = _run(folder, {NAMES[0]: [0], NAMES[2]: [0]})
    folder.record_failure(folder.cells[NAMES[1]], "It broke.")
    end = schedule.run()
    assert (end.finished, end.failed, engine.started) == (2, {NAMES[1]: "It broke."}, [NAMES[0], NAMES[2]])


def test_a_sweep_may_grow_but_not_change(folder: SweepFolder) -> None:
    more = replace(SWEEP, seeds=(0, 1, 2, 3), methods={"top_erl": {}, "tce": {}})
    assert len(make_folder(folder.path, more).cells) == 8
    assert open_folder(folder.path).sweep == more
    with pytest.raises(UserError, match="runs that this one has not, such as tce-"):
        make_folder(folder.path, SWEEP)
    with pytest.raises(UserError, match=r"other settings \(--learn.target\)"):
        make_folder(folder.path, replace(more, options={"learn.target": "q"}))
    with pytest.raises(UserError, match=r"other settings \(the scale\)"):
        make_folder(folder.path, replace(more, scale="paper"))
    scored = replace(more, fresh_episodes=5)  # unscored runs may be scored later, but all alike
    assert make_folder(folder.path, scored).sweep == scored
    with pytest.raises(UserError, match="scored on 5 fresh episodes each, not 6"):
        make_folder(folder.path, replace(more, fresh_episodes=6))


def test_a_foreign_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letters").touch()
    with pytest.raises(UserError, match="holds other things than a sweep"):
        make_folder(tmp_path, SWEEP)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"word": 1}'])
def test_a_failure_that_cannot_be_read_is_one_still(folder: SweepFolder, text: str) -> None:
    cell = folder.cells[NAMES[0]]
    folder.record_failure(cell, "x")
    (folder.path / "failed" / f"{cell.name}.json").write_text(text)
    assert "cannot be read" in folder.look(cell).sentence


def test_only_one_process_of_a_machine_starts_runs(folder: SweepFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("top_erl.experiment.lock._PATIENCE", 0.1)
    with folder.held(), pytest.raises(FolderBusy, match="top-erl status"), folder.held():
        pass
    with folder.held():
        pass


def test_unscored_runs_are_not_finished(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "s", replace(SWEEP, fresh_episodes=3))
    cell = folder.cells[NAMES[0]]
    run = folder.run(cell)
    run.mkdir()
    (run / "config.yaml").touch()
    assert folder.look(cell).state == "begun"
    StatusFile(run, 5).say("finished", 5, 1.0)
    assert folder.look(cell).state == "begun"
    (run / "evaluation.json").touch()
    assert folder.look(cell).state == "finished"


def test_links_in_a_sweeps_folder_lead_nowhere(folder: SweepFolder, tmp_path: Path) -> None:
    """A stranger's sweep must not write, or delete, elsewhere."""
    cell, elsewhere = folder.cells[NAMES[0]], tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in (f"{cell.name}.json", f"{cell.name}.log"):
        (elsewhere / name).write_text("mine")
    (folder.path / "logs").rmdir()
    for name in ("logs", "failed"):
        (folder.path / name).symlink_to(elsewhere)
    refused = pytest.raises(UserError, match=r"is a link, and nothing is written through links")
    with refused:
        folder.record_failure(cell, "no")
    with refused:
        folder.forget_failure(cell)
    with refused, folder.held():
        pass
    with refused:
        make_folder(folder.path, SWEEP)
    (folder.path / "logs").unlink()
    folder.log(cell).parent.mkdir()
    folder.log(cell).symlink_to(elsewhere / f"{cell.name}.log")
    with refused:
        Job(cell.name, folder.path, folder.log(cell), 1).launch()
    assert {path.read_text() for path in elsewhere.iterdir()} == {"mine"}
    assert len(list(elsewhere.iterdir())) == 2
