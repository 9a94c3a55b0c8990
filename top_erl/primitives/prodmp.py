"""Probabilistic dynamic movement primitives (ProDMP).

The closed-form solution of a dynamic movement primitive: linear in its parameters like a ProMP, and smooth from any
initial position and velocity like a DMP (Li et al., 2023; Eq. (4) of the paper). `tables.py` holds the mathematics.

Axes: `T` times, `N` basis functions, `G = N + 1` with the goal, `2` position and velocity. The parameters of a degree
of freedom are [w_1 .. w_N, g].
"""

from __future__ import annotations

import torch
from torch import Tensor

from top_erl.config.primitive import PrimitiveConfig
from top_erl.primitives.interface import Primitive
from top_erl.primitives.reference import as_time, check_times
from top_erl.primitives.tables import ProDmpTables, condition


class ProDmp(Primitive):
    """Times may lie before the initial state's, and between control steps."""

    can_end_at_rest = True

    def __init__(self, config: PrimitiveConfig, num_dof: int, dt: float) -> None:
        """Tabulate the basis."""
        self.tables = ProDmpTables(config, dt)
        scales = [config.weights_scale] * config.num_basis + [config.goal_scale]
        scale = self.tables.auto_scale * torch.tensor(scales, dtype=torch.float64)  # [G]
        super().__init__(config, num_dof, dt, scale, relative_goal=config.relative_goal)

    def basis(self, times: Tensor, init_time: float | Tensor, like: Tensor) -> Tensor:
        """Basis of trajectories through a state at `init_time`, [..., T, 2, G + 2]."""
        check_times(times)
        index = self.tables.locate(times.to(like.device))  # [..., T]
        start = self.tables.locate(as_time(init_time, like).unsqueeze(-1))  # [..., 1]
        transition = self.tables.transition(index, start).to(like)  # [..., T, 2, 2]
        motions, start_motions = (self.tables.lookup(place, like.dtype) for place in (index, start))
        return condition(motions, start_motions, transition)
