"""Hyper-parameters of TCE."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from top_erl.algorithms.on_policy.config import OnPolicyConfig, OnPolicyLearnConfig
from top_erl.errors import UserError

AdvantageName = Literal["value_subtraction", "accumulate", "accumulated_rewards"]


@dataclass(frozen=True)
class TceSegmentsConfig:
    """How TCE cuts episodes into segments and credits them."""

    points: int = 25
    """Instants that cut an episode, at a fixed distance and a random offset; segments lie between neighbours."""
    advantage: AdvantageName = "value_subtraction"
    """A segment's credit: its rewards and the change of value between its ends, the sum of its steps' advantages, or
    its rewards compared with the other episodes'."""
    regularization: float = 1e-4
    """Added to the variances of positions, as a fraction of the largest one."""

    def __post_init__(self) -> None:
        """Check the values."""
        if self.points < 2:
            raise UserError("segments.points must be at least 2: a segment lies between two of them.")
        if not self.regularization > 0.0:
            raise UserError("segments.regularization must be positive; the first positions hardly vary, e.g. 1e-4.")


@dataclass(frozen=True)
class TceLearnConfig(OnPolicyLearnConfig):
    """The gradient steps, and the critic's targets."""

    discount: float = 1.0
    """Discount factor per control step."""
    trace: float = 0.95
    """λ of generalised advantage estimation."""
    normalize_states: bool = True
    """Normalise the critic's inputs by running statistics of all states seen so far."""

    def __post_init__(self) -> None:
        """Check the values."""
        super().__post_init__()
        if not (0.0 < self.discount <= 1.0 and 0.0 <= self.trace <= 1.0):
            raise UserError("learn.discount must lie in (0, 1], learn.trace in [0, 1].")


@dataclass(frozen=True)
class TceConfig(OnPolicyConfig):
    """All of TCE's hyper-parameters but the movement primitive's."""

    learn: TceLearnConfig = field(default_factory=TceLearnConfig)
    """The gradient steps, and the critic's targets."""
    segments: TceSegmentsConfig = field(default_factory=TceSegmentsConfig)
    """How episodes are cut and credited."""
