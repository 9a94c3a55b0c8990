"""Old and new trajectories with re-conditioned segments (Sec. 4.3.1 and Fig. 7).

A stored episode followed the reference of an old policy. What the new policy would do in its context deviates from
that. For the critic's targets every segment of the new trajectory therefore begins at the old reference: its position
and velocity are the initial condition of the primitive there.

Axes: `T` times, `D` degrees of freedom, `2` position and velocity.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from top_erl.agent import Agent
from top_erl.algorithms.top_erl.learner import TopErlLearner
from top_erl.errors import UserError
from top_erl.inspection.canvas import NEW, OLD, SEGMENTS, add_heading, pyplot, save
from top_erl.inspection.opening import check_clock, control_times, fresh_episodes, heading, opened
from top_erl.primitives import Reference
from top_erl.rollout.replanning import plan_every
from top_erl.rollout.replay import EpisodeBatch, EpisodeReplay
from top_erl.tasks.contract import Array


@dataclass(frozen=True)
class Motion:
    """A piece of a trajectory."""

    time: Array
    """Seconds, [T]."""
    state: Array
    """Positions and velocities, [T, 2, D]."""


@dataclass(frozen=True)
class Reconditioned:
    """One episode's old reference, and the new policy's."""

    old: Motion
    """What the episode followed, at the stored times."""
    new: Motion
    """The new policy's trajectory from the episode's start."""
    segments: list[Motion]
    """The new policy's trajectory again, but each piece from the old reference at its start on."""
    starts: list[int]
    """Where in `old` each segment starts."""
    stored: bool
    """Whether the episode comes from the replay, or was played with the policy itself."""
    plans: bool = False
    """Whether the policy is asked anew where each segment starts."""

    def jumps(self) -> tuple[Array, Array]:
        """Largest distances from the old reference at the segments' starts, of position and velocity, [2] each.

        Returns:
            Of the new trajectory from the episode's start, and of the re-conditioned segments.
        """
        old = self.old.state[self.starts]  # [K, 2, D]
        new = np.stack([self.new.state[np.abs(self.new.time - piece.time[0]).argmin()] for piece in self.segments])
        begun = np.stack([piece.state[0] for piece in self.segments])
        return np.abs(new - old).max(axis=(0, 2)), np.abs(begun - old).max(axis=(0, 2))


def draw_reconditioning(
    run: Path, output: Path, seed: int = 0, *, segments: int = 5, task: str | None = None
) -> list[Path]:
    """Draw an old episode's reference, the new policy's, and its segments re-conditioned on the old one.

    Args:
        run: Run folder of TOP-ERL.
        output: The picture, without an ending.
        seed: Chooses the episode that is played if the checkpoint holds none.
        segments: How many segments.
        task: Names the run's task if it is code, as in `Agent.load`.

    Returns:
        A PNG and a PDF file.
    """
    with opened(run, task) as agent:
        return plot_reconditioning(reconditioned(agent, seed, segments), heading(agent), output)


@torch.no_grad()
def reconditioned(agent: Agent, seed: int = 0, segments: int = 5) -> Reconditioned:
    """Re-condition the policy's mean trajectory on the oldest stored episode, all in float64."""
    learner = agent.training.learner
    if not isinstance(learner, TopErlLearner):
        raise UserError(f"Segments are re-conditioned in TOP-ERL only; this is a run of {agent.config.method}.")
    if not learner.primitive.restarts:
        kind = learner.primitive.config.kind
        raise UserError(f"A movement of kind {kind} cannot be restarted: it has no re-conditioned segments.")
    check_clock(learner)
    batch = _oldest(learner.replay) if len(learner.replay) else None
    episode = batch or learner.collector.stored(fresh_episodes(learner, 1, seed))
    old = _old_motion(learner, episode)
    count = min(segments, episode.horizon)
    starts = [number * episode.horizon // count for number in range(count)]
    times = control_times(learner)
    ends = [*(old.time[start] for start in starts[1:]), float(times[-1])]
    pieces = [_new_motion(learner, episode, old, start, times, end) for start, end in zip(starts, ends, strict=True)]
    whole = _new_motion(learner, episode, old, 0, times, float(times[-1]))
    return Reconditioned(
        old, whole, pieces, starts, stored=batch is not None, plans=bool(plan_every(learner.collector))
    )


def _oldest(replay: EpisodeReplay) -> EpisodeBatch:
    """The episode that the replay has held longest."""
    return replay.gather(torch.tensor([replay.total_added % len(replay)]))


def _old_motion(learner: TopErlLearner, episode: EpisodeBatch) -> Motion:
    """The reference before each stored action, which is at time stride · j · dt, and what the last one tracked."""
    spec, stride = learner.collector.spec, learner.collector.stride
    steps = np.arange(episode.horizon) * stride
    states = torch.cat((episode.reference[0], episode.action[0, -1:])).double().cpu()  # [T + 1, 2D]
    return Motion(np.append(steps, steps[-1] + 1) * spec.dt, states.unflatten(-1, (2, -1)).numpy())


def _new_motion(
    learner: TopErlLearner, episode: EpisodeBatch, old: Motion, start: int, times: Tensor, end: float
) -> Motion:
    """The movement of the policy's mean from an old state until a time."""
    seen = learner.seen_by_policy(episode)[:, start] if plan_every(learner.collector) else episode.state[:, 0]
    params = learner.policy(seen).mean[0].double().cpu()  # [P]
    began = float(old.time[start])
    half = learner.collector.spec.dt / 2  # times are whole steps, up to rounding
    inside = times[(times > began - half) & (times < end + half)]
    position, velocity = torch.from_numpy(old.state[start])
    reference: Reference = learner.primitive.trajectory(
        params, inside, began, position, velocity, goal_origin=torch.from_numpy(old.state[0, 0])
    )
    return Motion(inside.numpy(), torch.stack((reference.position, reference.velocity), dim=1).numpy())


def plot_reconditioning(shown: Reconditioned, title: str, output: Path) -> list[Path]:
    """Draw positions above velocities, a column per degree of freedom; a PNG and a PDF file."""
    dof = shown.old.state.shape[-1]
    with pyplot() as plt:
        width = max(2.15 * dof + 0.6, 7.5)
        figure, axes = plt.subplots(2, dof, figsize=(width, 5.3), squeeze=False, sharex=True)
        for column in range(dof):
            for row in range(2):
                _draw(axes[row, column], shown, row, column)
            axes[0, column].set_title(f"DoF {column + 1}")
            axes[1, column].set_xlabel("time (s)")
        axes[0, 0].set_ylabel("position")
        axes[1, 0].set_ylabel("velocity (per s)")
        _add_legend(figure, axes[0, 0])
        figure.tight_layout(rect=(0, 0.06, 1, add_heading(figure, title, explanation(shown))))
        return save(figure, output)


def explanation(shown: Reconditioned) -> str:
    """What the picture shows, with the distances at the segments' starts."""
    (position, velocity), left = shown.jumps()
    exactly = "exactly" if left.max() < 1e-12 else f"within {left.max():.0e}"
    source = "the oldest stored episode" if shown.stored else "an episode played with exploration"
    asked = "at its start; each segment: asked anew where it begins" if shown.plans else "in the same context"
    return (
        f"Old: {source}. New: the policy's mean {asked}.\n"
        f"Where segments start, old and new are up to {position:.2g} apart, their velocities {velocity:.2g} per s; "
        f"re-conditioned segments start {exactly} at the old state."
    )


def _add_legend(figure: Any, axis: Any) -> None:
    """Name the lines below all panels; those of the segments together."""
    from matplotlib.legend_handler import HandlerTuple

    handles, labels = axis.get_legend_handles_labels()
    together = [*handles[:2], tuple(handles[2:])]
    names = [*labels[:2], "new, re-conditioned at the start of each segment"]
    figure.legend(together, names, loc="lower center", ncol=3, handler_map={tuple: HandlerTuple(ndivide=None, pad=0.3)})


def _draw(axis: Any, shown: Reconditioned, row: int, dof: int) -> None:
    """Positions (row 0) or velocities (row 1) of one degree of freedom."""
    axis.plot(shown.old.time, shown.old.state[:, row, dof], color=OLD, lw=2.2, label="old reference")
    axis.plot(shown.new.time, shown.new.state[:, row, dof], color=NEW, lw=1.5, ls="--", label="new, from the start")
    for number, piece in enumerate(shown.segments):
        color = SEGMENTS[number % len(SEGMENTS)]
        axis.plot(piece.time, piece.state[:, row, dof], color=color, lw=1.8, label=f"segment {number + 1}")
        axis.plot(piece.time[:1], piece.state[:1, row, dof], "o", color=color, ms=5, mec="white", mew=0.8, zorder=5)
        if number:
            axis.axvline(piece.time[0], color=OLD, lw=0.6, alpha=0.25)
    axis.margins(x=0.02)
