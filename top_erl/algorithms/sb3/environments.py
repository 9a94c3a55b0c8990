"""A task's step environments as Stable-Baselines3 wants them.

Axes: `N` environments, `S` features of an observation, `A` action entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv

from top_erl.algorithms.stepwise.config import StepCollectConfig
from top_erl.algorithms.stepwise.environments import Features, Observer, StepEnvironments
from top_erl.algorithms.stepwise.trials import TrialEnvironment


class StepVecEnv(StepEnvironments, VecEnv):  # type: ignore[misc]  # the package may be missing, and is Any then
    """`StepEnvironments` for a model of Stable-Baselines3."""

    def __init__(
        self, environments: Sequence[TrialEnvironment], observer: Observer, config: StepCollectConfig, seed: int
    ) -> None:
        """Take over environments; `seed` is the run's."""
        StepEnvironments.__init__(self, environments, observer, config, seed)
        self._actions: NDArray[np.float32] = np.zeros(0, dtype=np.float32)
        space = gym.spaces.Box(-np.inf, np.inf, (observer.size,), dtype=np.float32)
        VecEnv.__init__(self, len(environments), space, environments[0].action_space)

    def step_async(self, actions: NDArray[np.float32]) -> None:
        """Note the actions of the coming step, [N, A]."""
        self._actions = actions

    def step_wait(self) -> tuple[Features, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Make the step; see `StepEnvironments.advance`."""
        return self.advance(self._actions)

    def close(self) -> None:
        """Leave the environments to the pool they come from."""
        return

    def get_attr(self, attr_name: str, indices: int | Iterable[int] | None = None) -> list[Any]:
        """Say that environments are not rendered here; other attributes are not offered."""
        if attr_name != "render_mode":
            raise AttributeError(f"step environments offer no attribute {attr_name!r} to Stable-Baselines3")
        return [None for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: int | Iterable[int] | None = None) -> None:
        """Refuse: nothing of an environment may be changed."""
        raise AttributeError(f"attribute {attr_name!r} of a step environment cannot be set")

    def env_method(
        self, method_name: str, *method_args: Any, indices: int | Iterable[int] | None = None, **method_kwargs: Any
    ) -> list[Any]:
        """Refuse: nothing of an environment may be called."""
        raise AttributeError(f"step environments offer no method {method_name!r} to Stable-Baselines3")

    def env_is_wrapped(self, wrapper_class: type[Any], indices: int | Iterable[int] | None = None) -> list[bool]:
        """Say that environments are not wrapped."""
        return [False for _ in self._get_indices(indices)]
