"""A sweep on a real Ray cluster of two nodes, of which one is lost in the middle."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.sweep.tiny import TASKS, numbers, saved_and_running, wait_for, write_definition
from top_erl.sweep.cell import run_cell
from top_erl.sweep.engines.interface import Engine, Job
from top_erl.sweep.folder import make_folder
from top_erl.sweep.schedule import Schedule
from top_erl.sweep.source import read_definition

ray = pytest.importorskip("ray")


def _started() -> Any:
    """Start the nodes. Ray waits half a minute for each, which a busy machine may exceed, so it is tried again."""
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": 80 << 20}
    reason = ""
    for _ in range(3):
        made = Cluster()
        try:
            made.add_node(**node, include_dashboard=False)
            made.second = made.add_node(**node)
            made.wait_for_nodes()
        except Exception as error:  # Ray has no class of its own for it
            reason = str(error)
            made.shutdown()
        else:
            return made
    pytest.skip(f"Ray does not start on this machine: {reason}")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Two nodes with a core each, both on this machine."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "0")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    made = _started()
    yield made
    ray.shutdown()
    made.shutdown()


def test_runs_of_a_lost_node_go_on_elsewhere(tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from top_erl.sweep.engines.ray import RayEngine

    monkeypatch.chdir(tmp_path)  # the nodes were started elsewhere
    write_definition(tmp_path / "tiny.yaml", TASKS[1:], seeds=1, iterations=60)
    folder = make_folder(Path("sweep"), read_definition(tmp_path / "tiny.yaml"))
    told: list[str] = []

    def lose_a_node() -> None:
        """When both nodes are in the middle of a run, the second one goes."""
        wait_for(lambda: len(saved_and_running(folder.path)) == 2, seconds=300.0)
        cluster.remove_node(cluster.second, allow_graceful=False)

    engine = RayEngine(cluster.address, jobs=0, threads=1)
    assert engine.room() == 2
    thread = threading.Thread(target=lose_a_node)
    thread.start()
    end = Schedule(folder, engine, tell=told.append).run()
    thread.join()
    assert (end.finished, end.failed) == (3, {}), told
    assert sum(line.startswith("lost (") for line in told) == 1, told  # as its machine, or as its process just before
    wait_for(lambda: engine.room() == 1)  # the cluster notices when it next looks
    _check_stop(engine, tmp_path)
    engine.close()

    alone = make_folder(tmp_path / "alone", folder.sweep)
    for cell in alone.cells.values():
        assert run_cell(alone, cell, 1, Console(quiet=True)) == 0
        assert numbers(folder.run(cell)) == numbers(alone.run(cell)), cell.name


def _check_stop(engine: Engine, folder: Path) -> None:
    """A run that is asked to stop saves itself; one that cannot be begun says why."""
    write_definition(folder / "long.yaml", TASKS[:1], seeds=1, iterations=10_000)
    sweep = make_folder(folder / "long", read_definition(folder / "long.yaml"))
    engine.start(Job("tce-ViaPointReacher-v0-seed0", sweep.path, folder / "log", 1))
    wait_for(lambda: saved_and_running(sweep.path))
    engine.stop()
    assert [ended.exit_code for ended in engine.ended(60.0)] == [130]
    engine.start(Job("tce-ViaPointReacher-v0-seed0", sweep.path, folder / "nowhere" / "log", 1))
    (ended,) = engine.ended(60.0)
    assert ended.exit_code is None
    assert "No such file" in ended.reason
