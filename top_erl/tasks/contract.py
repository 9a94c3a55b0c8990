"""The task contract: what an environment must offer so that a movement primitive can be learned on it.

A task plays whole episodes. It starts a batch of them from seeds, hands out the first observations and the measured
robot state, receives one reference trajectory per episode, tracks it with its own controller, and returns what
happened. Everything is NumPy; a task knows nothing of networks, so worker processes that play episodes stay small.

Axes: `B` episodes, `T` control steps (`spec.horizon`), `S` observation entries, `D` degrees of freedom.

A task may also be advanced in parts, so that a policy can answer to what happens: `advance` tracks the next steps of
the references and shows the instant after them, and `play` tracks the rest. Rewards and metrics come whole, at the end:
some rewards are decided only then (`markov.py`), so that a part could not say them.

Two rules make runs repeatable and parallel collection exact:

1. An episode is a pure function of its seed and its reference. The same two give the same numbers bit for bit, in any
   process, in any batch and in any parts (so no sums across episodes, no state that survives `begin`).
2. Episodes always last `spec.horizon` steps. An environment that ends early keeps its last observation and pays zero
   (`GymnasiumTask.reward_after_end` says another number).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from top_erl.config.primitive import PrimitiveConfig
from top_erl.errors import UserError
from top_erl.tasks.goals import GoalRule, check_rule

Array = NDArray[np.float64]


@dataclass(frozen=True)
class TaskSpec:
    """The facts about a task that learners, presets and reports need.

    `top-erl check TASK` plays a task and says which of them do not fit.

    Attributes:
        id: Name of the task, e.g. `top_erl/ViaPointReacher-v0`.
        observation_dim: S, entries of the raw observation (time is appended by the learner).
        num_dof: D, degrees of freedom of the reference.
        horizon: T, control steps per episode.
        dt: Seconds per control step, that is, per `step` of the environment.
        metrics: Names of the per-episode metrics, read at the last step. `success` (0 or 1) is among them if the task
            has one; `success_any` (0 or 1: solved after any step, by the same rule) if it can say so after every step.
        primitive: Movement-primitive settings that suit the task; `top-erl train --help` says what each means.
        stride: Low-level steps per stored token (temporal down-sampling) at paper scale; divides `horizon`.
        return_size: Order of magnitude of an episode's return; small-scale presets bring it to about ten by scaling
            rewards.
        context_mask: Observation entries that vary between episodes (for black-box methods); None: all.
        version: Version of the reward and success rule; changes when either changes.
        success_rule: One sentence that says what counts as `success`, at the last step.
        description: One sentence that says what the task is.
        family: Tasks that share presets: box_pushing_dense, box_pushing_sparse, hopper_jump, metaworld (those of the
            paper) or via_point_reacher; empty: a task of your own.
        dof_names: Names of the degrees of freedom, in the order of the reference; empty: they have none.
        dof_units: Units of their positions, e.g. rad; velocities are per second. Empty: not known.
        goal_rule: What the goal is and what it pays, if an episode may be counted as if it had had another one.
    """

    id: str
    observation_dim: int
    num_dof: int
    horizon: int
    dt: float
    metrics: tuple[str, ...]
    primitive: PrimitiveConfig = field(default_factory=PrimitiveConfig)
    stride: int = 1
    return_size: float = 10.0
    context_mask: tuple[int, ...] | None = None
    version: str = "1"
    success_rule: str = ""
    description: str = ""
    family: str = ""
    dof_names: tuple[str, ...] = ()
    dof_units: tuple[str, ...] = ()
    goal_rule: GoalRule | None = None

    def __post_init__(self) -> None:
        """Refuse sizes that are none, `success_any` without success, and names or units that are not one for each."""
        for name in ("observation_dim", "num_dof", "horizon", "stride"):
            if getattr(self, name) < 1:
                raise UserError(f"{self.id} has a {name} of {getattr(self, name)}; it must be at least 1.")
        if not 0 < self.dt < math.inf:
            raise UserError(f"{self.id} has a dt of {self.dt}; it must be positive, in seconds.")
        for what, given in (("dof_names", self.dof_names), ("dof_units", self.dof_units)):
            if given and len(given) != self.num_dof:
                raise UserError(f"{self.id} has {len(given)} {what}; name all {self.num_dof} degrees of freedom.")
        if "success_any" in self.metrics and "success" not in self.metrics:
            raise UserError(f"{self.id} names the metric success_any; its metrics must name success as well.")
        if self.goal_rule is not None:
            check_rule(self.id, self.goal_rule, self.observation_dim)

    @property
    def duration(self) -> float:
        """Seconds per episode."""
        return self.horizon * self.dt


@dataclass(frozen=True)
class EpisodeFailure:
    """Why an episode could not be begun, or not be played to the end."""

    sentence: str
    """What happened, without a full stop."""
    traceback: str = ""
    """Where, if the task raised an exception."""
    contradicts_spec: bool = False
    """Whether the task answered otherwise than its spec says: if all episodes do, its definition is wrong."""


@dataclass(frozen=True)
class EpisodeStarts:
    """An instant of a batch of episodes from which they, or the next parts of them, start."""

    observation: Array
    """Raw observation, [B, S]."""
    position: Array
    """Measured position of the controlled degrees of freedom, [B, D]."""
    velocity: Array
    """Measured velocity, [B, D]."""
    failures: Mapping[int, EpisodeFailure] = field(default_factory=dict)
    """Episodes that could not get there, and why; their rows mean nothing. A task need not fill this in: it raises."""


@dataclass(frozen=True)
class EpisodeOutcomes:
    """What happened in a batch of episodes."""

    observation: Array
    """Raw observation *before* each step, [B, T, S]; entry 0 equals `EpisodeStarts.observation`."""
    reward: Array
    """Reward of each step, [B, T]."""
    metrics: Mapping[str, Array]
    """Task metrics at the end of each episode, each [B]."""
    failures: Mapping[int, EpisodeFailure] = field(default_factory=dict)
    """Episodes that could not be played to the end, and why; their rows mean nothing. A task need not fill this in."""
    last: Array | None = None
    """Raw observation after the last step, [B, S]; only a task with a `goal_rule` needs to tell it, and only of
    episodes that last the whole horizon."""


class Task(ABC):
    """A task that plays whole episodes. Subclass this, or `GymnasiumTask` for a step environment of your own."""

    spec: TaskSpec

    @abstractmethod
    def begin(self, seeds: Sequence[int]) -> EpisodeStarts:
        """Start one episode per seed (at least one, none negative); episodes begun and not played are dropped."""

    @abstractmethod
    def play(self, reference: Array) -> EpisodeOutcomes:
        """Track the references, [B, T, 2D] (positions, then velocities), to the end of the episodes just begun.

        Row `i` of a reference is what the controller tracks during step `i`: the desired state at time `(i + 1) * dt`.
        After `advance` only the rows that are left are given; what happened is told from the first step on all the
        same. The episodes are over afterwards; `begin` starts the next ones.
        """

    @property
    def plays_in_parts(self) -> bool:
        """Whether `advance` is there."""
        return type(self).advance is not Task.advance

    def advance(self, reference: Array) -> EpisodeStarts:
        """Track the next rows of the references, [B, n, 2D], in the episodes just begun, and stop before their end.

        Returns:
            The instant after these steps: observation, measured position and velocity.
        """
        raise NotImplementedError(f"{self.spec.id} plays whole episodes only.")

    @property
    def one_by_one(self) -> bool:
        """Whether episodes are played one after another, so that `play_next` can play a part of a batch."""
        return False

    def play_next(self, reference: Array) -> EpisodeOutcomes:
        """Track the references, [B, T, 2D], in the first B of the episodes begun; the others wait."""
        raise NotImplementedError(f"{self.spec.id} plays whole batches only.")

    def measured_state(self, observation: Array) -> tuple[Array, Array]:
        """Position and velocity, [..., D] each, read off a raw first observation, [..., S], if they are part of it."""
        raise UserError(
            f"{self.spec.id} does not say where its observation holds the robot's position and velocity; "
            "pass position= and velocity= as well."
        )

    def frames(self, seed: int, reference: Array, every: int = 1) -> list[NDArray[np.uint8]]:
        """Play one episode, reference [T, 2D]; pictures, [H, W, 3], after each `every`-th step and after the last."""
        raise UserError(f"{self.spec.id} has no rendering.")

    def close(self) -> None:
        """Release simulators and windows; `begin` may be called again and makes new ones."""
        return
