"""TOP-ERL: off-policy episodic reinforcement learning with a transformer critic, the paper's method."""

from top_erl.algorithms.top_erl.method import TOP_ERL, TopErlRun

__all__ = ["TOP_ERL", "TopErlRun"]
