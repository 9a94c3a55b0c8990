"""Optimisers as the authors set them up, and their state as plain tensors."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def adam_w(module: nn.Module, rate: float, decay: float) -> torch.optim.Optimizer:
    """AdamW with decoupled decay on matrices only; biases and normalisation are left alone."""
    matrices = [p for p in module.parameters() if p.dim() >= 2]
    vectors = [p for p in module.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": decay}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW([group for group in groups if group["params"]], lr=rate, fused=True)


def adam(module: nn.Module, rate: float, decay: float) -> torch.optim.Optimizer:
    """Adam with coupled (L2) decay on everything."""
    return torch.optim.Adam(module.parameters(), lr=rate, weight_decay=decay, fused=True)


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Flatten the optimiser's moments and step counts to `index.name` → tensor."""
    state = optimizer.state_dict()["state"]
    return {f"{index}.{name}": value for index, entry in state.items() for name, value in entry.items()}


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Put back what `optimizer_tensors` flattened; rates and decays stay as configured."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        index, name = key.split(".", 1)
        state.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
