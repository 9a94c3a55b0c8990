"""Cores that are there, that are idle, and that others want too."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import top_erl.hardware.cores as module
from top_erl.config.run import HardwareConfig, RunConfig
from top_erl.experiment.training import Training
from top_erl.hardware.cores import Crowding, available_cores, idle_cores


def test_cores_are_those_this_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_QUOTAS", ())
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1, 5, 7}, raising=False)
    assert available_cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert available_cores() == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert available_cores() == 1


def _record(path: Path, *cores: str) -> None:
    path.write_text("cpu  1 2 3 4 5 6 7 8 9 10\n" + "\n".join(cores) + "\nintr 17\n", encoding="ascii")


@pytest.mark.parametrize(
    ("after", "ours", "expected"),
    [
        (["cpu0 100 0 0 120 0", "cpu1 100 0 0 120 0"], {0, 1}, 2),
        (["cpu0 120 0 0 100 0", "cpu1 100 0 0 110 10"], {0, 1}, 1),  # waiting for a disk is idle
        (["cpu0 120 0 0 100 0", "cpu1 109 0 2 109 0"], {0, 1}, 1),  # nobody is idle; one core is ours all the same
        (["cpu0 100 0 0 120 0", "cpu1 100 0 0 120 0"], {1}, 1),  # the other core is none of ours
        (["cpu0 100 0 0 100 0", "cpu1 100 0 0 100 0"], {0, 1}, 2),  # no tick has passed
    ],
)
def test_idle_cores_are_counted(
    after: list[str], ours: set[int], expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _record(tmp_path / "stat", "cpu0 100 0 0 100 0", "cpu1 100 0 0 100 0")
    monkeypatch.setattr(module, "_STAT", tmp_path / "stat")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: ours, raising=False)
    monkeypatch.setattr(module.time, "sleep", lambda seconds: _record(tmp_path / "stat", *after))
    assert idle_cores() == expected


@pytest.mark.parametrize(("load", "expected"), [(0.2, 4), (2.6, 1), (9.0, 1)])
def test_elsewhere_the_load_tells(load: float, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_STAT", tmp_path / "none")
    monkeypatch.setattr(module, "available_cores", lambda: 4)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0), raising=False)
    assert idle_cores() == expected


def test_a_container_that_numbers_its_cores_anew_is_asked_for_the_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _record(tmp_path / "stat", "cpu0 100 0 0 100 0", "cpu1 100 0 0 100 0")
    monkeypatch.setattr(module, "_STAT", tmp_path / "stat")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {4, 5, 6}, raising=False)
    monkeypatch.setattr(os, "getloadavg", lambda: (1.0, 0.0, 0.0), raising=False)
    assert idle_cores() == 2

    def unknown() -> tuple[float, float, float]:
        raise OSError

    monkeypatch.setattr(os, "getloadavg", unknown, raising=False)
    assert idle_cores() == 3


def test_time_given_to_guests_is_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """45 of 100 ticks went to a virtual machine: it stands in the column of users and again in that of guests."""
    _record(tmp_path / "stat", "cpu0 145 0 0 155 0 0 0 0 145 0")
    monkeypatch.setattr(module, "_STAT", tmp_path / "stat")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0}, raising=False)
    assert module._idle_share([100, 0, 0, 100, 0, 0, 0, 0], module._times()[0]) == 0.55


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"max": "200000 100000"}, 2),
        ({"max": "150000 100000"}, 2),
        ({"max": "max 100000"}, 8),
        ({"quota": "400000", "period": "100000"}, 4),
        ({"quota": "-1", "period": "100000"}, 8),
        ({"max": "1600000 100000"}, 8),
        ({}, 8),
    ],
)
def test_a_container_has_its_share_of_the_cores(
    files: dict[str, str], expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    paths = {name: str(tmp_path / name) for name in ("max", "quota", "period")}
    monkeypatch.setattr(module, "_QUOTAS", ((paths["max"], paths["max"]), (paths["quota"], paths["period"])))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    assert available_cores() == expected


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="needs Linux")
def test_a_busy_core_is_seen() -> None:
    """A real process keeps one of our cores busy."""
    core = min(os.sched_getaffinity(0))
    code = f"import os; os.sched_setaffinity(0, [{core}]); print(flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as busy:
        assert busy.stdout is not None
        try:
            busy.stdout.readline()
            before = module._times()
            module.time.sleep(0.3)
            share = module._idle_share(before[core], module._times()[core])
        finally:
            busy.kill()
    assert share < 0.5


class _Clock:
    """Time, and threads taken off their cores, as a test says."""

    now, count = 0.0, 0

    def pass_by(self, seconds: float, rate: float) -> None:
        self.now += seconds
        self.count += round(rate * seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    clock = _Clock()
    monkeypatch.setattr(module.time, "monotonic", lambda: clock.now)
    monkeypatch.setattr(module, "_taken_off", lambda: clock.count)
    return clock


def test_crowding_is_told_once_and_only_if_it_lasts(clock: _Clock) -> None:
    crowding = Crowding(2)
    told = []
    for rate in [20.0] * 10 + [300.0] * 2 + [20.0] + [300.0] * 9:
        clock.pass_by(4.0, rate)
        told.append(crowding.begins())
    assert told == [False] * 15 + [True] + [False] * 6


def test_a_run_says_that_it_is_crowded(
    tiny: RunConfig, clock: _Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Crowding, "PATIENCE", 0.0)
    for threads in (1, 2):
        training = Training(replace(tiny, hardware=HardwareConfig(threads=threads, workers=0)))
        with caplog.at_level(logging.WARNING, "top_erl"):
            training.advance()
            clock.pass_by(1.0, 300.0)
            training.advance()
        training.close()
        assert ("--threads 1" in caplog.text) == (threads == 2)
    assert caplog.text.count("--threads 1") == 1
