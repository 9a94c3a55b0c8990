"""Rewards: their size, whether movements change them, and whether ending early pays."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from top_erl.check.findings import Finding, hint, warning
from top_erl.check.probe import Evidence
from top_erl.tasks import GymnasiumTask
from top_erl.tasks.contract import Array

_RARE = 0.1
"""What changes in fewer than this part of the random episodes is hardly ever touched."""
_MOST = 0.6
"""Where rewards change in more than this part of them, they pay for movement itself, not for what it touches."""


def look(played: Evidence) -> list[Finding]:
    """Look at the rewards of random movements beside those of standing still."""
    return [*_size(played), *_touched(played), *_early_end(played)]


def numbers(played: Evidence) -> dict[str, str]:
    """Returns."""
    still, random = _returns(played)
    changed = _changed(still, random)
    better = int(np.sum(changed & (random > still)))
    return {
        "rewards changed by moving": f"in {np.sum(changed)} of {len(random)} random episodes, {better} for the better",
        "return, standing still": f"{still.mean():.4g} ± {still.std():.2g}",
        "return, random movements": f"{random.mean():.4g} ± {random.std():.2g}",
    }


def _returns(played: Evidence) -> tuple[Array, Array]:
    return np.array([trial.total for trial in played.still]), np.array([trial.total for trial in played.random])


def _changed(still: Array, random: Array) -> NDArray[np.bool_]:
    """In which random episodes the return is another than that of standing still, [n]."""
    return np.abs(still - random) > 1e-9 * np.maximum(np.abs(still), 1.0)


def _size(played: Evidence) -> Iterator[Finding]:
    stated = played.spec.return_size
    size = float(np.median(np.abs(_returns(played)[1])))
    if size > 10 * stated or 0 < size < stated / 10:
        rounded = float(f"{size:.1g}")
        yield warning(
            "return_size",
            f"spec.return_size is {stated:g}, random movements return about {size:.3g}: the presets of most methods "
            f"scale rewards by it. Set return_size={rounded:g}.",
        )


def _touched(played: Evidence) -> Iterator[Finding]:
    """Whether exploration changes anything that is paid for or measured."""
    still, random = _returns(played)
    changed = _changed(still, random)
    yield from _harmful(still, random, changed)
    if np.mean(changed) < _RARE:
        yield warning(
            "exploration",
            f"Rewards differ from those of standing still in {np.sum(changed)} of {len(random)} random episodes: there "
            "is nothing to learn from. Pay for coming nearer, raise the scales of spec.primitive, or start nearer to "
            "what must be touched.",
        )
        return
    for name in played.spec.metrics:
        if name in ("success", "success_any"):
            continue
        pairs = zip(played.still, played.random, strict=True)
        touched = sum(abs(a.metrics[name] - b.metrics[name]) > 1e-6 for a, b in pairs)
        if touched < _RARE * len(random):
            yield hint(
                "exploration",
                f"The metric {name} is as if standing still in {len(random) - touched} of {len(random)} random "
                "episodes: exploration hardly ever touches what it measures. Rewards must lead there, or the scales "
                "of spec.primitive must be larger.",
            )


def _harmful(still: Array, random: Array, changed: NDArray[np.bool_]) -> Iterator[Finding]:
    """Whether what random movements touch gets worse by it nearly always: a policy then learns not to touch it."""
    count, better = int(changed.sum()), int(np.sum(changed & (random > still)))
    if count >= 2 and np.mean(changed) < _MOST and better < 0.2 * count:
        yield warning(
            "exploration",
            f"Of the {count} random episodes (of {len(random)}) that changed the return, {better} were better than "
            "standing still: a policy may learn to touch nothing. Start where a chance touch helps as often as it "
            "harms, or pay for being where a good push begins. (More --episodes make it surer.)",
        )


def _early_end(played: Evidence) -> Iterator[Finding]:
    """Whether an episode that ends early is better off."""
    task, horizon = played.task, played.spec.horizon
    trials = [*played.still, *played.random]
    short = [trial for trial in trials if trial.steps < horizon]
    if not short or not isinstance(task, GymnasiumTask):
        return
    paid = np.concatenate([trial.reward[: trial.steps] for trial in trials])
    mean = float(paid.mean())
    if mean < 0.0 and task.reward_after_end > mean:
        worst = float(f"{np.quantile(paid, 0.1):.2g}")
        yield warning(
            "early end",
            f"Ending early pays: {len(short)} of {len(trials)} episodes ended before step {horizon}, a step pays "
            f"{mean:.3g} on average, and each step after the end {task.reward_after_end:g}. Set reward_after_end = "
            f"{worst:g} in your task, or do not end episodes early.",
        )
