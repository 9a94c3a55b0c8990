"""Movements of plans that start in the middle of an episode, from the reference that is being tracked there.

A plan is a movement primitive through the current reference, so position and velocity are continuous wherever it
starts. What its parameters mean is decided by the clock it runs on:

- `episode`: the movement of a whole episode, entered at the plan's start, as in the segments of TOP-ERL: with the same
  parameters a new plan goes on as the old one would have;
- `rest`: a movement of its own, as long as the rest of the episode, but at least as long as a plan is executed;
- `plan`: a movement of its own, of a fixed duration.

A relative goal counts from the position where the movement starts: that of the episode with the clock `episode`, that
of the plan with the others.

Axes: `B` plans, `n` control steps, `m` tokens at which plans may start, `G` parameters of a degree of freedom, `D`
degrees of freedom, `P` parameters, `2` position and velocity.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from top_erl.config.plan import Clock
from top_erl.errors import UserError
from top_erl.primitives.interface import Primitive, SegmentGrid
from top_erl.primitives.registry import make_primitive


class PlanMovements:
    """The movements of all plans of an episode."""

    def __init__(self, primitive: Primitive, horizon: int, *, every: int, clock: Clock, tau: float = 0.0) -> None:
        """Prepare for episodes.

        Args:
            primitive: The movement of a whole episode.
            horizon: T: control steps of an episode.
            every: h: control steps that a plan is executed.
            clock: Time that plans run on.
            tau: Seconds that a plan's movement lasts with the clock `plan`; 0: as long as that of a whole episode.
        """
        if not primitive.restarts:
            raise UserError(
                f"A movement of kind {primitive.config.kind} cannot start from a reference that moves, so plans "
                "cannot follow each other: use --primitive.kind prodmp, or --plan.every 0."
            )
        self.primitive, self.horizon, self.clock = primitive, horizon, clock
        self._every, self._tau = every, tau or primitive.config.tau
        self._own: dict[float, Primitive] = {}

    @property
    def needs_origin(self) -> bool:
        """Whether plans depend on where the episode started."""
        return self.clock == "episode" and self.primitive.relative_goal

    def basis(self, start: int, steps: Tensor) -> Tensor:
        """The matrix of a plan that starts at a control step, float64, [n, 2, G + 2].

        Args:
            start: Control steps made before the plan.
            steps: Control steps whose reference is wanted, [n]; that of step i is the state at (i + 1) dt.
        """
        dt, like = self.primitive.dt, torch.empty(0, dtype=torch.float64)
        if self.clock == "episode":
            return self.primitive.basis((steps + 1) * dt, start * dt, like)
        own = self._lasting(self._tau if self.clock == "plan" else max(self.horizon - start, self._every) * dt)
        basis = own.basis((steps + 1 - start) * dt, 0.0, like)
        ratio = (own.scale / self.primitive.scale).to(like)  # parameters are scaled as those of the whole movement
        return torch.cat((basis[..., : len(ratio)] * ratio, basis[..., len(ratio) :]), dim=-1)

    def reference(
        self, start: int, params: Tensor, position: Tensor, velocity: Tensor, origin: Tensor | None = None
    ) -> Tensor:
        """References of plans from their start to the end of the episode, [B, T - start, 2D].

        Args:
            start: Control steps made before them.
            params: Parameters, [B, P].
            position: Reference position at the start, [B, D].
            velocity: Reference velocity at the start, [B, D].
            origin: Position at the episode's start, [B, D], if `needs_origin`; the first plan starts there.
        """
        basis = self.basis(start, torch.arange(start, self.horizon, dtype=torch.float64))
        if not self.needs_origin or start == 0:
            origin = position
        assert origin is not None, "The movement of a whole episode starts where the episode does."
        state = (values.unsqueeze(1) for values in (params, position, velocity, origin))  # [B, 1, ...]
        return self.primitive.segments(basis.unsqueeze(0), *state).squeeze(1)

    def grid(self, stride: int, device: torch.device, dtype: torch.dtype = torch.float32) -> SegmentGrid:
        """Matrices of plans that start at every stored token, at the actions of all later tokens."""
        tokens = torch.arange(self.horizon // stride, dtype=torch.float64) * stride  # [m]
        basis = [
            torch.nn.functional.pad(
                self.basis(int(start), tokens[index:]), (0, 0, 0, 0, index, 0), value=float("nan")
            )  # a plan has no actions before its start
            for index, start in enumerate(tokens.tolist())
        ]
        return SegmentGrid(torch.stack(basis).to(device=device, dtype=dtype))

    def _lasting(self, tau: float) -> Primitive:
        """The primitive with another duration, whose tables reach to the end of an episode."""
        if tau not in self._own:
            config, dt = self.primitive.config, self.primitive.dt
            length = max(config.table_length_factor, math.ceil(self.horizon * dt / tau) + 1)
            own = replace(config, tau=tau, table_length_factor=length)
            self._own[tau] = make_primitive(own, self.primitive.num_dof, dt)
        return self._own[tau]
