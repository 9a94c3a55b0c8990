"""A policy's mean and its movement primitive as one ONNX graph.

    observation ─► select, standardise ─► network ─► parameters ─┐
    position, velocity ──────────────────────────────────────────┴─► Psi ─► desired positions and velocities

Given the state it starts from, a movement is linear in its parameters (`primitives/interface.py`), so that the
primitive is two products with constant matrices. Everything is float32, and the first axis is a batch of any size.

Axes: `B` plans, `S` observation entries, `P = D * G` parameters, `D` degrees of freedom, `T` times, `E = G + 2` with
the initial position and velocity.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from top_erl.algorithms.episodic import EpisodicLearner
from top_erl.errors import UserError, missing_extra
from top_erl.models.policy import GaussianPolicy
from top_erl.models.standardizer import LIMIT
from top_erl.primitives import Primitive
from top_erl.runtime.backends import INPUTS, OUTPUTS

_OPSET, _IR = 17, 8
"""Old enough for runtimes of 2022, and all that is needed."""


class _Graph:
    """Operations and constants in the order in which they are added."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, NDArray[Any]] = {}

    def constant(self, name: str, values: Tensor | NDArray[Any]) -> str:
        """Add a constant: whole numbers as int64, others as float32."""
        array = values.detach().cpu().numpy() if isinstance(values, Tensor) else values
        whole = np.issubdtype(array.dtype, np.integer)
        self.constants[name] = np.ascontiguousarray(array, dtype=np.int64 if whole else np.float32)
        return name

    def add(self, kind: str, name: str, *inputs: str, **attributes: Any) -> str:
        """Add an operation; returns the name of its output."""
        from onnx import helper

        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=f"{name}_{kind}", **attributes))
        return name


def policy_graph(learner: EpisodicLearner) -> bytes:
    """The graph of a learner's policy, as the bytes of an ONNX file."""
    try:
        import onnx
        from onnx import TensorProto, helper, numpy_helper
    except ImportError:
        raise missing_extra("onnx", "export", "Exporting a policy") from None
    spec, graph = learner.collector.spec, _Graph()
    params = _network(graph, learner.policy, spec.observation_dim)
    times = torch.arange(1, spec.horizon + 1, dtype=torch.float64) * spec.dt
    _primitive(graph, learner.primitive, params, times)
    sizes = (spec.observation_dim, spec.num_dof, spec.num_dof)
    described = [
        *(
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", size])
            for name, size in zip(INPUTS, sizes, strict=True)
        ),
        *(
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", spec.horizon, spec.num_dof])
            for name in OUTPUTS
        ),
    ]
    constants = [numpy_helper.from_array(values, name) for name, values in graph.constants.items()]
    whole = helper.make_graph(graph.nodes, "policy", described[:3], described[3:], constants)
    opset = helper.make_opsetid("", _OPSET)
    model = helper.make_model(whole, producer_name="top_erl", opset_imports=[opset], ir_version=_IR)
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())


def _network(graph: _Graph, policy: GaussianPolicy, observation_dim: int) -> str:
    """The mean of the parameters, [B, P]. The state's last entry, the time, is 0: it goes into the first bias."""
    inputs = policy.select(torch.arange(observation_dim + 1, device=policy.raw_covariance.device)).cpu()
    observed = inputs < observation_dim  # [inputs]
    value = graph.add(
        "Gather", "context", INPUTS[0], graph.constant("context_entries", inputs[observed]), axis=1
    )  # [B, inputs]
    standardize = policy.standardize
    if bool(standardize.fitted):
        mean, spread = (values.cpu()[observed] for values in (standardize.mean, standardize.spread))
        limit = np.float32(LIMIT)
        value = graph.add("Sub", "centred", value, graph.constant("context_mean", mean))
        value = graph.add("Div", "scaled", value, graph.constant("context_spread", spread))
        bounds = graph.constant("lower", -np.array(limit)), graph.constant("upper", np.array(limit))
        value = graph.add("Clip", "standardised", value, *bounds)
    with torch.no_grad():
        at_start = standardize(torch.zeros_like(standardize.mean)).cpu() * ~observed  # [inputs]
    for number, layer in enumerate(policy.mean_net):
        if not isinstance(layer, nn.Linear):
            value = _activation(graph, layer, f"hidden_{number}", value)
            continue
        weight, bias = layer.weight.detach().cpu(), layer.bias.detach().cpu()
        if number == 0:
            weight, bias = weight[:, observed], bias + weight @ at_start
        factors = graph.constant(f"weight_{number}", weight.T), graph.constant(f"bias_{number}", bias)
        value = graph.add("Gemm", f"layer_{number}", value, *factors)
    return value


def _activation(graph: _Graph, layer: nn.Module, name: str, value: str) -> str:
    """An activation of `models/mlp.py`."""
    if isinstance(layer, nn.LeakyReLU):
        return graph.add("LeakyRelu", name, value, alpha=layer.negative_slope)
    if isinstance(layer, (nn.ReLU, nn.Tanh)):
        return graph.add("Relu" if isinstance(layer, nn.ReLU) else "Tanh", name, value)
    raise UserError(f"A network with {type(layer).__name__} cannot be exported.")


def _primitive(graph: _Graph, primitive: Primitive, params: str, times: Tensor) -> None:
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
