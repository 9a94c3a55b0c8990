"""Playing control steps in many environments at once, and cutting them into trajectories.

Axes: `N` environments, `T` steps of the longest episode, `S` features of a state, `A` action entries.
"""

from __future__ import annotations

from collections.abc import Callable

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from top_erl.algorithms.stepwise.environments import StepEnvironments
from top_erl.algorithms.t_sac.replay import Trajectories

Actions = NDArray[np.float32]


def scaled(actions: Actions, space: gym.spaces.Box) -> Actions:
    """Actions in [-1, 1] as actions of the environments, [..., A]."""
    share = 0.5 * (actions.astype(np.float64) + 1.0)
    moved = space.low + share * (space.high.astype(np.float64) - space.low)
    return np.clip(moved, space.low, space.high).astype(space.dtype)


class _Episode:
    """What an environment has played of its episode."""

    def __init__(self, first: NDArray[np.float32]) -> None:
        self.states, self.actions, self.rewards = [first], list[Actions](), list[float]()
        self.ended = False

    def add(self, action: Actions, reward: float, state: NDArray[np.float32]) -> None:
        self.actions.append(action)
        self.rewards.append(reward)
        self.states.append(state)


def play(
    environments: StepEnvironments, steps: int, choose: Callable[[NDArray[np.float32]], Actions], horizon: int
) -> Trajectories:
    """Play `steps` steps in every environment. What is not over by then is cut off.

    Args:
        environments: Prepared by `begin`.
        steps: Steps of each.
        choose: Actions in [-1, 1], [N, A], for features, [N, S].
        horizon: T.
    """
    space = environments.environments[0].action_space
    features = environments.reset()
    playing = [_Episode(row.copy()) for row in features]
    done: list[_Episode] = []
    for _ in range(steps):
        actions = choose(features)
        features, rewards, over, infos = environments.advance(scaled(actions, space))
        for index, (episode, info) in enumerate(zip(playing, infos, strict=True)):
            last = info["terminal_observation"] if over[index] else features[index].copy()
            episode.add(actions[index], float(rewards[index]), last)
            if over[index]:
                episode.ended = not info["TimeLimit.truncated"]
                done.append(episode)
                playing[index] = _Episode(features[index].copy())
    return _padded([*done, *(episode for episode in playing if episode.rewards)], horizon)


def _padded(episodes: list[_Episode], horizon: int) -> Trajectories:
    """Episodes as tensors."""

    def tensor(name: str, rows: int) -> Tensor:
        first = np.asarray(getattr(episodes[0], name))
        values = np.zeros((len(episodes), rows, *first.shape[1:]), dtype=np.float32)
        for row, episode in zip(values, episodes, strict=True):
            made = np.asarray(getattr(episode, name))
            row[: len(made)] = made
        return torch.from_numpy(values)

    return Trajectories(
        tensor("states", horizon + 1),
        tensor("actions", horizon),
        tensor("rewards", horizon),
        torch.tensor([len(episode.rewards) for episode in episodes]),
        torch.tensor([episode.ended for episode in episodes]),
    )
