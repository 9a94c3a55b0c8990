"""Callbacks with the hooks Stable-Baselines3 users know.

`_on_step` is called once per iteration (a batch of whole episodes and the updates that follow), not per control step;
returning False stops training.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from top_erl.errors import UserError

Row = dict[str, float]


class BaseCallback:
    """Override the hooks you need; `self.model` is the agent."""

    def __init__(self, verbose: int = 0) -> None:
        """Make a callback; `verbose` is yours to use."""
        self.verbose = verbose
        self.model: Any
        self.n_calls = 0
        self.num_timesteps = 0
        self.metrics: Row = {}
        """The numbers of the iteration that just ended, as in `metrics.csv`."""

    def init_callback(self, model: Any) -> None:
        """Tie the callback to an agent."""
        self.model = model
        self._init_callback()

    def on_training_start(self) -> None:
        """Called by the agent before the first iteration."""
        self._on_training_start()

    def on_rollout_start(self) -> None:
        """Called by the agent before an iteration collects its episodes."""
        self._on_rollout_start()

    def on_rollout_end(self) -> None:
        """Called by the agent when an iteration's episodes are in the replay and its updates are done."""
        self._on_rollout_end()

    def on_step(self, metrics: Row) -> bool:
        """Called by the agent at the end of an iteration; False stops training."""
        self.n_calls += 1
        self.num_timesteps = int(metrics["env_steps"])
        self.metrics = metrics
        return self._on_step()

    def on_training_end(self) -> None:
        """Called by the agent after the last iteration."""
        self._on_training_end()

    def _init_callback(self) -> None:
        """Override: set up what needs `self.model`."""

    def _on_training_start(self) -> None:
        """Override: before the first iteration."""

    def _on_rollout_start(self) -> None:
        """Override: before episodes are collected."""

    def _on_rollout_end(self) -> None:
        """Override: after the updates."""

    def _on_step(self) -> bool:
        """Override: at the end of every iteration; return False to stop."""
        return True

    def _on_training_end(self) -> None:
        """Override: after the last iteration."""


class CallbackList(BaseCallback):
    """Several callbacks as one; training goes on while all of them want it to."""

    def __init__(self, callbacks: Sequence[CallbackLike]) -> None:
        """Chain callbacks; functions do as well."""
        super().__init__()
        self.callbacks = [as_callback(callback) for callback in callbacks]

    def init_callback(self, model: Any) -> None:
        """Tie all callbacks to an agent."""
        super().init_callback(model)
        for callback in self.callbacks:
            callback.init_callback(model)

    def _on_training_start(self) -> None:
        for callback in self.callbacks:
            callback.on_training_start()

    def _on_rollout_start(self) -> None:
        for callback in self.callbacks:
            callback.on_rollout_start()

    def _on_rollout_end(self) -> None:
        for callback in self.callbacks:
            callback.on_rollout_end()

    def _on_step(self) -> bool:
        answers = [callback.on_step(self.metrics) for callback in self.callbacks]  # every one is asked
        return all(answers)

    def _on_training_end(self) -> None:
        for callback in self.callbacks:
            callback.on_training_end()


class FunctionCallback(BaseCallback):
    """A plain function of the iteration's numbers; returning False stops training."""

    def __init__(self, function: Callable[[Row], bool | None]) -> None:
        """Wrap a function."""
        super().__init__()
        self.function = function

    def _on_step(self) -> bool:
        answer = self.function(self.metrics)
        return answer is None or bool(answer)


class StopAtSuccess(BaseCallback):
    """Stop when the evaluation's success rate reaches a threshold."""

    def __init__(self, threshold: float, verbose: int = 0) -> None:
        """Set the threshold, between 0 and 1."""
        super().__init__(verbose)
        self.threshold = threshold

    def _on_step(self) -> bool:
        return self.metrics.get("evaluation_success", 0.0) < self.threshold


CallbackLike = BaseCallback | Sequence[Any] | Callable[[Row], bool | None] | None
"""A callback, a list of them, a function, or None."""


def as_callback(callback: CallbackLike) -> BaseCallback:
    """Accept a callback, a list of them, a function, or None; anything else is refused with a sentence."""
    if callback is None:
        return BaseCallback()
    if isinstance(callback, BaseCallback):
        return callback
    if isinstance(callback, Sequence) and not isinstance(callback, str):
        return CallbackList(callback)
    if callable(callback) and not isinstance(callback, type):
        return FunctionCallback(callback)
    name = callback.__name__ if isinstance(callback, type) else type(callback).__name__
    raise UserError(
        f"{name} is not a callback: derive its class from top_erl.BaseCallback and give an object of it, or give a "
        "function of the iteration's numbers."
    )
