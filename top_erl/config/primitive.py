"""Settings of a movement primitive, the same for all kinds; tasks bring theirs, the command line changes them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from top_erl.errors import UserError


@dataclass(frozen=True)
class PrimitiveConfig:
    """A movement primitive.

    A setting means the same, and has the same default, for every kind that it is for; the other kinds ignore it. So a
    task's settings hold for all kinds, and changing `kind` changes nothing else.
    """

    kind: str = "prodmp"
    """prodmp (smooth from any state), dmp (the same equation by small steps), bspline (piecewise polynomials, from any
    state), promp (a weighted sum of functions of time), or a name given to `register_primitive`."""
    num_basis: int = 5
    """N: weights per degree of freedom, goal not counted, at least 1."""
    tau: float = 1.0
    """Duration of the movement in seconds, above 0; usually the episode's. A promp and a bspline stand still
    afterwards, the others are driven to their goal."""
    bandwidth_factor: float = 3.0
    """prodmp, dmp, promp: width of the basis functions, above 0: larger is narrower."""
    alpha: float = 10.0
    """prodmp, dmp: stiffness of the spring-damper system, above 0; its damping is critical. (The DMP of mp_pytorch has
    25 by default.)"""
    alpha_phase: float = 3.0
    """prodmp, dmp: decay rate of the exponential phase, above 0."""
    weights_scale: float = 1.0
    """Multiplies the weights. Those of a dmp are plain forces, which move it by about 1/200 each: it needs more."""
    goal_scale: float = 1.0
    """prodmp, dmp, bspline: multiplies the goal parameter."""
    relative_goal: bool = False
    """prodmp, dmp, bspline: whether the goal is an offset from the episode's first position instead of a position."""
    auto_scale_basis: bool = True
    """prodmp: whether each basis column is divided by its largest value, so that all parameters weigh alike."""
    table_length_factor: int = 5
    """prodmp: its tables reach from 0 to this many tau, at least 1."""
    num_basis_outside: int = 0
    """prodmp, dmp, promp: how many of the N functions are centred before 0, and as many after tau."""
    end_at_rest: bool = False
    """Whether the movement brakes over the last quarter of tau: it runs through the same positions in another timing,
    stands still at tau, with no velocity and no acceleration, and stays there."""
    num_zero_start: int = 0
    """promp: extra functions at the start whose weight is 0. With 1 or more weights count from the robot's position,
    as in black-box methods, and a movement leaves from there: with 1 only nearly (at the default width it begins with
    a fifth of the first weight), with 2 within a percent. With 0 weights are positions, wherever the robot is."""
    num_zero_goal: int = 0
    """promp: extra functions at the end whose weight is 0, so that a movement returns to where it began."""
    degree: int = 3
    """bspline: degree of its pieces, at least 3; they join with all derivatives continuous but the highest."""
    settling: float = 1.0
    """bspline: until when a movement makes up for the state it began in, in tau, at least 1. With 1 it ends at its
    goal, however late it begins; with more it ends near it, and late beginnings are gentler."""

    def __post_init__(self) -> None:
        """Check the values; what depends on the kind is checked when the primitive is made."""
        self._require_whole("num_basis", "table_length_factor", least=1)
        self._require_whole("num_basis_outside", "num_zero_start", "num_zero_goal", least=0)
        self._require_whole("degree", least=3)
        if not (math.isfinite(self.settling) and self.settling >= 1.0):
            raise UserError(f"primitive.settling is {self.settling}; set it to a number of 1 or more.")
        for name in ("tau", "bandwidth_factor", "alpha", "alpha_phase"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise UserError(f"primitive.{name} is {value}; set it to a number above 0.")
        for name in ("weights_scale", "goal_scale"):
            if not math.isfinite(getattr(self, name)):
                raise UserError(f"primitive.{name} is {getattr(self, name)}; set it to a finite number.")
        least = 2 * self.num_basis_outside + 2  # two functions must lie inside [0, tau]
        if self.num_basis_outside and self.num_basis < least:
            raise UserError(
                f"primitive.num_basis is {self.num_basis}, but num_basis_outside={self.num_basis_outside} needs at "
                f"least {least}; raise num_basis or lower num_basis_outside."
            )

    def _require_whole(self, *names: str, least: int) -> None:
        for name in names:
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise UserError(f"primitive.{name} is {value!r}; set it to a whole number, {least} or more.")
