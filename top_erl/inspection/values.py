"""The critic's values along episodes against what was received.

V(s_t) is compared with the return from step t on, the value of a prefix Q(s_k, a_k … a_t) with the return from the
prefix's first state s_k on. Rewards are scaled and discounted exactly as in the critic's targets. Episodes are played
with exploration, as those the critic has learned from.

TOP-ERL has both values. TCE has V(s_t) only. BBRL values contexts, not the steps of an episode.

Axes: `B` episodes, `T` stored steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from top_erl.agent import Agent
from top_erl.algorithms.on_policy.learner import Episodes, explained_variance
from top_erl.algorithms.tce.learner import TceLearner
from top_erl.algorithms.top_erl.learner import TopErlLearner
from top_erl.algorithms.top_erl.segments import Segments
from top_erl.errors import UserError
from top_erl.inspection.canvas import FAINT, OLD, PREFIX, STATE, add_heading, pyplot, save
from top_erl.inspection.opening import check_has_critic, fresh_episodes, heading, opened
from top_erl.models import Sequences
from top_erl.models.tools import in_mode
from top_erl.rollout.replay import EpisodeBatch
from top_erl.tasks.contract import Array


@dataclass(frozen=True)
class Estimates:
    """One kind of value along episodes, and what it estimates."""

    name: str
    color: str
    time: Array
    """Seconds since the start of the episode, [T]."""
    value: Array
    """The critic's, [B, T]."""
    received: Array
    """The return that was received, [B, T]."""

    @property
    def explained(self) -> float:
        """Share of the variance of what was received that the values explain; 1 at best, negative if they mislead."""
        value, received = (torch.from_numpy(each.ravel()) for each in (self.value, self.received))
        return float(explained_variance(value, received))

    @property
    def bias(self) -> float:
        """Mean error: values too high are positive."""
        return float((self.value - self.received).mean())


@dataclass(frozen=True)
class CriticValues:
    """What a critic says of some episodes."""

    kinds: list[Estimates]
    returns: Array
    """Return of each episode, as the critic counts, [B]."""
    unit: str
    """How the critic counts."""


def draw_values(run: Path, output: Path, seed: int = 0, *, episodes: int = 24, task: str | None = None) -> list[Path]:
    """Draw the critic's values along fresh episodes against the returns received.

    Args:
        run: Run folder of TOP-ERL or TCE.
        output: The picture, without an ending.
        seed: Chooses contexts and exploration.
        episodes: How many are played.
        task: Names the run's task if it is code, as in `Agent.load`.

    Returns:
        A PNG and a PDF file.
    """
    with opened(run, task) as agent:
        return plot_values(critic_values(agent, seed, episodes), heading(agent), output)


@torch.no_grad()
def critic_values(agent: Agent, seed: int = 0, episodes: int = 24) -> CriticValues:
    """Play fresh episodes with exploration and ask the critic about them."""
    check_has_critic(agent)
    learner = agent.training.learner
    if isinstance(learner, TopErlLearner):
        stored = learner.collector.stored(fresh_episodes(learner, episodes, seed))
        return _top_erl_values(learner, learner.seen_by_critic(stored))
    if isinstance(learner, TceLearner):
        return _tce_values(learner, seed, episodes)
    raise UserError(
        f"The critic of {agent.config.method} gives no values along an episode of movements; "
        "this figure is made of runs of top_erl or tce."
    )


# ---------------------------------------------------------------------- what the critics say


def returns_to_go(reward: Tensor, discount: float) -> Tensor:
    """G_t = Σ_{i ≥ t} γ^{i-t} r_i of episodes, [B, T]."""
    steps = torch.arange(reward.shape[1], device=reward.device)
    distance = steps.unsqueeze(1) - steps  # i - t, [T, T]
    weights = discount ** distance.clamp_min(0).double()
    return reward.double() @ torch.where(distance >= 0, weights, 0.0)


def longest_segments(learner: TopErlLearner) -> Segments:
    """Segments of the greatest length that the critic is trained with, one after another; the last may be padded."""
    horizon = learner.collector.stored_horizon
    length = max(learner.segmentation.lengths(horizon))
    return Segments(horizon, length, count=-(-horizon // length), offset=0, stride=length, device=learner.device)


def state_values(learner: TopErlLearner, batch: EpisodeBatch) -> Tensor:
    """V(s_t), [B, T]."""
    times = torch.arange(batch.horizon, device=learner.device)
    values = in_mode(learner.critics, training=False).state_value(_on_device(learner, batch.state), times)
    return learner.target.combine(values)


def prefix_values(learner: TopErlLearner, batch: EpisodeBatch, segments: Segments) -> Tensor:
    """Q(s_k, a_k … a_t) of every action t, with s_k the first state of its segment, [B, T]."""
    actions = _on_device(learner, batch.action)[:, segments.inside]  # [B, K, L, 2D]
    sequences = Sequences(_on_device(learner, batch.state), segments.starts, actions, segments.counts)
    values = learner.target.combine(in_mode(learner.critics, training=False)(sequences))  # [B, K, L + 1]
    return values[..., 1:].flatten(1)[:, : batch.horizon]  # only the last segment is padded


def _on_device(learner: TopErlLearner, values: Tensor) -> Tensor:
    return values.to(learner.device)


def _top_erl_values(learner: TopErlLearner, batch: EpisodeBatch) -> CriticValues:
    spec, collect, discount = learner.collector.spec, learner.config.collect, learner.config.learn.discount
    received = returns_to_go(batch.reward, discount)  # [B, T]
    segments = longest_segments(learner)
    first = segments.starts.cpu().repeat_interleave(segments.length)[: batch.horizon]  # k of every action
    before: Array = np.arange(batch.horizon, dtype=np.float64) * (collect.stride * spec.dt)
    kinds = []
    if learner.target.trains_state_value:
        kinds.append(_estimates("$V(s_t)$, of the state alone", STATE, before, state_values(learner, batch), received))
    name = "$Q(s_0, a_0 … a_t)$, of all actions so far"
    if segments.count > 1:
        name = "$Q(s_k, a_k … a_t)$, of a segment's actions so far"
    values = prefix_values(learner, batch, segments)
    kinds.append(_estimates(name, PREFIX, before + collect.stride * spec.dt, values, received[:, first]))
    unit = _unit(collect.reward_scale, collect.reward_shift, discount, collect.reward_floor)
    if learner.rewards is not None:
        unit = ", ".join(filter(None, (unit, f"less each step's mean, times {float(learner.rewards.factor):.3g}")))
    return CriticValues(kinds, received[:, 0].numpy(), unit)


def _tce_values(learner: TceLearner, seed: int, count: int) -> CriticValues:
    spec, scale, learn = learner.collector.spec, learner.config.collect.reward_scale, learner.config.learn
    episodes = Episodes.of(fresh_episodes(learner, count, seed), scale, learner.policy.raw_covariance)
    state = learner.normalizer(episodes.state) if learn.normalize_states else episodes.state
    received = returns_to_go(episodes.reward.cpu(), learn.discount)
    before: Array = np.arange(spec.horizon, dtype=np.float64) * spec.dt
    kind = _estimates("$V(s_t)$, of the state alone", STATE, before, learner.critic(state), received)
    return CriticValues([kind], received[:, 0].numpy(), _unit(scale, 0.0, learn.discount))


def _estimates(name: str, color: str, time: Array, value: Tensor, received: Tensor) -> Estimates:
    return Estimates(name, color, time, value.double().cpu().numpy(), received.numpy())


def _unit(scale: float, shift: float, discount: float, floor: float | None = None) -> str:
    """How rewards are counted, e.g. "rewards times 0.5, discount 0.99"; empty if as the task pays."""
    parts = [] if floor is None else [f"at least {floor:.3g} per step"]
    parts += [f"+ {shift:.3g} per step"] * (shift != 0.0) + [f"times {scale:.3g}"] * (scale != 1.0)
    parts = [f"rewards {', '.join(parts)}"] * bool(parts) + [f"discount {discount:g}"] * (discount != 1.0)
    return ", ".join(parts)


# ---------------------------------------------------------------------- the picture


def plot_values(values: CriticValues, title: str, output: Path) -> list[Path]:
    """Draw the worst, the middle and the best episode, then all against what they received; a PNG and a PDF file."""
    order = np.argsort(values.returns, kind="stable")
    shown = {"worst": order[0], "middle": order[len(order) // 2], "best": order[-1]}
    with pyplot() as plt:
        height = 2.6 * len(values.kinds) + 1.5
        figure, axes = plt.subplots(len(values.kinds), 4, figsize=(14.0, height), squeeze=False)
        for row, kind in zip(axes, values.kinds, strict=True):
            _draw_episodes(row[:3], kind, list(shown.values()))
            _draw_all(row[3], kind)
        for axis, (name, episode) in zip(axes[0], shown.items(), strict=False):
            axis.set_title(f"{name} episode, return {values.returns[episode]:.3g}")
        axes[0, 3].set_title(f"all {len(order)} episodes")
        for axis in axes[-1, :3]:
            axis.set_xlabel("time (s)")
        axes[-1, 3].set_xlabel("return received")
        unit = f" Returns as the critic counts them: {values.unit}." if values.unit else ""
        explanation = f"The critic's values along fresh episodes, played with exploration, and what was received.{unit}"
        _add_legend(figure, axes[:, 0])
        rect = (0, 0.32 / height, 1, add_heading(figure, title, explanation))
        figure.tight_layout(rect=rect, w_pad=1.5, h_pad=1.5)
        return save(figure, output)


def _draw_episodes(axes: Sequence[Any], kind: Estimates, episodes: Sequence[int]) -> None:
    """A kind of value along some episodes, on one scale."""
    shown = np.concatenate((kind.value[episodes], kind.received[episodes]))
    low, high = float(shown.min()), float(shown.max())
    margin = 0.06 * (high - low) or 1.0
    for axis, episode in zip(axes, episodes, strict=True):
        axis.plot(kind.time, kind.received[episode], color=OLD, lw=2.0, label="received from that state on")
        axis.plot(kind.time, kind.value[episode], color=kind.color, lw=2.0, label=kind.name)
        axis.set_ylim(low - margin, high + margin)
        axis.margins(x=0.02)
    axes[0].set_ylabel("return")


def _add_legend(figure: Any, axes: Sequence[Any]) -> None:
    """Name the lines below all panels."""
    named = [axis.get_legend_handles_labels() for axis in axes]
    found = {label: handle for handles, labels in named for handle, label in zip(handles, labels, strict=True)}
    figure.legend(found.values(), found.keys(), loc="lower center", ncol=len(found))


def _draw_all(axis: Any, kind: Estimates) -> None:
    """Every value of every episode against what was received."""
    value, received = kind.value.ravel(), kind.received.ravel()
    ends = [float(min(value.min(), received.min())), float(max(value.max(), received.max()))]
    margin = 0.06 * (ends[1] - ends[0]) or 1.0
    axis.set(xlim=(ends[0] - margin, ends[1] + margin), ylim=(ends[0] - margin, ends[1] + margin))
    axis.axline((ends[0], ends[0]), slope=1.0, color=FAINT, lw=1.0, ls="--")
    axis.scatter(received, value, s=5, color=kind.color, alpha=0.25, lw=0, rasterized=True)
    bias = kind.bias
    numbers = f"explained variance {round(kind.explained, 2) + 0.0:.2f}\nmean error {bias:+.2g}"  # no minus before 0.00
    paper = {"facecolor": "white", "alpha": 0.8, "lw": 0}
    place = (0.98, 0.03, "right", "bottom") if bias > 0.0 else (0.03, 0.97, "left", "top")  # the emptier corner
    x, y, horizontal, vertical = place
    axis.text(x, y, numbers, transform=axis.transAxes, ha=horizontal, va=vertical, fontsize=9, bbox=paper)
    axis.locator_params(nbins=5)
    axis.set_ylabel("value")
