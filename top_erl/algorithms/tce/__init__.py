"""TCE: on-policy episodic reinforcement learning that credits segments of the movement."""

from top_erl.algorithms.tce.method import TCE, TceRun

__all__ = ["TCE", "TceRun"]
