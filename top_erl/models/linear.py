"""Linear layers whose products can be computed in bfloat16 while everything else stays in float32."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as fn


class Linear(nn.Linear):
    """`nn.Linear` with float32 weights; with `low_precision` its matrix products round their inputs to bfloat16."""

    low_precision = False

    def forward(self, data: Tensor) -> Tensor:
        """Apply the layer, [..., in] to [..., out]."""
        return self.rows(data, slice(None))

    def rows(self, data: Tensor, outputs: slice) -> Tensor:
        """Some of the layer's outputs only, [..., in] to [..., len(outputs)]."""
        weight, bias = self.weight[outputs], self.bias[outputs] if self.bias is not None else None
        if not self.low_precision:
            return fn.linear(data, weight, bias)
        product: Tensor = _Bfloat16Product.apply(data, weight)  # type: ignore[no-untyped-call]
        return product if bias is None else product + bias


class _Bfloat16Product(torch.autograd.Function):
    """data @ weightᵀ in bfloat16 with float32 in and out, forward and backward."""

    @staticmethod
    def forward(ctx: Any, data: Tensor, weight: Tensor) -> Tensor:
        low_data, low_weight = data.bfloat16(), weight.bfloat16()
        ctx.save_for_backward(low_data, low_weight)
        return fn.linear(low_data, low_weight).float()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None]:
        low_data, low_weight = ctx.saved_tensors
        gradient = gradients[0].bfloat16()
        wanted_data, wanted_weight = ctx.needs_input_grad
        for_data = (gradient @ low_weight).float() if wanted_data else None
        if not wanted_weight:
            return for_data, None
        rows = gradient.reshape(-1, gradient.shape[-1])
        return for_data, (rows.T @ low_data.reshape(-1, low_data.shape[-1])).float()
