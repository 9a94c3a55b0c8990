"""Draw the pictures of docs/tasks.md: gains and scales, on the example of an environment of one's own.

From the project's root: python docs/make_pictures.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from examples.own_environment import ReacherTask
from top_erl.check.trials import movement, play
from top_erl.primitives import PrimitiveConfig, make_primitive

Array = NDArray[np.float64]
HERE = Path(__file__).parent
GREY, BLUE, RED = "#b8c1c6", "#1f77b4", "#d62728"


class Soft(ReacherTask):
    """The example with gains that are too low."""

    def control(self, env: Any, desired_position: Array, desired_velocity: Array) -> Array:
        """A tenth of the torques."""
        return 0.1 * super().control(env, desired_position, desired_velocity)


def draw_gains() -> None:
    """A reference, and what the robot does with good and with weak gains."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 2.6), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for panel, task, color, title in (
        (panels[0], ReacherTask(), BLUE, "good gains: the robot follows"),
        (panels[1], Soft(), RED, "a tenth of them: it lags and overshoots"),
    ):
        spec = task.spec
        primitive = make_primitive(spec.primitive, spec.num_dof, spec.dt)
        trial = play(task, 0, np.random.default_rng(3).standard_normal(primitive.num_params), primitive)
        task.close()
        assert trial.position is not None
        times = np.arange(1, spec.horizon + 1) * spec.dt
        panel.plot(times, trial.reference[:, 0], color=GREY, linewidth=4, label="reference")
        panel.plot(times[:-1], trial.position[1:, 0], color=color, linewidth=1.6, label="measured")
        panel.set_title(title, loc="left", fontsize=10)
        panel.set_xlabel("seconds")
        panel.legend(frameon=False, fontsize=8)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("first joint, rad")
    figure.savefig(HERE / "tasks_gains.png", dpi=110)


def draw_scales() -> None:
    """References of random parameters, with three scales."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 2.6), layout="constrained")
    panels = figure.subplots(1, 3, sharey=True)
    task = ReacherTask()
    draws = np.random.default_rng(0).standard_normal((12, 4))
    for panel, factor, title in zip(
        panels, (0.05, 1.0, 5.0), ("too small: hardly moves", "as in the example", "too large: full turns"), strict=True
    ):
        config = PrimitiveConfig(num_basis=3, weights_scale=0.3 * factor, goal_scale=factor, relative_goal=True)
        primitive = make_primitive(config, 1, task.spec.dt)
        times = np.arange(1, task.spec.horizon + 1) * task.spec.dt
        for draw in draws:
            panel.plot(times, movement(task, primitive, draw, np.zeros(1), np.zeros(1))[:, 0], color=BLUE, linewidth=1)
        panel.set_title(title, loc="left", fontsize=10)
        panel.set_xlabel(f"weights_scale {0.3 * factor:g}, goal_scale {factor:g}", fontsize=8)
        panel.axhspan(-np.pi, np.pi, color=GREY, alpha=0.25, linewidth=0)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("a joint's reference, rad")
    figure.savefig(HERE / "tasks_scales.png", dpi=110)


if __name__ == "__main__":
    draw_gains()
    draw_scales()
