"""What the graphs of policies are made of: operations and constants, and the network of a policy's mean.

Axes: `B` plans, `P` primitive parameters.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from top_erl.errors import UserError
from top_erl.models.policy import GaussianPolicy
from top_erl.models.standardizer import LIMIT
from top_erl.runtime.backends import INPUTS


class Graph:
    """Operations and constants in the order in which they are added."""

    def __init__(self) -> None:
        self.inputs: tuple[str, ...] = INPUTS
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


def selected(policy: GaussianPolicy, size: int) -> Tensor:
    """Which entries of its input, of so many, a policy sees, [inputs]."""
    return policy.select(torch.arange(size, device=policy.raw_covariance.device)).cpu()


def network(
    graph: Graph, policy: GaussianPolicy, value: str, given: Tensor | None = None, constant: Tensor | None = None
) -> str:
    """The mean of the parameters, [B, P].

    Args:
        graph: Gets the operations.
        policy: The policy.
        value: Name of its inputs in the graph, [B, inputs].
        given: Which of the policy's inputs these are, bool; None: all.
        constant: Standardised values of the others, and 0 for these.
    """
    standardize = policy.standardize
    given = torch.ones(len(standardize.mean), dtype=torch.bool) if given is None else given
    if bool(standardize.fitted):
        mean, spread = (values.cpu()[given] for values in (standardize.mean, standardize.spread))
        limit = np.float32(LIMIT)
        value = graph.add("Sub", "centred", value, graph.constant("context_mean", mean))
        value = graph.add("Div", "scaled", value, graph.constant("context_spread", spread))
        bounds = graph.constant("lower", -np.array(limit)), graph.constant("upper", np.array(limit))
        value = graph.add("Clip", "standardised", value, *bounds)
    for number, layer in enumerate(policy.mean_net):
        if not isinstance(layer, nn.Linear):
            value = _activation(graph, layer, f"hidden_{number}", value)
            continue
        weight, bias = layer.weight.detach().cpu(), layer.bias.detach().cpu()
        if number == 0:
            bias = bias if constant is None else bias + weight @ constant
            weight = weight[:, given]
        factors = graph.constant(f"weight_{number}", weight.T), graph.constant(f"bias_{number}", bias)
        value = graph.add("Gemm", f"layer_{number}", value, *factors)
    return value


def _activation(graph: Graph, layer: nn.Module, name: str, value: str) -> str:
    """An activation of `models/mlp.py`."""
    if isinstance(layer, nn.LeakyReLU):
        return graph.add("LeakyRelu", name, value, alpha=layer.negative_slope)
    if isinstance(layer, (nn.ReLU, nn.Tanh)):
        return graph.add("Relu" if isinstance(layer, nn.ReLU) else "Tanh", name, value)
    raise UserError(f"A network with {type(layer).__name__} cannot be exported.")
