"""Threads and workers for the machine at hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import top_erl.hardware.choice as module
from tests.experiment.variations import with_collect
from tests.rollout.toy_tasks import SlowTask, ToyTask
from top_erl.config.run import HardwareConfig, RunConfig
from top_erl.experiment.presets import preset
from top_erl.hardware.choice import Hardware, choose_hardware, playing_seconds
from top_erl.tasks.via_point_reacher.task import ViaPointReacher


def _choose(
    monkeypatch: pytest.MonkeyPatch,
    config: RunConfig,
    *,
    cores: int,
    seconds: float,
    episodes: int = 8,
    overlap: bool = False,
    idle: int | None = None,
    **wanted: int,
) -> Hardware:
    monkeypatch.setattr(module, "available_cores", lambda: cores)
    monkeypatch.setattr(module, "idle_cores", lambda: cores if idle is None else idle)
    monkeypatch.setattr(module, "_WORTH_ALL", 0)
    monkeypatch.setattr(module, "playing_seconds", lambda task, episodes: seconds)
    config = with_collect(replace(config, hardware=HardwareConfig(**wanted)), episodes=episodes, overlap=overlap)
    return choose_hardware(config, ToyTask())


@pytest.mark.parametrize("cores", [1, 2, 4, 64])
@pytest.mark.parametrize("overlap", [False, True])
def test_cheap_episodes_are_played_here(
    tiny: RunConfig, monkeypatch: pytest.MonkeyPatch, cores: int, overlap: bool
) -> None:
    assert _choose(monkeypatch, tiny, cores=cores, seconds=1e-3, overlap=overlap) == Hardware(cores, 0)


@pytest.mark.parametrize(
    ("cores", "episodes", "workers"), [(1, 8, 0), (2, 8, 2), (4, 8, 4), (4, 3, 3), (64, 8, 8), (2, 1, 1)]
)
def test_dear_episodes_are_played_by_workers(
    tiny: RunConfig, monkeypatch: pytest.MonkeyPatch, cores: int, episodes: int, workers: int
) -> None:
    chosen = _choose(monkeypatch, tiny, cores=cores, seconds=1.0, episodes=episodes)
    assert chosen == Hardware(cores, workers)  # nobody is busy while torch is


@pytest.mark.parametrize("cores", [1, 2, 3, 4, 16, 64])
@pytest.mark.parametrize("episodes", [1, 2, 8])
def test_busy_workers_and_threads_share_the_cores(
    tiny: RunConfig, monkeypatch: pytest.MonkeyPatch, cores: int, episodes: int
) -> None:
    chosen = _choose(monkeypatch, tiny, cores=cores, seconds=1.0, episodes=episodes, overlap=True)
    assert chosen.threads >= 1
    assert chosen.threads + chosen.workers <= cores
    assert chosen.workers == (0 if cores == 1 else min(cores - 1, episodes))


@pytest.mark.parametrize(("idle", "overlap", "threads"), [(4, False, 4), (2, False, 2), (1, False, 1), (4, True, 1)])
def test_threads_need_idle_cores(
    tiny: RunConfig, monkeypatch: pytest.MonkeyPatch, idle: int, overlap: bool, threads: int
) -> None:
    chosen = _choose(monkeypatch, tiny, cores=4, seconds=1.0, overlap=overlap, idle=idle)
    assert chosen.threads == threads
    assert _choose(monkeypatch, tiny, cores=4, seconds=1.0, overlap=overlap, idle=idle, threads=3).threads == 3


@pytest.mark.parametrize(("cores", "idle", "threads"), [(4, 4, 2), (4, 3, 1), (4, 2, 1), (8, 4, 2), (8, 8, 6)])
def test_busy_workers_need_idle_cores_too(
    tiny: RunConfig, monkeypatch: pytest.MonkeyPatch, cores: int, idle: int, threads: int
) -> None:
    chosen = _choose(monkeypatch, tiny, cores=cores, seconds=1.0, episodes=2, overlap=True, idle=idle)
    assert chosen == Hardware(threads, 2)


def test_small_updates_use_one_thread_and_those_of_a_laptop_two(
    tiny: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "available_cores", lambda: 4)
    monkeypatch.setattr(module, "idle_cores", lambda: 4)
    task, tiny = ToyTask(), replace(tiny, hardware=HardwareConfig(workers=0))
    learn, critic = replace(tiny.algorithm.learn, batch_size=64), replace(tiny.algorithm.critic, width=128, heads=8)
    tokens = task.spec.horizon // tiny.algorithm.collect.stride
    large = replace(tiny, algorithm=replace(tiny.algorithm, learn=learn, critic=critic))
    assert large.algorithm.update_size(task.spec.horizon) == 64 * tokens * 128
    monkeypatch.setattr(module, "_WORTH_ALL", 64 * tokens * 128)
    assert choose_hardware(large, task).threads == 4
    assert choose_hardware(tiny, task).threads == 1
    monkeypatch.setattr(module, "_WORTH_ALL", 64 * tokens * 128 + 1)
    monkeypatch.setattr(module, "_WORTH_TWO_THREADS", 64 * tokens * 128)
    assert choose_hardware(large, task).threads == 2
    assert choose_hardware(tiny, task).threads == 1


def test_the_laptop_preset_is_worth_two_threads() -> None:
    config = preset("top_erl", "top_erl/ViaPointReacher-v0", "laptop")
    size = config.hyper_parameters.update_size(ViaPointReacher().spec.horizon)
    assert module._WORTH_TWO_THREADS <= size < module._WORTH_ALL


def test_the_user_decides(tiny: RunConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    both = _choose(monkeypatch, tiny, cores=2, seconds=1e-3, threads=3, workers=5)
    assert both == Hardware(3, 5)
    assert _choose(monkeypatch, tiny, cores=4, seconds=1.0, threads=1) == Hardware(1, 4)
    assert _choose(monkeypatch, tiny, cores=4, seconds=1.0, overlap=True, threads=3) == Hardware(3, 1)
    assert _choose(monkeypatch, tiny, cores=4, seconds=1.0, overlap=True, threads=4) == Hardware(4, 1)
    assert _choose(monkeypatch, tiny, cores=4, seconds=1.0, overlap=True, workers=3) == Hardware(1, 3)
    assert _choose(monkeypatch, tiny, cores=4, seconds=1.0, overlap=True, workers=0) == Hardware(4, 0)


def test_playing_is_timed() -> None:
    slow = playing_seconds(SlowTask(), 8)  # 0.02 s an episode
    assert 0.16 <= slow < 2.0
    assert playing_seconds(ToyTask(), 1) < slow


def test_threads_are_set() -> None:
    module.prepare_process(1)
    assert torch.get_num_threads() == 1
