"""T-SAC: soft actor-critic whose transformer critics value sequences of steps."""

from top_erl.algorithms.t_sac.method import T_SAC

__all__ = ["T_SAC"]
