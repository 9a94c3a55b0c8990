"""Observations that are dictionaries, as goal environments have them, laid out as one row of numbers.

The order is Gymnasium's own (`gymnasium.spaces.utils.flatten`, `FlattenObservation`): the entries of a
`gymnasium.spaces.Dict` in the order of the space. Gymnasium sorts the names of one made from a plain dictionary, so a
goal environment gives `achieved_goal`, `desired_goal`, `observation`. `observation_slices` says where each is.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from gymnasium.spaces.utils import flatdim, flatten


def flat_observation(env: gym.Env[Any, Any], observation: Any) -> Any:
    """An observation of a `Dict` or `Tuple` space as one row of numbers, [S]; any other as it is."""
    if not isinstance(observation, (dict, tuple)):
        return observation
    space: Any = getattr(env, "observation_space", None)
    # What its own space does not describe is left to the check of shapes, which says what was returned.
    return flatten(space, observation) if _describes(space, observation) else observation


def observation_slices(space: gym.Space[Any], name: str = "") -> dict[str, slice]:
    """Where a flat observation holds each entry of a `Dict` space; entries of inner ones are named `outer/inner`.

    The stop of the last slice is `observation_dim`. For a goal environment with 10 observations and goals in space:
    `{"achieved_goal": slice(0, 3), "desired_goal": slice(3, 6), "observation": slice(6, 16)}`.
    """
    if not isinstance(space, gym.spaces.Dict):
        return {name: slice(0, flatdim(space))}
    found: dict[str, slice] = {}
    first = 0
    for key, inner in space.spaces.items():
        for path, part in observation_slices(inner, f"{name}/{key}" if name else str(key)).items():
            found[path] = slice(first + part.start, first + part.stop)
        first += flatdim(inner)
    return found


def _describes(space: object, observation: dict[str, Any] | tuple[Any, ...]) -> bool:
    """Whether a space has the entries of an observation, by name or by number."""
    if isinstance(space, gym.spaces.Dict):
        return isinstance(observation, dict) and set(space.spaces) == set(observation)
    return isinstance(space, gym.spaces.Tuple) and len(space.spaces) == len(observation)
