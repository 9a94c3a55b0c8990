"""A primitive of one's own: a cubic that leaves from any state and comes to rest at the goal after tau seconds."""

import torch
from torch import Tensor

from top_erl.primitives import Primitive, PrimitiveConfig, register_primitive
from top_erl.primitives.reference import as_time


class Cubic(Primitive):
    """One parameter per degree of freedom, the goal."""

    def __init__(self, config: PrimitiveConfig, num_dof: int, dt: float) -> None:
        scale = torch.tensor([config.goal_scale], dtype=torch.float64)
        super().__init__(config, num_dof, dt, scale, relative_goal=config.relative_goal)

    def basis(self, times: Tensor, init_time: float | Tensor, like: Tensor) -> Tensor:
        """Hermite's polynomials: of the goal, of the initial position and of the initial velocity, [..., T, 2, 3]."""
        start = as_time(init_time, like).double().unsqueeze(-1)
        left = (self.config.tau - start).clamp(min=self.dt)  # seconds until the goal
        s = ((times.to(like.device).double() - start) / left).clamp(0.0, 1.0)
        goal, slope = s**2 * (3 - 2 * s), 6 * s * (1 - s) / left
        position = torch.stack((goal, 1 - goal, left * s * (1 - s) ** 2), dim=-1)
        velocity = torch.stack((slope, -slope, (1 - s) * (1 - 3 * s)), dim=-1)
        return torch.stack((position, velocity), dim=-2).to(like)


register_primitive("cubic", Cubic)
