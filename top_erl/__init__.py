"""Episodic reinforcement learning with movement primitives."""

__version__ = "0.1.0"
