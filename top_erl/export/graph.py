"""A policy's mean and its movement primitive as one ONNX graph.

    observation ─► select, standardise ─► network ─► parameters ─┐
    position, velocity ──────────────────────────────────────────┴─► Psi ─► desired positions and velocities

Given the state it starts from, a movement is linear in its parameters (`primitives/interface.py`), so that the
primitive is two products with constant matrices. Everything is float32, and the first axis is a batch of any size. The
graph of a policy that replans has two inputs more (`plan_graph.py`).

Axes: `B` plans, `S` observation entries, `P = D * G` parameters, `D` degrees of freedom, `T` times, `E = G + 2` with
the initial position and velocity.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from top_erl.algorithms.episodic import EpisodicLearner
from top_erl.errors import missing_extra
from top_erl.export.operations import Graph, network, selected
from top_erl.export.plan_graph import plan_operations
from top_erl.primitives import Primitive
from top_erl.rollout.replanning import ReplanningCollector
from top_erl.runtime.backends import INDEX, INPUTS, OUTPUTS

_OPSET, _IR = 17, 8
"""Old enough for runtimes of 2022, and all that is needed."""


def policy_graph(learner: EpisodicLearner) -> bytes:
    """The graph of a learner's policy, as the bytes of an ONNX file."""
    try:
        import onnx
        from onnx import TensorProto, helper, numpy_helper
    except ImportError:
        raise missing_extra("onnx", "export", "Exporting a policy") from None
    graph = Graph()
    if isinstance(learner.collector, ReplanningCollector):
        plan_operations(graph, learner, learner.collector)
    else:
        _operations(graph, learner)
    spec = learner.collector.spec
    number, one = (TensorProto.INT64, ["batch"]), (TensorProto.FLOAT, ["batch", spec.num_dof])
    kinds = {INDEX: number, INPUTS[0]: (TensorProto.FLOAT, ["batch", spec.observation_dim])}
    given = [helper.make_tensor_value_info(name, *kinds.get(name, one)) for name in graph.inputs]
    shape = ["batch", spec.horizon, spec.num_dof]
    planned = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in OUTPUTS]
    constants = [numpy_helper.from_array(values, name) for name, values in graph.constants.items()]
    whole = helper.make_graph(graph.nodes, "policy", given, planned, constants)
    opset = helper.make_opsetid("", _OPSET)
    model = helper.make_model(whole, producer_name="top_erl", opset_imports=[opset], ir_version=_IR)
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())


def _operations(graph: Graph, learner: EpisodicLearner) -> None:
    """One plan an episode. The state's last entry, the time, is 0: it goes into the first bias."""
    spec, policy = learner.collector.spec, learner.policy
    entries = selected(policy, spec.observation_dim + 1)
    observed = entries < spec.observation_dim  # [inputs]
    index = graph.constant("context_entries", entries[observed])
    context = graph.add("Gather", "context", INPUTS[0], index, axis=1)  # [B, inputs]
    with torch.no_grad():
        at_start = policy.standardize(torch.zeros_like(policy.standardize.mean)).cpu() * ~observed  # [inputs]
    params = network(graph, policy, context, observed, at_start)
    times = torch.arange(1, spec.horizon + 1, dtype=torch.float64) * spec.dt
    _primitive(graph, learner.primitive, params, times)


def _primitive(graph: Graph, primitive: Primitive, params: str, times: Tensor) -> None:
    """Desired positions and velocities, [B, T, D], from parameters, [B, P], and the measured state."""
    basis = primitive.basis(times, 0.0, times)  # [T, 2, E]
    state = basis[..., -2:].clone()  # [T, 2, 2]
    if primitive.relative_goal:
        state[..., 0] += basis[..., primitive.num_columns - 1]  # the goal counts from the initial position
    psi = torch.cat((primitive.design(basis), state), dim=-1)  # [T, 2, E]
    columns = graph.constant("parameters_shape", np.array([-1, primitive.num_dof, primitive.num_columns]))
    one = graph.constant("state_shape", np.array([-1, primitive.num_dof, 1]))
    parts = [graph.add("Reshape", "parameters", params, columns)]  # [B, D, G]
    parts += [graph.add("Reshape", f"initial_{name}", name, one) for name in INPUTS[1:]]  # [B, D, 1] each
    coefficients = graph.add("Concat", "coefficients", *parts, axis=2)  # [B, D, E]
    for number, name in enumerate(OUTPUTS):
        matrix = graph.constant(f"{name}_basis", psi[:, number].T)  # [E, T]
        moved = graph.add("MatMul", f"{name}_by_dof", coefficients, matrix)  # [B, D, T]
        graph.add("Transpose", name, moved, perm=[0, 2, 1])
