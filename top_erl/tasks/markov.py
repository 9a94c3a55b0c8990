"""Rewards that depend on the past, re-arranged so that a learner can attribute them.

A reward is not Markovian if it pays late for what an early event decided: once the robot has taken off, nothing it does
changes how high it flies, yet a sparse reward arrives seconds later, in a state that does not show the height. The
authors of TOP-ERL and TCE therefore move all that is paid after such an event to the event itself. The sum of an
episode's rewards, which is what is reported, stays the same.

Axes: `T` control steps, `...` any batch.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from top_erl.errors import UserError

Array = NDArray[np.float64]


def rewards_at_event(reward: ArrayLike, happened: ArrayLike) -> Array:
    """Pay all rewards from an event on at the event's step.

    With k the first step at which the event has happened, r'_k = r_k + ... + r_{T-1}, r'_j = 0 after it, and r'_j = r_j
    before it. Rewards stay as they are if the event never happens, or has happened at step 0 already.

    Args:
        reward: Reward of each step, [..., T].
        happened: Whether the event has happened by the end of each step, [..., T]; once true it stays true.

    Returns:
        The re-arranged rewards, [..., T].
    """
    rewards, events = np.array(reward, dtype=np.float64), np.asarray(happened, dtype=bool)
    if rewards.shape != events.shape or not rewards.ndim:
        raise UserError(
            f"Rewards and events need the same shape, [..., steps], not {rewards.shape} and {events.shape}."
        )
    if (events[..., :-1] & ~events[..., 1:]).any():
        raise UserError("An event that has happened cannot be undone: once true, it stays true to the episode's end.")
    for index in np.ndindex(rewards.shape[:-1]):  # one by one: a sum's last digit must not depend on the batch
        episode, event = rewards[index], int(events[index].argmax())
        if event > 0:  # 0: never, or from the start on
            episode[event] = episode[event:].sum()
            episode[event + 1 :] = 0.0
    return rewards
