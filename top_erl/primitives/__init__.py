"""Movement primitives: smooth trajectories from a few parameters. Usable without reinforcement learning.

primitive = ProDmp(PrimitiveConfig(num_basis=8, tau=2.0), num_dof=7, dt=0.02)
reference = primitive.trajectory(params, times, init_time=0.0, init_position=q, init_velocity=dq)
"""

from top_erl.config.primitive import PrimitiveConfig
from top_erl.primitives.bspline import BSpline
from top_erl.primitives.distribution import TrajectoryDistribution
from top_erl.primitives.dmp import Dmp
from top_erl.primitives.interface import Primitive, SegmentGrid
from top_erl.primitives.prodmp import ProDmp
from top_erl.primitives.promp import ProMp
from top_erl.primitives.reference import Reference
from top_erl.primitives.registry import make_primitive, register_primitive

__all__ = [
    "BSpline",
    "Dmp",
    "Primitive",
    "PrimitiveConfig",
    "ProDmp",
    "ProMp",
    "Reference",
    "SegmentGrid",
    "TrajectoryDistribution",
    "make_primitive",
    "register_primitive",
]
