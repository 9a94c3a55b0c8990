"""Two ways to compute an exported graph: NumPy, operation by operation, and onnxruntime.

Both are functions of observation [B, S], position and velocity [B, D], float32, to positions and velocities
[B, T, D].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from top_erl.errors import UserError, missing_extra
from top_erl.runtime.onnx_file import Node, read_graph

Array32 = NDArray[np.float32]
Compute = Callable[[Mapping[str, NDArray[Any]]], tuple[Array32, Array32]]
Backend = Literal["numpy", "onnxruntime"]

INPUTS = ("observation", "position", "velocity")
OUTPUTS = ("desired_position", "desired_velocity")
ORIGIN, INDEX = "origin", "plan"
"""What the graph of a policy that replans needs besides: position at the episode's start, [B, D], and which plan it is,
int64, [B]."""
PLAN_TIMES = "plan_times"
"""Constant of such a graph: seconds after which each plan is made, [K, 1]."""

_OPERATIONS: dict[str, Callable[..., Any]] = {
    "Gather": lambda data, index, axis=0: np.take(data, index, axis=axis),
    "Sub": np.subtract,
    "Div": np.divide,
    "Clip": np.clip,
    "Gemm": lambda a, b, c: a @ b + c,
    "LeakyRelu": lambda x, alpha: np.where(x < 0, np.float32(alpha) * x, x),
    "Relu": lambda x: np.maximum(x, np.float32(0)),
    "Tanh": np.tanh,
    "Reshape": lambda data, shape: data.reshape(shape),
    "Concat": lambda *parts, axis: np.concatenate(parts, axis=axis),
    "MatMul": np.matmul,
    "Transpose": lambda data, perm: data.transpose(perm),
}
"""What the graphs that we export are made of."""


def numpy_backend(model: bytes) -> Compute:
    """Compute a graph by NumPy."""
    graph = read_graph(model)
    for node in graph.nodes:
        if node.kind not in _OPERATIONS:
            raise UserError(f"NumPy cannot compute the operation {node.kind} here; use backend='onnxruntime'.")

    def compute(inputs: Mapping[str, NDArray[Any]]) -> tuple[Array32, Array32]:
        values: dict[str, Any] = {**graph.constants, **inputs}
        for node in graph.nodes:
            values[node.outputs[0]] = _apply(node, values)
        return values[OUTPUTS[0]], values[OUTPUTS[1]]

    return compute


def _apply(node: Node, values: Mapping[str, Any]) -> Any:
    return _OPERATIONS[node.kind](*(values[name] for name in node.inputs), **node.attributes)


def onnxruntime_backend(model: bytes) -> Compute:
    """Compute a graph by onnxruntime, in one thread: a plan is too small to share."""
    try:
        import onnxruntime
    except ImportError:
        raise missing_extra("onnxruntime", "export", "Playing a policy with backend='onnxruntime'") from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def compute(inputs: Mapping[str, NDArray[Any]]) -> tuple[Array32, Array32]:
        position, velocity = session.run(list(OUTPUTS), dict(inputs))
        return position, velocity

    return compute


BACKENDS: dict[str, Callable[[bytes], Compute]] = {"numpy": numpy_backend, "onnxruntime": onnxruntime_backend}
