"""Draw the pictures of docs/plans.md and docs/tasks.md, the latter on the examples of environments of one's own.

From the project's root: python -m docs.make_pictures
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from examples.own_environment import ReacherTask
from examples.pusher import PusherTask
from top_erl.check.trials import movement, play
from top_erl.primitives import PrimitiveConfig, make_primitive
from top_erl.primitives.plans import PlanMovements

Array = NDArray[np.float64]
HERE = Path(__file__).parent
GREY, BLUE, RED, GREEN = "#b8c1c6", "#1f77b4", "#d62728", "#2a8a57"
PARTS = {"joint angles": 7, "joint velocities": 7, "fingertips": 3, "object": 3, "goal": 3}
"""Pusher's observation, as Gymnasium describes it."""
DRIVEN = (0, 3)
"""Two joints that a task of joints might drive."""


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


def draw_state() -> None:
    """Where an observation holds the robot's state, and what a reference does that begins there, or elsewhere."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 3.9), layout="constrained")
    strip, below = figure.subfigures(2, 1, height_ratios=(1, 2.1))
    _draw_entries(strip.subplots())
    panels, task = below.subplots(1, 2, sharey=True), PusherTask()
    primitive = make_primitive(task.spec.primitive, task.spec.num_dof, task.spec.dt)
    draw = np.random.default_rng(1).standard_normal(primitive.num_params)
    before = np.arange(-20, 1) * task.spec.dt
    times = np.arange(1, 41) * task.spec.dt
    here, moving = np.full(2, 0.3), np.full(2, 0.25)  # a robot on its way
    for panel, position, velocity, color, title in (
        (panels[0], here, moving, BLUE, "right: the movement goes on from there"),
        (panels[1], np.zeros(2), 4 * moving, RED, "wrong entries: it begins elsewhere, with a jerk"),
    ):
        reference = movement(task, primitive, draw, position, velocity)[: len(times), 0]
        panel.plot(before, here[0] + moving[0] * before, color=GREY, linewidth=4, label="measured so far")
        panel.plot(np.append(0, times), np.append(position[0], reference), color=color, label="reference")
        panel.plot(0, position[0], "o", color=color, markersize=5)
        panel.set_title(title, loc="left", fontsize=10)
        panel.set_xlabel("seconds")
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("first joint, rad")
    panels[0].legend(frameon=False, fontsize=8, loc="lower right")
    task.close()
    figure.savefig(HERE / "tasks_state.png", dpi=110)


def _draw_entries(panel: Any) -> None:
    """The entries of Pusher's observation in a row; those that `measured_state` returns are coloured."""
    colors = dict.fromkeys(DRIVEN, BLUE) | {7 + joint: GREEN for joint in DRIVEN}
    first = 0
    for name, count in PARTS.items():
        for entry in range(first, first + count):
            color = colors.get(entry, "white")
            panel.bar(entry, 1, width=0.86, color=color, edgecolor=GREY)
            ink = "black" if color == "white" else "white"
            panel.text(entry, 0.5, str(entry), ha="center", va="center", fontsize=8, color=ink)
        panel.text(first + (count - 1) / 2, 1.15, name, ha="center", fontsize=9)
        first += count
    panel.text(3, -0.25, "position: entries 0 and 3", color=BLUE, ha="center", va="top", fontsize=9)
    panel.text(10, -0.25, "velocity: 7 and 10", color=GREEN, ha="center", va="top", fontsize=9)
    panel.set_ylim(-0.7, 1.6)
    panel.axis("off")


def draw_scales() -> None:
    """References of random parameters, with three scales."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 2.9), layout="constrained")
    panels = figure.subplots(1, 3, sharey=True)
    task = ReacherTask()
    draws = np.random.default_rng(0).standard_normal((12, 4))
    times = np.arange(1, task.spec.horizon + 1) * task.spec.dt
    for panel, factor, title in zip(
        panels, (0.05, 1.0, 5.0), ("too small: hardly moves", "as in the example", "too large: full turns"), strict=True
    ):
        config = PrimitiveConfig(num_basis=3, weights_scale=0.3 * factor, goal_scale=factor, relative_goal=True)
        primitive = make_primitive(config, 1, task.spec.dt)
        panel.axhspan(-np.pi, np.pi, color=GREY, alpha=0.25, linewidth=0)
        for draw in draws:
            panel.plot(times, movement(task, primitive, draw, np.zeros(1), np.zeros(1))[:, 0], color=BLUE, linewidth=1)
        panel.set_title(f"{title}\nweights {0.3 * factor:g}, goal {factor:g}", loc="left", fontsize=9)
        panel.set_xlabel("seconds")
        panel.set_xticks([0, 0.5, 1])
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].text(0.02, np.pi + 0.3, "grey: one turn", fontsize=8, color="#5c6b73")
    panels[0].set_ylabel("a joint's reference, rad")
    figure.savefig(HERE / "tasks_scales.png", dpi=110)


def draw_plans() -> None:
    """From one plan an episode to one action a step: h on an axis, and a joint's reference for three of them."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 3.9), layout="constrained")
    panels = figure.subplot_mosaic([["h", "h", "h"], ["1", "10", "50"]], height_ratios=[0.85, 2.6])
    _draw_axis_of_h(panels["h"])
    for name, title in (("1", "h = 1: an action a step"), ("10", "h = 10: five plans"), ("50", "h = 50: one plan")):
        panel = panels[name]
        _draw_reference(panel, int(name))
        panel.set_title(title, loc="left", fontsize=10)
        panel.set_xlabel("seconds")
        panel.set_ylim(-1.2, 1.2)
        panel.set_xticks([0, 0.5, 1])
        panel.spines[["top", "right"]].set_visible(False)
        if name != "1":
            panel.set_yticklabels([])
    panels["1"].set_ylabel("a joint's reference, rad")
    figure.savefig(HERE / "plans_range.png", dpi=110)


def _draw_axis_of_h(panel: Any) -> None:
    """The axis, and who is where on it."""
    panel.set(xscale="log", xlim=(0.8, 62), ylim=(-1.2, 1.6), yticks=[], xticks=[1, 5, 10, 25, 50])
    panel.set_xticklabels(["1", "5", "10", "25", "50 = T"], fontsize=8)
    panel.set_title("h: control steps of a plan that are executed, in an episode of 50", loc="left", fontsize=10)
    panel.plot([1, 50], [0, 0], color=GREY, linewidth=5, solid_capstyle="round")
    for step, name, color in ((1, "T-SAC, SAC, PPO", GREEN), (10, "--plan.every 10", BLUE), (50, "TOP-ERL", RED)):
        panel.plot(step, 0, "o", color=color, markersize=9)
        where = "left" if step == 1 else "right" if step == 50 else "center"
        panel.text(step, 0.6, name, ha=where, fontsize=9, color=color)
    panel.minorticks_off()
    panel.spines[["top", "right", "left"]].set_visible(False)


def _draw_reference(panel: Any, every: int) -> None:
    """References of random plans; what is not executed of them is faint."""
    horizon, dt = 50, 0.02
    times, draw = np.arange(horizon + 1) * dt, np.random.default_rng(2)
    if every == 1:
        panel.step(times, np.cumsum(draw.normal(0.0, 0.08, horizon + 1)), where="post", color=GREEN, linewidth=1.4)
        return
    primitive = make_primitive(PrimitiveConfig(weights_scale=0.3, goal_scale=0.6, relative_goal=True), 1, dt)
    movements = PlanMovements(primitive, horizon, every=every, clock="plan", tau=0.6 if every < horizon else 1.0)
    state = torch.zeros(1, 2, dtype=torch.float64)
    for start in range(0, horizon, every):
        params = torch.from_numpy(draw.standard_normal((1, primitive.num_params)))
        plan = torch.cat((state[:, None], movements.reference(start, params, *state.chunk(2, dim=-1))), dim=1)[0, :, 0]
        panel.plot(times[start:], plan, color=GREY, linewidth=1)
        panel.plot(times[start : start + every + 1], plan[: every + 1], color=RED if every == horizon else BLUE)
        panel.plot(times[start], plan[0], "o", color="#36454c", markersize=3.5)
        state = movements.reference(start, params, *state.chunk(2, dim=-1))[:, min(every, horizon - start) - 1]


if __name__ == "__main__":
    draw_state()
    draw_gains()
    draw_scales()
    draw_plans()
