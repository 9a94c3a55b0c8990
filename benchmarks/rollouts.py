"""Rollout speed: the bare simulator, one and two workers, and how much of collecting hides behind updates."""

from __future__ import annotations

import statistics
import time

import gymnasium
import numpy as np
import torch

from benchmarks.sizes import MEDIUM, METAWORLD
from benchmarks.synthetic import make_learner
from top_erl.algorithms.top_erl.segments import SegmentsConfig
from top_erl.rollout.player import Player
from top_erl.rollout.pool import make_player
from top_erl.tasks import EpisodeStarts, make_task
from top_erl.tasks.contract import Array

TASKS = {
    "top_erl/ViaPointReacher-v0": "top_erl/ViaPointReacher-v0",
    "examples.own_environment:ReacherTask": "Reacher-v5",
    "top_erl/BoxPushingDense-v0": "top_erl/BoxPushingDense-v0",
    "top_erl/HopperJumpSparse-v0": "top_erl/HopperJumpSparse-v0",
    "metaworld/reach-v3": "metaworld/reach-v3",
    "metaworld/pick-place-v3": "metaworld/pick-place-v3",
}
"""Tasks, and the step environments behind them."""


STEPS = 4800
"""Control steps of a batch, if these are at least 16 episodes."""

BATCHES = 3
"""Batches played in a row."""


def run(quick: bool) -> list[dict[str, object]]:
    """Control steps per second of whole episodes; the three ways of playing take turns, batch by batch."""
    rows: list[dict[str, object]] = []
    for task_id in list(TASKS)[: 3 if quick else None]:
        seconds = 1.0 if quick else 5.0
        bare = _bare_steps_per_second(task_id, seconds)
        local, one, two = _batch_seconds(task_id, 3 * seconds)
        horizon = make_task(task_id).spec.horizon
        steps = _episodes(horizon) * horizon
        rows.append(
            {
                "task": task_id,
                "bare_simulator": bare,
                "in_process": steps / statistics.median(local),
                "one_worker": steps / statistics.median(one),
                "two_workers": steps / statistics.median(two),
                "two_over_one": statistics.median(a / b for a, b in zip(one, two, strict=True)),
            }
        )
    return rows


def _batch_seconds(task_id: str, seconds: float) -> tuple[list[float], list[float], list[float]]:
    """Seconds per batch of episodes played in this process, by one worker and by two, in turns."""
    task = make_task(task_id)
    horizon = task.spec.horizon
    players = [make_player(make_task(task_id), task_id, workers) for workers in (0, 1, 2)]
    times: tuple[list[float], list[float], list[float]] = ([], [], [])
    try:
        for player in players:
            _play(player, horizon, _episodes(horizon))  # start-up
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or len(times[0]) < 3:
            for player, measured in zip(players, times, strict=True):
                began = time.perf_counter()
                for batch in range(BATCHES):  # the next seeds are announced, as in training
                    _play(player, horizon, _episodes(horizon), announce=batch < BATCHES - 1)
                measured.append((time.perf_counter() - began) / BATCHES)
        return times
    finally:
        for player in players:
            player.close()


def _episodes(horizon: int) -> int:
    """Episodes of a batch."""
    return max(16, STEPS // horizon)


def _play(player: Player, horizon: int, episodes: int, announce: bool = False) -> None:
    seeds = list(range(episodes))
    starts = player.begin(seeds)
    player.play(_stand_still(starts, horizon), seeds if announce else ())
    player.outcomes()


def _stand_still(starts: EpisodeStarts, horizon: int) -> Array:
    still = np.concatenate((starts.position, np.zeros_like(starts.velocity)), axis=-1)
    return np.repeat(still[:, None], horizon, axis=1)


def _bare_steps_per_second(task_id: str, seconds: float) -> float:
    """Step the Gymnasium environment behind a task with zero actions; no references, no records, resets not counted."""
    env = gymnasium.make(TASKS[task_id]).unwrapped
    action = np.zeros(env.action_space.shape, dtype=np.float32)
    steps, spent = 0, 0.0
    while spent < seconds:
        env.reset(seed=steps)
        began = time.perf_counter()
        for _ in range(50):
            env.step(action)
        spent += time.perf_counter() - began
        steps += 50
    env.close()
    return steps / spent


def overlap(quick: bool) -> list[dict[str, object]]:
    """How much of the time that collecting takes is hidden behind critic steps of the paper's size."""
    rows: list[dict[str, object]] = []
    size, steps = (MEDIUM, 4) if quick else (METAWORLD, 4)
    learner = make_learner(size, SegmentsConfig("random", 25))
    batch = learner.replay.gather(torch.arange(size.batch))

    def update() -> float:
        began = time.perf_counter()
        for number in range(steps):
            learner.critic_step(batch, torch.Generator().manual_seed(number))
        return time.perf_counter() - began

    for task_id in ("top_erl/BoxPushingDense-v0", "metaworld/reach-v3")[: 1 if quick else None]:
        task = make_task(task_id)
        player = make_player(task, task_id, 1)
        try:
            _play(player, task.spec.horizon, episodes=2)
            began = time.perf_counter()
            _play(player, task.spec.horizon, episodes=2)  # the paper's two episodes an iteration
            collecting, updating = time.perf_counter() - began, update()
            starts = player.begin([0, 1])
            player.play(_stand_still(starts, task.spec.horizon))
            both = update()
            began = time.perf_counter()
            player.outcomes()
            waited = time.perf_counter() - began
        finally:
            player.close()
            task.close()
        rows.append(
            {
                "task": task_id,
                "collecting_s": collecting,
                f"{steps}_critic_steps_s": updating,
                "the_same_meanwhile_s": both,
                "waited_s": waited,
                "hidden": 1 - waited / collecting,
            }
        )
    return rows
