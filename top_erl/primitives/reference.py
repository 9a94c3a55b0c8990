"""What a primitive returns, and the checks all primitives share.

Axes: `T` times, `D` degrees of freedom, `P` parameters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from top_erl.errors import UserError
from top_erl.limits import Exceeded, Limits, exceeded


@dataclass(frozen=True)
class Reference:
    """A desired trajectory."""

    position: Tensor
    """Desired positions, [..., T, D]."""
    velocity: Tensor
    """Desired velocities, [..., T, D]."""

    def stacked(self) -> Tensor:
        """Positions, then velocities, [..., T, 2D]: the form in which tasks and critics take it."""
        return torch.cat((self.position, self.velocity), dim=-1)

    def exceeds(self, limits: Limits, dt: float, start: tuple[ArrayLike, ArrayLike] | None = None) -> list[Exceeded]:
        """Where it exceeds limits, in order of time; empty if nowhere.

        Args:
            limits: What the robot can do.
            dt: Seconds between two times; the first is dt.
            start: Measured position and velocity at time 0, [..., D] each: then the first step is checked too.
        """
        position, velocity = (values.detach().cpu().numpy() for values in (self.position, self.velocity))
        return exceeded(limits, position, velocity, dt, start)


class CastOnce:
    """A constant of a primitive: built in float64, cast once for every precision and device it is used in."""

    def __init__(self, values: Tensor) -> None:
        self.values = values
        self._casts: dict[tuple[torch.dtype, torch.device], Tensor] = {}

    def to(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        """The constant in this precision, on this device."""
        key = (dtype, device)
        if key not in self._casts:
            # a cast made in inference mode could not take part in gradients later
            with torch.inference_mode(False):
                self._casts[key] = self.values.to(device=device, dtype=dtype)
        return self._casts[key]


def broadcast_shape(*shapes: tuple[int, ...]) -> torch.Size:
    """The shape that tensors of these shapes broadcast to."""
    return torch.Size(np.broadcast_shapes(*shapes))


def check_params(params: Tensor, num_params: int) -> None:
    """Raise if the last axis of the parameters has another size than the primitive needs."""
    if params.dim() == 0 or params.shape[-1] != num_params:
        raise UserError(
            f"Parameters have shape {tuple(params.shape)}; this primitive needs [..., {num_params}] "
            "(all parameters of the first degree of freedom, then of the second, ...)."
        )


def check_times(times: Tensor, least: int = 1) -> None:
    """Raise if times lack a time axis, or have fewer than `least` entries on it."""
    if times.dim() == 0 or times.shape[-1] < least:
        raise UserError(f"Times have shape {tuple(times.shape)}; give [T] or [..., T] with T of at least {least}.")


def as_time(time: float | Tensor, like: Tensor) -> Tensor:
    """A moment as a tensor on the device of `like`: numbers become float64, tensors keep their precision."""
    if isinstance(time, Tensor):
        return time.to(like.device)
    return torch.tensor(time, dtype=torch.float64, device=like.device)
