"""Rollout speed: the bare simulator, one and two workers, and how much of collecting hides behind updates."""

from __future__ import annotations

import time

import numpy as np

from top_erl.experiment.hardware import make_player
from top_erl.rollout import Player
from top_erl.tasks import EpisodeStarts, make_task
from top_erl.tasks.contract import Array

TASKS = ("top_erl/ViaPointReacher-v0", "examples.own_environment:ReacherTask")


def run(quick: bool) -> list[dict[str, object]]:
    """Control steps per second of whole episodes."""
    rows: list[dict[str, object]] = []
    for task_id in TASKS:
        seconds = 1.0 if quick else 4.0
        bare = _bare_steps_per_second(task_id, seconds)
        local, one, two = (_steps_per_second(task_id, workers, seconds) for workers in (0, 1, 2))
        rows.append(
            {
                "task": task_id,
                "bare_simulator": bare,
                "in_process": local,
                "one_worker": one,
                "two_workers": two,
                "two_over_one": two / one,
            }
        )
    return rows


def _steps_per_second(task_id: str, workers: int, seconds: float, episodes: int = 16) -> float:
    """Play batches of episodes for a while."""
    task = make_task(task_id)
    player = make_player(task, task_id, workers)
    try:
        _play(player, episodes, task.spec.horizon)  # start-up
        began, batches = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            _play(player, episodes, task.spec.horizon)
            batches += 1
        return batches * episodes * task.spec.horizon / (time.perf_counter() - began)
    finally:
        player.close()
        task.close()


def _play(player: Player, episodes: int, horizon: int) -> None:
    starts = player.begin(list(range(episodes)))
    player.play(_stand_still(starts, horizon))
    player.outcomes()


def _stand_still(starts: EpisodeStarts, horizon: int) -> Array:
    still = np.concatenate((starts.position, np.zeros_like(starts.velocity)), axis=-1)
    return np.repeat(still[:, None], horizon, axis=1)


def _bare_steps_per_second(task_id: str, seconds: float) -> float:
    """Step the Gymnasium environment behind a task with zero actions; no references, no records."""
    import gymnasium

    name = "top_erl/ViaPointReacher-v0" if task_id.startswith("top_erl/") else "Reacher-v5"
    env = gymnasium.make(name).unwrapped
    action = np.zeros(env.action_space.shape, dtype=np.float32)
    steps, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        env.reset(seed=steps)
        for _ in range(50):
            env.step(action)
        steps += 50
    env.close()
    return steps / (time.perf_counter() - began)
