"""Draw the pictures of docs/concepts.md, with the library's own primitives, cuts, targets and projections.

From the project's root: python docs/make_concepts.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from top_erl.algorithms.top_erl.regeneration import Regeneration
from top_erl.algorithms.top_erl.segments import RandomSegments, Segments
from top_erl.algorithms.top_erl.targets import n_step_returns
from top_erl.primitives import Primitive, Reference, make_primitive
from top_erl.rollout.replay import EpisodeBatch
from top_erl.tasks.via_point_reacher.rules import ARM, VIA_STEP
from top_erl.tasks.via_point_reacher.task import SPEC, ViaPointReacher
from top_erl.trust_region import Gaussian, KlProjection, kl_covariance_part, kl_mean_part

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GREY, LIGHT, BLUE, RED, GREEN = "#8a949b", "#dfe5e8", "#1f77b4", "#d62728", "#2a9d5c"
TIMES = torch.arange(1, SPEC.horizon + 1, dtype=torch.float64) * SPEC.dt
START = torch.tensor(ARM.start, dtype=torch.float64)
STILL = torch.zeros_like(START)


def new_figure(width: float, height: float) -> Figure:
    """An empty figure on white, so that it can be read on a dark page too."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def bare(panel: Axes, title: str, **labels: str) -> None:
    """Title and labels, without the box around a panel."""
    panel.set_title(title, loc="left", fontsize=10)
    panel.set(**labels)
    panel.spines[["top", "right"]].set_visible(False)


def unroll(primitive: Primitive, params: torch.Tensor) -> Reference:
    """References of parameters, [B, P], from the arm's start."""
    return primitive.trajectory(params, TIMES, 0.0, START, STILL)


def search(primitive: Primitive, seed: int) -> tuple[torch.Tensor, Any]:
    """Parameters of a good movement for one context, [P], by the cross-entropy method, and what was played last."""
    task, generator = ViaPointReacher(), torch.Generator().manual_seed(0)
    mean, std = torch.zeros(primitive.num_params, dtype=torch.float64), 1.0
    for _ in range(8):
        params = mean + std * torch.randn(400, primitive.num_params, generator=generator, dtype=torch.float64)
        task.begin([seed] * 400)
        played = task.play(unroll(primitive, params).stacked().numpy())
        mean, std = params[played.reward.sum(-1).argsort()[-20:].copy()].mean(0), 0.8 * std
    task.begin([seed])
    return mean, task.play(unroll(primitive, mean[None]).stacked().numpy())


def draw_data(folder: Path, seed: int = 5) -> None:
    """One episode from its context to the tokens that are stored."""
    primitive = make_primitive(SPEC.primitive, SPEC.num_dof, SPEC.dt)
    params, played = search(primitive, seed)
    observation = ViaPointReacher().begin([seed]).observation[0]
    figure = new_figure(10, 2.7)
    context, planned, robot, stored = figure.subplots(1, 4)
    for panel, poses, title in (
        (context, START.numpy()[None], "1  context: where to go"),
        (robot, played.observation[0, ::7, :5], "3  the robot tracks it"),
    ):
        for shade, pose in zip(np.linspace(0.15, 1.0, len(poses)) if len(poses) > 1 else (1.0,), poses, strict=True):
            headings = np.cumsum(pose)
            joints = ARM.link_length * np.cumsum(np.stack((np.cos(headings), np.sin(headings)), -1), 0)
            panel.plot(*np.concatenate((np.zeros((1, 2)), joints)).T, "o-", color=GREY, alpha=shade, markersize=3)
        panel.plot(*observation[12:14], "o", color=BLUE, markersize=8)
        panel.plot(*observation[14:16], "*", color=RED, markersize=12)
        panel.annotate("via", observation[12:14] + 0.07, color=BLUE, fontsize=8)
        panel.annotate("goal", observation[14:16] + 0.07, color=RED, fontsize=8)
        bare(panel, title, aspect="equal", xlim=(-1.05, 1.05), ylim=(-0.45, 1.15))
    robot.plot(*ARM.tip(played.observation[0, :, :5]).T, color=GREEN)
    noise = torch.randn(6, len(params), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for draw, color, width in (*((params + 0.5 * each, LIGHT, 1.0) for each in noise), (params, BLUE, 1.8)):
        planned.plot(TIMES, unroll(primitive, draw).position, color=color, linewidth=width)
    bare(planned, "2  parameters → reference", xlabel="seconds", ylabel="five joints, rad")
    tokens = played.reward[0].reshape(-1, SPEC.stride).sum(-1)
    stored.bar(np.arange(len(tokens)), tokens, color=GREY)
    stored.axvline(VIA_STEP / SPEC.stride, color=BLUE, linestyle=":", linewidth=1)
    bare(stored, "4  stored: 25 tokens", xlabel="token", ylabel="reward", ylim=(None, 0.0))
    figure.savefig(folder / "concepts_data.png", dpi=130)


def draw_segments(folder: Path) -> None:
    """Cuts of an episode as the critic gets them: one length each, a random offset, a padded last segment."""
    tokens, generator = 25, torch.Generator().manual_seed(0)
    cuts = [RandomSegments(8).draw(tokens, generator, padded=True) for _ in range(5)]
    colors: list[dict[str, Any]] = [{"color": BLUE, "alpha": 0.75}, {"color": GREEN, "alpha": 0.75}]
    figure = new_figure(7.5, 2.4)
    panel = figure.subplots()
    for row, cut in enumerate(cuts):
        panel.barh(row, tokens, color=LIGHT, height=0.7, linewidth=0)
        for number, (start, count) in enumerate(zip(cut.starts.tolist(), cut.counts.tolist(), strict=True)):
            panel.barh(row, count, left=start, height=0.7, edgecolor="white", **colors[number % 2])
            if count < cut.length:
                rest = cut.length - count
                panel.barh(row, rest, left=start + count, height=0.7, fill=False, hatch="////", edgecolor=GREY)
        panel.text(-0.4, row, f"{cut.length} tokens, offset {cut.offset}", ha="right", va="center", fontsize=8)
    panel.axvline(tokens, color="black", linewidth=1)
    panel.text(tokens + 0.3, -0.62, "end of the episode; hatched: padding", fontsize=8, va="center")
    bare(panel, "", xlabel="token of the episode", xlim=(-6.5, 33.5))
    panel.set(yticks=[], xticks=range(0, 26, 5))
    panel.spines["left"].set_visible(False)
    panel.set_ylim(len(cuts) - 0.5, -0.9)
    figure.savefig(folder / "concepts_segments.png", dpi=130)


def draw_targets(folder: Path) -> None:
    """What every output of the critic is regressed onto, for a segment of four actions with easy numbers."""
    reward, value = torch.tensor([[1.0, 0.0, 2.0, 1.0, 0.0]]), torch.tensor([[9.0, 8.0, 7.0, 6.0, 5.0]])
    cut = Segments(horizon=5, length=4, count=1, offset=0, stride=4)
    returns = n_step_returns(reward, value, cut, discount=0.9)[0, 0]
    figure = new_figure(7.5, 2.7)
    panel = figure.subplots()
    for row in range(1, 5):
        for step in range(row):
            panel.barh(row, 0.94, left=step, color=GREEN, alpha=0.75)
            discount = f"0.9{'⁰¹²³'[step]} · " if step else ""
            panel.text(step + 0.47, row, f"{discount}{reward[0, step]:g}", ha="center", va="center", fontsize=9)
        panel.barh(row, 0.94, left=row, color=BLUE, alpha=0.75)
        panel.text(row + 0.47, row, f"0.9{' ¹²³⁴'[row]} · {value[0, row]:g}", ha="center", va="center", fontsize=9)
        panel.text(5.3, row, f"= {returns[row - 1]:.2f}", va="center", fontsize=10)
        panel.text(-0.1, row, f"$Q_{row}(s_0, a_0{', …' * (row > 1)})$", ha="right", va="center", fontsize=10)
    panel.text(-0.1, 0, "$V(s_0)$", ha="right", va="center", fontsize=10)
    panel.barh(0, 4.94, color=RED, alpha=0.6)
    sentence = "value of new actions from $s_0$ on, by the target critic"
    panel.text(2.47, 0, sentence, ha="center", va="center", fontsize=9)
    legend = ((0, GREEN, "reward that was received"), (2.6, BLUE, "V of the state after it, by the target critic"))
    for x, color, word in legend:
        panel.text(x, 4.85, f"■ {word}", color=color, fontsize=8, va="center")
    panel.set(xlim=(-1.4, 6.2), ylim=(5.1, -0.6), xticks=[], yticks=[])
    panel.spines[:].set_visible(False)
    figure.savefig(folder / "concepts_targets.png", dpi=130)


def draw_condition(folder: Path) -> None:
    """New actions of old segments, from the segment's own state and from the episode's first one."""
    primitive = make_primitive(SPEC.primitive, 1, SPEC.dt)
    generator = torch.Generator().manual_seed(5)
    old, *new = torch.randn(4, primitive.num_params, generator=generator, dtype=torch.float64)
    first = torch.zeros(1, dtype=torch.float64)
    reference = primitive.trajectory(old, torch.cat((torch.zeros(1), TIMES)).double(), 0.0, first, first).stacked()
    before = reference[None, :-1]  # [1, T, 2]: index j is the state before action j
    batch = EpisodeBatch(before, before, reference[None, 1:], torch.zeros(1, SPEC.horizon))
    regenerate = Regeneration(primitive, primitive.grid(TIMES, TIMES - SPEC.dt))
    cut = Segments(SPEC.horizon, length=16, count=3, offset=2, stride=16)
    params = torch.stack(new)[None]  # [1, K, P]
    figure = new_figure(7.5, 2.8)
    for panel, condition, color, title in zip(
        figure.subplots(1, 2, sharey=True),
        ("segment", "episode"),
        (BLUE, RED),
        ("from the segment's own state: a way on", "from the episode's first state: a jump"),
        strict=True,
    ):
        actions = regenerate(batch, cut, params, condition)[0, ..., 0]  # [K, L]
        panel.plot(TIMES, batch.action[0, :, 0], color=GREY, linewidth=3, alpha=0.6, label="what was executed")
        for number, (index, positions) in enumerate(zip(cut.actions, actions, strict=True)):
            label = None if number else "new actions"
            panel.plot(TIMES[index], positions, color=color, linewidth=1.6, label=label)
        panel.plot(TIMES[cut.starts] - SPEC.dt, before[0, cut.starts, 0], "o", color="black", markersize=4)
        bare(panel, title, xlabel="seconds")
        panel.legend(frameon=False, fontsize=8)
    figure.axes[0].set_ylabel("one joint, rad")
    figure.savefig(folder / "concepts_condition.png", dpi=130)


def ellipse(gaussian: Gaussian) -> np.ndarray:
    """Points one standard deviation from the mean, [2, n]."""
    angles = np.linspace(0, 2 * np.pi, 200)
    points: np.ndarray = gaussian.mean.numpy().T + gaussian.factor.numpy() @ np.stack((np.cos(angles), np.sin(angles)))
    return points


def draw_trust_region(folder: Path) -> None:
    """A Gaussian of two parameters that goes too far, and its projection, with three pairs of bounds."""
    old = Gaussian(torch.zeros(1, 2, dtype=torch.float64), torch.tensor([[1.0, 0.0], [0.6, 0.8]], dtype=torch.float64))
    new = Gaussian(torch.tensor([[1.8, 0.6]], dtype=torch.float64), torch.tensor([[0.3, 0.0], [-0.2, 0.5]]).double())
    figure = new_figure(8.5, 2.9)
    panels = figure.subplots(1, 3, sharex=True, sharey=True)
    for panel, (mean_bound, covariance_bound) in zip(panels, ((0.5, 0.5), (0.1, 0.05), (0.005, 0.0005)), strict=True):
        projected = KlProjection(mean_bound, covariance_bound).project(new, old).gaussian
        parts = float(kl_mean_part(projected, old)), float(kl_covariance_part(projected, old))
        np.testing.assert_allclose(parts, (mean_bound, covariance_bound), rtol=1e-6)  # it sits on both bounds
        for gaussian, color, word in ((old, GREY, "old"), (new, RED, "proposed"), (projected, BLUE, "projected")):
            panel.plot(*ellipse(gaussian), color=color, linewidth=2, label=word)
            panel.plot(*gaussian.mean.numpy().T, "o", color=color, markersize=4)
        bare(panel, f"bounds {mean_bound:g} and {covariance_bound:g}", aspect="equal", xlabel="first parameter")
    panels[0].set_ylabel("second parameter")
    panels[0].legend(frameon=False, fontsize=8, loc="lower right")
    figure.savefig(folder / "concepts_trust_region.png", dpi=130)


def main(folder: Path = Path(__file__).parent) -> None:
    """Draw all of them."""
    for draw in (draw_data, draw_segments, draw_targets, draw_condition, draw_trust_region):
        draw(folder)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
