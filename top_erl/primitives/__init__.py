"""Movement primitives: smooth trajectories from a few parameters. Usable without reinforcement learning.

primitive = ProDmp(ProDmpConfig(num_dof=7, dt=0.02, num_basis=8, tau=2.0))
reference = primitive.trajectory(params, times, init_time=0.0, init_position=q, init_velocity=dq)
"""

from top_erl.primitives.config import DmpConfig, ProDmpConfig, ProMpConfig
from top_erl.primitives.distribution import TrajectoryDistribution
from top_erl.primitives.dmp import Dmp
from top_erl.primitives.prodmp import ProDmp
from top_erl.primitives.promp import ProMp
from top_erl.primitives.reference import Reference
from top_erl.primitives.segments import SegmentBasis, SegmentGrid

__all__ = [
    "Dmp",
    "DmpConfig",
    "ProDmp",
    "ProDmpConfig",
    "ProMp",
    "ProMpConfig",
    "Reference",
    "SegmentBasis",
    "SegmentGrid",
    "TrajectoryDistribution",
]
