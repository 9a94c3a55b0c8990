"""Limits of a robot, and where a reference exceeds them. NumPy only.

Axes: `B` episodes, `T` times, `D` degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from top_erl.errors import UserError, unknown_name

Array = NDArray[np.float64]
Numbers: TypeAlias = float | Sequence[float]
"""One number for all degrees of freedom, or one for each."""

_ROUNDING = 1e-6
"""What a value may lie over its limit, as a share of it: an exported policy computes in single precision."""


class Exceeded(NamedTuple):
    """A value that lies outside of its limit."""

    what: str
    """position, velocity or acceleration."""
    joint: int
    """Degree of freedom, from 0."""
    time: float
    """Seconds from the start of the movement."""
    value: float
    limit: float
    episode: int = 0
    """Which reference of a batch."""

    @property
    def sentence(self) -> str:
        """What is wrong, without a full stop."""
        among = f"reference {self.episode}: " if self.episode else ""
        return (
            f"{among}the {self.what} of joint {self.joint} is {self.value:.4g} after {self.time:.4g} s, "
            f"and {self.limit:.4g} is allowed"
        )


@dataclass(frozen=True)
class Limits:
    """What a robot can do, in the units of the reference; None: no limit.

    Limits(position=([-2.9, -1.8], [2.9, 1.8]), velocity=2.2, acceleration=15.0)
    """

    position: tuple[Numbers, Numbers] | None = None
    """Lowest and highest position."""
    velocity: Numbers | None = None
    """Greatest speed, above 0."""
    acceleration: Numbers | None = None
    """Greatest magnitude of the acceleration, above 0."""

    def __post_init__(self) -> None:
        """Check the values, and keep them as plain numbers and tuples."""
        if self.position is not None:
            if not isinstance(self.position, (tuple, list)) or len(self.position) != 2:
                raise UserError("The limit of the position is a pair: the lowest, and the highest.")
            low, high = (_plain("position", values) for values in self.position)
            if not bool(np.all(np.asarray(low) < np.asarray(high))):
                raise UserError(f"The lowest position, {low}, must lie below the highest, {high}.")
            object.__setattr__(self, "position", (low, high))
        for name in ("velocity", "acceleration"):
            given = getattr(self, name)
            if given is not None:
                values = _plain(name, given)
                if not bool(np.all(np.asarray(values) > 0)):
                    raise UserError(f"The limit of the {name} is {values}; it must be above 0.")
                object.__setattr__(self, name, values)

    @staticmethod
    def from_dict(data: Any, num_dof: int) -> Limits:
        """Limits from plain data, such as a YAML or JSON file, for a robot of `num_dof` degrees of freedom."""
        names = ("position", "velocity", "acceleration")
        if not isinstance(data, Mapping) or not data:
            raise UserError(f"Limits are a mapping with at least one of {', '.join(names)}, not {data!r}.")
        for key in data:
            if key not in names:
                raise unknown_name("limit", str(key), names)
        limits = Limits(**data)
        limits.check_size(num_dof)
        return limits

    def to_dict(self) -> dict[str, Any]:
        """Plain data, without the limits that are not there."""
        names = ("position", "velocity", "acceleration")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def check_size(self, num_dof: int) -> None:
        """Refuse limits for another number of degrees of freedom."""
        sides = [("position", side) for side in self.position or ()]
        for what, values in (*sides, ("velocity", self.velocity), ("acceleration", self.acceleration)):
            if values is not None and np.size(values) not in (1, num_dof):
                raise UserError(f"The limit of the {what} has {np.size(values)} numbers; give 1, or {num_dof}.")


def exceeded(
    limits: Limits, position: ArrayLike, velocity: ArrayLike, dt: float, start: tuple[ArrayLike, ArrayLike] | None
) -> list[Exceeded]:
    """Where references exceed limits, in order of time.

    Accelerations are differences of velocities. With the start known, the way to the first position counts as a
    velocity too, so that a reference that begins elsewhere than the robot is found.

    Args:
        limits: The limits.
        position: At dt, 2 dt, …, [T, D] or [B, T, D].
        velocity: Likewise.
        dt: Seconds between two of them.
        start: Measured position and velocity at time 0, [D] or [B, D] each, if known.
    """
    desired = [np.asarray(values, dtype=np.float64) for values in (position, velocity)]
    places, speeds = (values.reshape(-1, *values.shape[-2:]) for values in desired)  # [B, T, D]
    limits.check_size(places.shape[-1])
    steps = np.diff(speeds, axis=1) / dt
    found: list[Exceeded] = []
    if start is not None:
        before = [np.atleast_2d(np.asarray(values, dtype=np.float64))[:, None] for values in start]  # [B, 1, D]
        first = (speeds[:, :1] - before[1]) / dt
        steps = np.concatenate((first, steps), axis=1)
        if limits.velocity is not None:
            found += _outside("velocity", (places[:, :1] - before[0]) / dt, limits.velocity, dt, 1)
    if limits.position is not None:
        found += _outside("position", places, limits.position, dt, 1)
    if limits.velocity is not None:
        found += _outside("velocity", speeds, limits.velocity, dt, 1)
    if limits.acceleration is not None:
        found += _outside("acceleration", steps, limits.acceleration, dt, 1 + speeds.shape[1] - steps.shape[1])
    return sorted(dict.fromkeys(found), key=lambda each: (each.episode, each.time))


def check_limits(found: list[Exceeded]) -> None:
    """Raise a sentence about the worst of what was found, if anything was."""
    if not found:
        return
    worst = max(found, key=lambda each: abs(each.value - each.limit) / max(abs(each.limit), _ROUNDING))
    others = f" (the worst of {len(found)} values that exceed their limits)" if len(found) > 1 else ""
    raise UserError(f"This reference must not be played: {worst.sentence}{others}.")


def _outside(what: str, values: Array, limit: Any, dt: float, first_step: int) -> list[Exceeded]:
    """Entries of values, [B, T, D], outside of a pair, or of magnitudes; the first is that of a control step."""
    low, high = limit if what == "position" else (-np.asarray(limit), limit)
    bounds = [np.broadcast_to(np.asarray(bound, dtype=np.float64), values.shape) for bound in (low, high)]
    slack = [_ROUNDING * np.maximum(1.0, np.abs(bound)) for bound in bounds]
    over = values > bounds[1] + slack[1]
    under = values < bounds[0] - slack[0]
    return [
        Exceeded(
            what,
            int(joint),
            float((step + first_step) * dt),
            float(values[episode, step, joint]),
            float(bounds[int(over[episode, step, joint])][episode, step, joint]),
            int(episode),
        )
        for episode, step, joint in np.argwhere(over | under | np.isnan(values))
    ]


def _plain(name: str, values: Any) -> float | tuple[float, ...]:
    """A finite number, or a tuple of them."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.array(np.nan)
    if array.ndim > 1 or not array.size or not np.isfinite(array).all():
        raise UserError(f"The limit of the {name} is {values!r}; give a number, or one for each degree of freedom.")
    return float(array) if array.ndim == 0 else tuple(array.tolist())
