"""BBRL: black-box episodic reinforcement learning."""

from top_erl.algorithms.bbrl.method import BBRL_COV, BBRL_STD, BbrlRun

__all__ = ["BBRL_COV", "BBRL_STD", "BbrlRun"]
