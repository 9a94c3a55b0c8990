"""What may go wrong is tried in short here, a family each; and faults that are planted are seen and counted as lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("looks into /proc", allow_module_level=True)

from faults.__main__ import FAMILIES, chosen_scenarios, main
from faults.bench import Bench, a_bench
from faults.damage import damage
from faults.runs import must_be_the_same, must_be_unchanged, newest_checkpoint, snapshot
from faults.scenario import SCENARIOS, Attempt, Lost, Scenario, Skipped, run
from results.make.faults import FILE, faults

QUICK = chosen_scenarios("", quick=True)


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with a_bench(patience=300.0) as made:  # tests share their machine
        yield made


def test_every_family_has_a_short_version() -> None:
    assert list(dict.fromkeys(scenario.family for scenario in SCENARIOS.values())) == list(FAMILIES)
    assert [scenario.family for scenario in QUICK] == list(FAMILIES)


@pytest.mark.parametrize("scenario", QUICK, ids=lambda scenario: scenario.name)
def test_nothing_is_lost(scenario: Scenario, bench: Bench) -> None:
    bench.begin(scenario.name)
    outcome = run(scenario, bench, seconds=0.0, most=scenario.quick)
    assert (outcome.tried, outcome.lost) == (scenario.quick, 0), outcome.note


# ---------------------------------------------------------------------- planted faults


def outcome_of(bench: Bench, *makes: Callable[[], None]) -> tuple[int, int, int, str]:
    """What comes of attempts that are made here."""
    attempts = [Attempt(f"plant {number}", make) for number, make in enumerate(makes)]
    planted = Scenario("planted.fault", "", lambda _: iter(attempts), quick=0, share=1.0, endless=False)
    outcome = run(planted, bench, seconds=600.0)
    return outcome.tried, outcome.survived, outcome.lost, outcome.note


def test_attempts_are_counted(bench: Bench) -> None:
    def lose() -> None:
        raise Lost("it is gone")

    def skip() -> None:
        raise Skipped("not here")

    assert outcome_of(bench, lambda: None, lose, skip) == (2, 1, 1, "plant 1: it is gone; skipped: not here")


def test_other_numbers_are_a_loss(bench: Bench) -> None:
    """A row that somebody changed between, and a tensor."""
    run_folder, whole = bench.room() / "run", bench.whole("top_erl")
    shutil.copytree(whole, run_folder)
    must_be_the_same(run_folder, whole)
    metrics = run_folder / "metrics.csv"
    sound = metrics.read_text()
    lines = sound.splitlines()
    cells = lines[7].split(",")
    cells[-3] = repr(float(cells[-3]) + 1e-12)
    metrics.write_text("\n".join([*lines[:7], ",".join(cells), *lines[8:], ""]))
    with pytest.raises(Lost, match="other numbers in iteration 7"):
        must_be_the_same(run_folder, whole)
    metrics.write_text("\n".join(lines[:-1]) + "\n")
    with pytest.raises(Lost, match="rows to checkpoint"):
        must_be_the_same(run_folder, whole)
    metrics.write_text(sound)
    tensors = newest_checkpoint(run_folder) / "state.safetensors"
    data = bytearray(tensors.read_bytes())
    data[-1] ^= 1
    tensors.write_bytes(data)
    with pytest.raises(Lost, match="other tensors"):
        must_be_the_same(run_folder, whole)


def test_a_refusal_where_none_was_expected_is_a_loss(bench: Bench) -> None:
    """A checkpoint is tampered with, and then the run is expected to go on, or one that is sound to be refused."""
    tampered, sound = bench.half("top_erl"), bench.half("top_erl")
    damage(newest_checkpoint(tampered) / "state.safetensors", "flipped", bench)
    with pytest.raises(Lost, match="exit code 2 instead of 0"):
        bench.start("resume", tampered, folder=tampered.parent).succeeds()
    with pytest.raises(Lost, match="exit code 0 instead of 1 or 2"):
        bench.start("resume", sound, folder=sound.parent).refuses()


def test_tracebacks_leftovers_and_hanging_are_losses(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faults.sessions.GRACE", 0.5)
    room = bench.room()
    program = bench.sessions.script
    with pytest.raises(Lost, match="a traceback: ZeroDivisionError"):
        program("1 / 0", room).wait()
    with pytest.raises(Lost, match="stuck"):
        program("import time; time.sleep(100)", room).wait(1.0)
    leave = "import subprocess; subprocess.Popen(['sleep', '100'])"
    with pytest.raises(Lost, match=r"1 process\(es\) left over"):
        program(leave, room).wait()
    with pytest.raises(Lost, match="no single sentence"):
        program("import sys; sys.exit('who knows')", room).refuses()
    killed = program("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", room)
    assert killed.wait() == -signal.SIGKILL


def test_changes_elsewhere_are_losses(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "link").symlink_to("mine")
    before = snapshot(tmp_path)
    must_be_unchanged(before, tmp_path)
    (tmp_path / "new").touch()
    must_be_unchanged(before, tmp_path, growing=True)
    with pytest.raises(Lost, match="new: new"):
        must_be_unchanged(before, tmp_path)
    (tmp_path / "mine").write_text("yours")
    with pytest.raises(Lost, match="changed: mine"):
        must_be_unchanged(before, tmp_path, growing=True)
    os.replace(tmp_path / "mine", tmp_path / "link")
    with pytest.raises(Lost, match="deleted: mine"):
        must_be_unchanged(before, tmp_path, growing=True)


# ---------------------------------------------------------------------- the command and the table


def test_the_command_tells_what_was_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def attempts(bench: Bench) -> Iterator[Attempt]:
        yield Attempt("a | b", lambda: (bench.room() / "file").touch())
        yield Attempt("c", lambda: must_be_unchanged({"somewhere": "else"}))

    planted = Scenario("planted.fault", "something breaks: nothing is lost", attempts, 0, 1.0, endless=False)
    monkeypatch.setitem(SCENARIOS, planted.name, planted)
    path = tmp_path / FILE
    path.parent.mkdir(parents=True)
    assert main(["--only=planted", f"--json={path}"]) == 1
    (row,) = json.loads(path.read_text())["scenarios"]
    assert (row["tried"], row["survived"], row["lost"]) == (2, 1, 1)
    assert faults(tmp_path).splitlines()[2:] == [
        "| planted: fault | something breaks: nothing is lost | 2 | 1 | 1 | c: deleted: somewhere |",
        "| **sum** |  | 2 | 1 | 1 |  |",
    ]
    with pytest.raises(SystemExit, match="there is no scenario nothing; choose from kill"):
        main(["--only=nothing"])
