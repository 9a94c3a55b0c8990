"""Hopper Jump: a one-legged robot is dropped, jumps as high as it can and lands on a goal.

`task` holds the episodic tasks, `env` the step environments, `rewards` and `contacts` what they share.
"""
