"""Plays exported policies: NumPy alone, or onnxruntime; without PyTorch and without the rest of this package.

plan = Policy.load("policy.onnx")
reference = plan(observation, position, velocity)
position, velocity = reference.at(0.0137)
"""

from top_erl.limits import Exceeded, Limits
from top_erl.runtime.policy import Policy
from top_erl.runtime.reference import PlannedReference

__all__ = ["Exceeded", "Limits", "PlannedReference", "Policy"]
