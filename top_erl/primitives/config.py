"""Settings of the movement primitives, each checked when it is made."""

from __future__ import annotations

import math
from dataclasses import dataclass

from top_erl.errors import UserError


def _require_positive(settings: object, *names: str) -> None:
    for name in names:
        value = getattr(settings, name)
        if not (math.isfinite(value) and value > 0):
            raise UserError(f"{type(settings).__name__}.{name} is {value}; set it to a number above 0.")


def _require_finite(settings: object, *names: str) -> None:
    for name in names:
        value = getattr(settings, name)
        if not math.isfinite(value):
            raise UserError(f"{type(settings).__name__}.{name} is {value}; set it to a finite number.")


def _require_whole(settings: object, *names: str, least: int) -> None:
    for name in names:
        value = getattr(settings, name)
        if not isinstance(value, int) or value < least:
            raise UserError(
                f"{type(settings).__name__}.{name} is {value!r}; set it to a whole number, {least} or more."
            )


def _require_room_inside(num_basis: int, num_outside: int) -> None:
    """Two basis functions must lie inside [0, tau] once some are placed outside of it."""
    least = 2 * num_outside + 2
    if num_outside and num_basis < least:
        raise UserError(
            f"num_basis is {num_basis}, but num_basis_outside={num_outside} needs at least {least}; "
            "raise num_basis or lower num_basis_outside."
        )


@dataclass(frozen=True)
class ProMpConfig:
    """A probabilistic movement primitive: positions are a weighted sum of basis functions of time."""

    num_dof: int
    """D: degrees of freedom, at least 1."""
    num_basis: int = 5
    """N: weights per degree of freedom, at least 1."""
    tau: float = 1.0
    """Duration of the movement in seconds, above 0; the phase stays at 1 afterwards."""
    bandwidth_factor: float = 3.0
    """Width of the basis functions, above 0: larger is narrower."""
    weights_scale: float = 1.0
    """Factor on the weights."""
    num_basis_outside: int = 0
    """How many of the N functions are centred before 0, and as many after tau."""
    num_zero_start: int = 0
    """Extra functions at the start whose weight is 0, so that a movement leaves from its initial position."""
    num_zero_goal: int = 0
    """Extra functions at the end whose weight is 0, so that a movement returns to its initial position."""

    def __post_init__(self) -> None:
        """Check the values."""
        _require_whole(self, "num_dof", "num_basis", least=1)
        _require_whole(self, "num_basis_outside", "num_zero_start", "num_zero_goal", least=0)
        _require_positive(self, "tau", "bandwidth_factor")
        _require_finite(self, "weights_scale")
        _require_room_inside(self.num_basis, self.num_basis_outside)
        if self.zero_padded and self.num_basis_outside:
            raise UserError(
                "Functions of weight 0 cannot be combined with functions outside of the movement; "
                "set num_basis_outside, or num_zero_start and num_zero_goal, to 0."
            )

    @property
    def zero_padded(self) -> bool:
        """Whether functions of weight 0 are added; positions are then relative to the initial position."""
        return self.num_zero_start + self.num_zero_goal > 0


@dataclass(frozen=True)
class DmpConfig:
    """A dynamic movement primitive: a spring-damper system with a learned force, integrated step by step."""

    num_dof: int
    """D: degrees of freedom, at least 1."""
    dt: float
    """Seconds between two points of the trajectory, above 0."""
    num_basis: int = 5
    """N: force weights per degree of freedom, goal not counted, at least 1."""
    tau: float = 1.0
    """Time constant in seconds, above 0; usually the episode's duration."""
    bandwidth_factor: float = 3.0
    """Width of the basis functions, above 0: larger is narrower."""
    alpha: float = 25.0
    """Stiffness of the spring-damper system, above 0; its damping is critical."""
    alpha_phase: float = 3.0
    """Decay rate of the exponential phase, above 0."""
    weights_scale: float = 1.0
    """Factor on the force weights."""
    goal_scale: float = 1.0
    """Factor on the goal parameter."""
    num_basis_outside: int = 0
    """How many of the N functions are centred before 0, and as many after tau."""

    def __post_init__(self) -> None:
        """Check the values."""
        _require_whole(self, "num_dof", "num_basis", least=1)
        _require_whole(self, "num_basis_outside", least=0)
        _require_positive(self, "dt", "tau", "bandwidth_factor", "alpha", "alpha_phase")
        _require_finite(self, "weights_scale", "goal_scale")
        _require_room_inside(self.num_basis, self.num_basis_outside)


@dataclass(frozen=True)
class ProDmpConfig:
    """A probabilistic dynamic movement primitive: the closed-form solution of the dynamic one."""

    num_dof: int
    """D: degrees of freedom, at least 1."""
    dt: float
    """Seconds between two points of the tables, above 0 and at most tau; the control step."""
    num_basis: int = 5
    """N: weights per degree of freedom, goal not counted, at least 1."""
    tau: float = 1.0
    """Time constant in seconds, above 0; usually the episode's duration."""
    bandwidth_factor: float = 3.0
    """Width of the basis functions, above 0: larger is narrower."""
    alpha: float = 10.0
    """Stiffness of the spring-damper system, above 0; its damping is critical."""
    alpha_phase: float = 3.0
    """Decay rate of the exponential phase, above 0."""
    weights_scale: float = 1.0
    """Factor on the basis weights."""
    goal_scale: float = 1.0
    """Factor on the goal parameter."""
    relative_goal: bool = False
    """Whether the goal is an offset from a position (by default the initial one) instead of a position."""
    auto_scale_basis: bool = True
    """Whether each basis column is divided by its largest value, so that all parameters weigh alike."""
    table_length_factor: int = 5
    """The tables reach from 0 to this many tau, at least 1."""
    num_basis_outside: int = 0
    """How many of the N functions are centred before 0, and as many after tau."""

    def __post_init__(self) -> None:
        """Check the values."""
        _require_whole(self, "num_dof", "num_basis", "table_length_factor", least=1)
        _require_whole(self, "num_basis_outside", least=0)
        _require_positive(self, "dt", "tau", "bandwidth_factor", "alpha", "alpha_phase")
        _require_finite(self, "weights_scale", "goal_scale")
        _require_room_inside(self.num_basis, self.num_basis_outside)
        if self.dt > self.tau:
            raise UserError(f"dt is {self.dt} but tau is {self.tau}; set dt, the control step, to at most tau.")
        if self.alpha * self.table_length_factor > 1000:
            raise UserError(
                f"alpha * table_length_factor is {self.alpha * self.table_length_factor:g}; "
                "keep it at 1000 or below, or the tables overflow."
            )
