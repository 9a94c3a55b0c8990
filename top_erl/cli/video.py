"""Films of a trained policy and previews of tasks, for `top-erl evaluate --video` and `top-erl tasks --preview`."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.text import Text

from top_erl.cli.pictures import Picture, captioned, scaled, side_by_side, write_film, write_still
from top_erl.errors import RunStopped, UserError
from top_erl.primitives import make_primitive
from top_erl.rollout.collector import Scores
from top_erl.rollout.playing import begin_episodes, film_episode
from top_erl.tasks import Task, TaskSpec

if TYPE_CHECKING:
    from top_erl.agent import Agent
    from top_erl.algorithms.learner import Learner

Array = NDArray[np.float64]

MAX_RATE = 25.0
"""Pictures per second, at most; a film runs in real time and skips pictures if a task makes more."""
_HOLD = 0.7
"""Seconds for which the last picture of an episode stays."""
_TIMED_PICTURES = 5
_PREVIEW_PICTURES, _PREVIEW_WIDTH = 5, 320


@dataclass(frozen=True)
class Countdown:
    """Words with the seconds that are left, counted down for as long as they are shown."""

    words: str
    until: float
    """When it should be over, by `time.perf_counter`."""

    def __rich__(self) -> Text:
        """What to show at this moment; a second late is not late."""
        left = self.until - time.perf_counter()
        said = f"about {max(1, math.ceil(left))} s left" if left > -1.0 else "longer than expected"
        return Text(f"{self.words}, {said}")


def check_renders(task: Task) -> None:
    """Refuse a task that has no pictures, before the work is done."""
    if type(task).frames is Task.frames:
        raise UserError(f"{task.spec.id} has no rendering, so there is nothing to film.")


def film_policy(agent: Agent, seeds: Sequence[int], path: Path, console: Console) -> None:
    """Film the deterministic policy, one episode after another.

    Args:
        agent: The trained agent.
        seeds: Seed of each episode.
        path: The mp4 or gif file.
        console: Is told about each episode and the film and, if it is a terminal, about how long the rest takes.
    """
    spec = agent.training.spec
    every = picture_stride(spec.dt, MAX_RATE)
    rate = 1.0 / (spec.dt * every)
    count = write_film(path, _filmed(agent, seeds, every, console), rate)
    console.out(f"wrote {path}: {len(seeds)} episode(s), {count / rate:.1f} s", highlight=False)


def picture_stride(dt: float, max_rate: float) -> int:
    """Control steps per picture, so that a film in real time has at most `max_rate` pictures a second."""
    return max(1, math.ceil(1.0 / (dt * max_rate) - 1e-9))


def _filmed(agent: Agent, seeds: Sequence[int], every: int, console: Console) -> Iterator[Picture]:
    """Play and film episodes; their pictures with captions."""
    learner, spec = agent.training.learner, agent.training.spec
    each = _seconds(learner, spec, seeds[0], every) if console.is_terminal else 0.0
    for number, seed in enumerate(seeds, start=1):
        title = [f"{spec.id}", f"{number} of {len(seeds)}", f"seed {seed}"]
        results = result_words(spec, learner.evaluate([seed]))
        console.out(f"filming {number} of {len(seeds)}: seed {seed}, {', '.join(results)}", highlight=False)
        began = time.perf_counter()
        until = began + each * (len(seeds) - number + 1)
        with console.status(Countdown(f"drawing {len(_steps(spec, every))} pictures", until)):
            pictures = learner.film(seed, every)
        each = time.perf_counter() - began
        for step, picture in zip(_steps(spec, every), pictures, strict=True):
            shown = captioned(picture, title, [f"{(step + 1) * spec.dt:.2f} s", *results])
            yield shown
        yield from [shown] * _held(spec, every)


def _seconds(learner: Learner, spec: TaskSpec, seed: int, every: int) -> float:
    """How long filming an episode takes, about: an episode comes with all its pictures, so films of few are timed."""
    few = [spec.horizon, spec.horizon, max(1, spec.horizon // _TIMED_PICTURES)]  # the first opens what draws
    seconds = []
    for stride in few:
        began = time.perf_counter()
        learner.film(seed, stride)
        seconds.append(time.perf_counter() - began)
    counts = [len(_steps(spec, stride)) for stride in (*few, every)]
    of_a_picture = max(0.0, seconds[2] - seconds[1]) / max(1, counts[2] - counts[1])
    return seconds[1] + of_a_picture * (counts[3] - counts[1])


def _held(spec: TaskSpec, every: int) -> int:
    """How often the last picture is shown again."""
    return round(_HOLD / (spec.dt * every))


def _steps(spec: TaskSpec, every: int) -> list[int]:
    """The steps that are filmed: every `every`-th and the last."""
    return [*range(every - 1, spec.horizon - 1, every), spec.horizon - 1]


def thinned(task: Task, seed: int, reference: Array, every: int) -> list[tuple[int, Picture]]:
    """Play one episode, reference [T, 2D]; every `every`-th step and the last, each with its picture."""
    return list(zip(_steps(task.spec, every), film_episode(task, seed, reference, every), strict=True))


def result_words(spec: TaskSpec, scores: Scores) -> list[str]:
    """Say how one episode went: its return, success if the task knows it, the other metrics."""
    words = [f"return {scores.returns[0]:.2f}"]
    numbers = {name: float(scores.metrics[name][0]) for name in spec.metrics}
    if "success" in numbers:
        on_the_way = " at the end, but before" if numbers.pop("success_any", 0.0) else ""
        words.append("success" if numbers.pop("success") else f"no success{on_the_way}")
    return words + [f"{name} {value:.3g}" for name, value in numbers.items()]


def preview(task: Task, path: Path) -> None:
    """Draw a strip of pictures of an episode with a random movement, as an untrained policy makes them."""
    import torch

    spec = task.spec
    starts, _ = begin_episodes(task, [0])
    if starts.failures:
        raise RunStopped(f"{starts.failures[0].sentence}: there is nothing to draw.")
    primitive = make_primitive(spec.primitive, spec.num_dof, spec.dt)
    params = np.random.default_rng(0).standard_normal(primitive.num_params)
    reference = primitive.trajectory(
        torch.from_numpy(params),
        torch.arange(1, spec.horizon + 1, dtype=torch.float64) * spec.dt,
        init_time=0.0,
        init_position=torch.from_numpy(starts.position[0]),
        init_velocity=torch.from_numpy(starts.velocity[0]),
    )
    every = max(1, spec.horizon // _PREVIEW_PICTURES)
    pictures = thinned(task, 0, reference.stacked().numpy(), every)[-_PREVIEW_PICTURES:]
    strip = [
        captioned(scaled(picture, _PREVIEW_WIDTH), [f"{(step + 1) * spec.dt:.2f} s"]) for step, picture in pictures
    ]
    write_still(path, captioned(side_by_side(strip), [spec.id, "a random movement"], [spec.description]))
