"""How long a plan is executed before the next one is made: from one plan an episode to many."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from top_erl.errors import UserError

Clock = Literal["episode", "rest", "plan"]
Look = Literal["end", "plan"]


@dataclass(frozen=True)
class PlanConfig:
    """When the policy is asked for a new plan in the middle of an episode."""

    every: int = 0
    """h: control steps after which a plan gives way to the next one, a multiple of collect.stride. 0, or the task's
    horizon: one plan an episode, the method as published."""
    random: bool = False
    """While collecting, replan at random instants, h steps apart on average. An evaluation replans every h steps."""
    by_value: bool = False
    """While collecting, look every h steps and replan only where the critic values the new plan above going on with the
    old one. An evaluation replans every h steps."""
    reference_input: bool = True
    """Whether the policy sees position and velocity of the reference where a plan starts, besides the state there."""
    clock: Clock = "episode"
    """Time that a plan's movement runs on. episode: the movement of the whole episode, entered where the plan starts,
    with a relative goal that counts from the episode's start: with the same parameters a new plan goes on as the old
    one would have; smooth, and weak near the end. rest: one of its own, which lasts as long as the episode does (but at
    least h steps): strong, and rough, near the end. plan: one of its own, which lasts `plan.tau`."""
    look: Look = "end"
    """How far a plan is valued: to the end, as if it were executed whole, or for the h steps that are executed at most,
    and the value of the state after them."""
    tau: float = 0.0
    """Seconds that a plan's movement lasts with the clock `plan`; 0: primitive.tau."""

    def __post_init__(self) -> None:
        """Check the values."""
        if self.every < 0:
            raise UserError("plan.every must be at least 0, control steps; 0 means one plan an episode.")
        if not (math.isfinite(self.tau) and self.tau >= 0.0):
            raise UserError("plan.tau must be a number of seconds, at least 0; 0 means primitive.tau.")
        if self.random and self.by_value:
            raise UserError("A plan ends at a random instant or by its value: use plan.random or plan.by_value.")
        if (self.random or self.by_value) and not self.every:
            raise UserError("plan.random and plan.by_value need plan.every, the control steps between two instants.")

    def replans(self, horizon: int) -> bool:
        """Whether episodes of `horizon` control steps have more than one plan."""
        if self.every > horizon:
            raise UserError(
                f"plan.every is {self.every}, but an episode has {horizon} control steps: use fewer, or 0 for one plan."
            )
        return 0 < self.every < horizon

    def remark(self, horizon: int) -> str:
        """How many plans an episode has; empty if it is one."""
        if not self.replans(horizon):
            return ""
        about = "about " if self.random else "up to " if self.by_value else ""
        return f"An episode has {about}{math.ceil(horizon / self.every)} plans, one every {self.every} control steps."

    def check_stride(self, stride: int) -> None:
        """Refuse instants between two stored tokens."""
        if self.every % stride:
            raise UserError(
                f"plan.every ({self.every} control steps) must be a multiple of collect.stride ({stride}): a plan "
                "starts at a stored token."
            )
